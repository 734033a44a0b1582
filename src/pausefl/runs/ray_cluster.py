"""Runs on a Ray cluster: each is a task that plays on some node, and its folder follows at every checkpoint.

This is the only file that imports Ray.  Which files travel is the matter of :mod:`~pausefl.runs.remote_folder`.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pausefl.errors import ConfigError, MissingExtraError, WorkerError, require
from pausefl.runs.config import Config
from pausefl.runs.parallel import Progress, Task
from pausefl.runs.play import finished_run
from pausefl.runs.read_folder import last_record, read_run
from pausefl.runs.remote_folder import Piece, add_piece, packed, play_away
from pausefl.runs.run_data import RunData
from pausefl.runs.travelling_code import Baggage, baggage_of, unpack
from pausefl.system.lock import only_writer

if TYPE_CHECKING:
    from ray import ObjectRefGenerator

_AHEAD = 2
"""How many checkpoints a worker may be ahead of what has been fetched."""
_PATIENCE = 10.0
"""How many seconds a cluster has to answer a first knock."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # a node that dies is told in one line of ours; Ray's would go to stdout
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what a later Ray does anyway, without a warning
}


@dataclass(frozen=True)
class RayCluster:
    """Plays runs on the nodes of a Ray cluster, as many at a time as it has processors.

    ``address`` is what ``ray start --head`` prints (``HOST:6379``), ``auto`` on a node of the cluster, or ``local`` for
    this machine alone.  If a worker or its node dies, its run goes on elsewhere from the last checkpoint, at most
    ``retries`` times, and ``say`` is told a line.  ``playing`` has the node of each run that has begun, by position.
    """

    address: str
    retries: int = 3
    say: Callable[[str], None] = lambda line: None
    playing: dict[int, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        require(
            not self.address.startswith("ray://"), "Ray address", self.address, "HOST:PORT, 'auto' or 'local'",
            "run this on a node of the cluster, because a Ray client cannot stream checkpoints",
        )  # fmt: skip

    def play(self, tasks: Sequence[Task], data_dir: Path | None, told: Progress | None) -> list[RunData]:
        """Play all tasks into their folders; return the runs in order."""
        done = {i: run for i, task in enumerate(tasks) if (run := finished_run(task.config, task.out)) is not None}
        waiting = [i for i in range(len(tasks)) if i not in done]
        if waiting:
            with ExitStack() as held:
                for i in waiting:
                    tasks[i].out.mkdir(parents=True, exist_ok=True)
                    held.enter_context(only_writer(tasks[i].out / "lock", tasks[i].out, "use another folder"))
                held.enter_context(connected(self.address))
                self._play(tasks, waiting, data_dir, told)
        return [done[i] if i in done else read_run(task.out) for i, task in enumerate(tasks)]

    def _play(
        self, tasks: Sequence[Task], waiting: Sequence[int], data_dir: Path | None, told: Progress | None
    ) -> None:
        import ray

        baggage = baggage_of([tasks[i].config for i in waiting])
        streams = {self._begin(tasks[i], data_dir, baggage): i for i in waiting}
        lost: dict[int, int] = {}
        while streams:
            ready, _ = ray.wait(list(streams), num_returns=1, timeout=None, fetch_local=False)
            stream: Any = ready[0]
            i = streams[stream]
            try:
                self.playing[i], piece = ray.get(next(stream))
            except StopIteration:
                del streams[stream]
                continue
            except ray.exceptions.RayTaskError as error:
                raise _told_by(error) from None
            except ray.exceptions.RayError as error:
                del streams[stream]
                lost[i] = lost.get(i, 0) + 1
                streams[self._again(tasks[i], data_dir, baggage, lost[i], error)] = i
                continue
            add_piece(tasks[i].out, piece)
            if told is not None and (record := last_record(tasks[i].out)) is not None:
                told(i, record)

    def _begin(self, task: Task, data_dir: Path | None, baggage: Baggage) -> ObjectRefGenerator:
        import ray

        # Ray itself must not repeat a task: it would begin with the files of the first attempt.
        play: Any = ray.remote(_play_on_worker)
        options = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        stream: ObjectRefGenerator = play.options(**options, _generator_backpressure_num_objects=_AHEAD).remote(
            task.config, packed(task.out), data_dir, baggage
        )
        return stream

    def _again(
        self, task: Task, data_dir: Path | None, baggage: Baggage, times: int, error: Exception
    ) -> ObjectRefGenerator:
        why = type(error).__name__
        if times > self.retries:
            raise WorkerError(
                f"{task.out} lost its worker {times} times ({why}); run the same command again to continue"
            )
        if _processors() < 1.0:
            raise WorkerError(
                f"{task.out} lost its worker ({why}), and no other node is left; run the same command again to continue"
            )
        record = last_record(task.out)
        at = 0 if record is None else record["round"]
        self.say(
            f"{task.out}: its worker died ({why}); the run continues after round {at} on another worker (retry {times} "
            f"of {self.retries})"
        )
        return self._begin(task, data_dir, baggage)


def _play_on_worker(
    config: Config, before: dict[str, bytes], data_dir: Path | None, baggage: Baggage
) -> Iterator[tuple[str, Piece]]:
    """Play one run; what it adds to its folder is sent back at each checkpoint, with the name of the node."""
    import ray

    unpack(baggage, ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
    here = ray.get_runtime_context().get_node_id()
    for piece in play_away(config, before, data_dir):
        yield here, piece


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be connected to a cluster that has processors; a connection that was there before is used and left."""
    for name, value in _QUIET.items():  # Ray reads them when it is imported
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a Ray cluster needs the 'ray' extra; run: pip install 'pausefl[ray]'") from None
    ours = not ray.is_initialized()
    if ours:
        _require_somebody(address)
        try:
            ray.init(
                address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=_dashboard(address)
            )
        except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
            raise _not_there(address, error) from None
    try:
        if _processors() < 1.0:
            raise ConfigError(f"the Ray cluster at {address!r} has no processor; start a node with 'ray start'")
        yield
    finally:
        if ours:
            ray.shutdown()


def _require_somebody(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself would go on trying for minutes."""
    host, colon, port = address.rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or not port.isdigit():
        raise ConfigError(
            f"Ray address is {address!r}, but must be HOST:PORT, 'auto' or 'local'; 'ray start' prints it"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _not_there(address, error) from None


def _not_there(address: str, error: Exception) -> ConfigError:
    said = " ".join(str(error).split())[:160]
    return ConfigError(
        f"no Ray cluster can be used at {address!r} ({said}); start one with 'ray start --head', run this on one of "
        "its nodes, and pass its HOST:PORT"
    )


def _processors() -> float:
    import ray

    return float(ray.cluster_resources().get("CPU", 0.0))  # type: ignore[no-untyped-call]


def _dashboard(address: str) -> bool | None:
    return False if address == "local" else None  # a cluster that runs has one or not


def _told_by(error: Any) -> BaseException:
    """Return what a worker raised, as if it had been raised here."""
    cause: BaseException = error.cause
    if isinstance(cause, ModuleNotFoundError) and (cause.name or "").partition(".")[0] == "pausefl":
        return ConfigError("a node of the Ray cluster has no pausefl; install the same pausefl[learn] on every node")
    return cause
