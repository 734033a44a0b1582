"""What a server app needs to go on after a crash: a checkpoint that is whole or not there, and a journal beside it.

The checkpoint ``NAME`` holds what changes: model, selector, inner strategy.  The journal ``NAME.rounds`` holds what is
past, a line per round, and is written once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from logging import INFO, WARNING
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy.typing as npt
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from pausefl.errors import StateFileError
from pausefl.flower.protocol import record_of, tensors_of
from pausefl.flower.server.inner_strategy import check_keepable, inner_state, restore_inner
from pausefl.flower.server.training_rounds import PlayedRound, RunState
from pausefl.privacy.aggregation import Aggregator
from pausefl.selector import Selector
from pausefl.system.lock import only_writer
from pausefl.system.state_file import arrays_under, read_state, sync_folder, write_state
from pausefl.types import ClientId

_KIND = "flower run with a journal"


@dataclass(frozen=True, slots=True)
class Mark:
    """How much of a journal counts: its first ``length`` bytes, which have this ``checksum``."""

    length: int = 0
    checksum: int = 0


class Journal:
    """The file ``NAME.rounds`` of a checkpoint ``NAME``.

    Law: the checkpoint's mark says what counts.  A line is on the disk before the checkpoint that counts it; whatever
    lies beyond the mark is of a round that did not come to its end, or of another run, and is cut off.  So a crash at
    any instant leaves a checkpoint and a journal that fit each other.
    """

    __slots__ = ("_checkpoint", "path")

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self._checkpoint = Path(os.path.realpath(checkpoint))  # beside the file itself, by whatever link it is called
        self.path = self._checkpoint.with_name(f"{self._checkpoint.name}.rounds")

    def append(self, mark: Mark, entry: Mapping[str, Any]) -> Mark:
        """Write a line after the mark, durably; return the mark that counts it."""
        line = json.dumps(dict(entry), allow_nan=False).encode() + b"\n"
        self._check(mark)
        # Whoever may read the checkpoint may read the journal.
        mode = self._checkpoint.stat().st_mode & 0o777 if self._checkpoint.exists() else 0o600
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode), "r+b") as file:
            file.truncate(mark.length)
            file.seek(mark.length)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not mark.length:
            sync_folder(self.path.parent)
        return Mark(mark.length + len(line), crc32(line, mark.checksum))

    def read(self, mark: Mark) -> list[dict[str, Any]]:
        """Return the entries up to the mark; a file that is missing, too short or altered is refused."""
        self._check(mark)
        if not mark.length:
            return []
        with self.path.open("rb") as file:
            counted = file.read(mark.length)
        if crc32(counted) != mark.checksum:
            raise self._refused("was altered (checksum differs)")
        return [json.loads(line) for line in counted.splitlines()]

    def cut(self, mark: Mark) -> None:
        """Drop what lies beyond the mark."""
        if self.path.exists() and self.path.stat().st_size > mark.length:
            os.truncate(self.path, mark.length)

    def set_aside(self) -> Path | None:
        """Rename what an earlier run left here, so that a new one begins without it; return its new name."""
        if not self.path.exists():
            return None
        names = (self.path.with_name(f"{self.path.name}.old-{number}") for number in count(1))
        return self.path.replace(next(name for name in names if not name.exists()))

    def _check(self, mark: Mark) -> None:
        if not mark.length:
            return
        if not self.path.exists():
            raise self._refused("is missing")
        found = self.path.stat().st_size
        if found < mark.length:
            raise self._refused(f"has {found} bytes, fewer than the {mark.length} that count")

    def _refused(self, fault: str) -> StateFileError:
        return StateFileError(
            f"{self.path} {fault}, but {self._checkpoint} needs it; restore both from one backup, or name another file"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What the files say of a run: its state, the selector's, the strategy's arrays, and how much is journal.

    ``aggregator`` is what an :class:`~pausefl.privacy.aggregation.Aggregator` remembers of the rounds.

    ``read`` is for people and tools that want to look into a run; a strategy resumes by itself.
    """

    state: RunState
    selector: tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]]
    inner: Mapping[str, npt.NDArray[Any]]
    mark: Mark
    aggregator: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The name under which the run's releases are charged."""
        return self.state.name

    @property
    def round(self) -> int:
        """How many rounds are complete."""
        return self.state.rounds

    @property
    def history(self) -> tuple[PlayedRound, ...]:
        """What happened in each round."""
        return tuple(self.state.history)

    @property
    def exhausted(self) -> frozenset[ClientId]:
        """The clients whose budget is gone."""
        return frozenset(self.state.exhausted)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Checkpoint:
        """Read a checkpoint and its journal; what is damaged or of another kind is refused."""
        values, arrays = read_state(path, _KIND)
        mark, model = Mark(*values["journal"]), arrays_under("model", arrays)
        tensors = {name: model[name].reshape(shape) for name, shape in values["shapes"].items()}
        state = RunState(values["run"], values["round"], Result(arrays=record_of(tensors)))
        state.exhausted.update(values["exhausted"])
        for entry in Journal(path).read(mark):
            state.add_round(entry)
        return Checkpoint(
            state, (values["selector"], arrays_under("selector", arrays)), arrays_under("inner", arrays), mark,
            arrays_under("aggregator", arrays),
        )  # fmt: skip

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the checkpoint, atomically and durably; the journal is as it should be already."""
        (header, columns), model = self.selector, tensors_of(self.state.model)
        values = {
            "run": self.state.name, "round": self.state.rounds, "selector": dict(header),
            "shapes": {name: list(tensor.shape) for name, tensor in model.items()},
            "exhausted": sorted(self.state.exhausted, key=str), "journal": [self.mark.length, self.mark.checksum],
        }  # fmt: skip
        arrays = {f"model.{name}": tensor for name, tensor in model.items()}
        arrays |= {f"selector.{name}": column for name, column in columns.items()}
        arrays |= {f"inner.{name}": array for name, array in self.inner.items()}
        arrays |= {f"aggregator.{name}": array for name, array in self.aggregator.items()}
        write_state(path, _KIND, values, arrays)


class Checkpoints:
    """Saves a run after each round and finds it again; without a ``path`` it does neither."""

    def __init__(self, path: Path | None, selector: Selector, inner: Strategy, aggregator: Aggregator) -> None:
        if path is not None:
            check_keepable(inner)
        self.path, self._selector, self._inner, self._aggregator = path, selector, inner, aggregator
        self._mark = Mark()

    def held(self) -> AbstractContextManager[None]:
        """Keep other servers off the file for the time of a run."""
        if self.path is None:
            return nullcontext()
        target = Path(os.path.realpath(self.path))  # one file has one lock, by whatever link it is called
        return only_writer(target.with_name(f"{target.name}.lock"), self.path, "name another file")

    def resume(self, initial: ArrayRecord) -> RunState | None:
        """Bring selector and inner strategy to where the file says, and return the run's state; None without a file.

        A checkpoint of another model than the ``initial`` one is refused.
        """
        self._mark = Mark()
        if self.path is None:
            return None
        journal = Journal(self.path)
        if not self.path.exists():
            if (old := journal.set_aside()) is not None:
                log(WARNING, "pausefl: %s is gone, but not its journal; that is now %s", self.path, old)
            return None
        found = Checkpoint.read(self.path)
        if _shapes(found.state.model) != _shapes(initial):
            raise StateFileError(f"{self.path} holds another model than the one to start from; name another file")
        self._selector.restore(*found.selector)
        restore_inner(self._inner, found.inner)
        self._aggregator.restore(found.aggregator)
        journal.cut(found.mark)
        self._mark = found.mark
        log(INFO, "pausefl: goes on after round %s of %s", found.round, self.path)
        return found.state

    def save(self, state: RunState) -> None:
        """Write down the latest round, and then the checkpoint that counts it."""
        if self.path is None:
            return
        if state.rounds:
            self._mark = Journal(self.path).append(self._mark, state.latest_round())
        Checkpoint(state, self._selector.state(), inner_state(self._inner), self._mark, self._aggregator.state()).write(
            self.path
        )


def _shapes(model: ArrayRecord) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in model.items()}
