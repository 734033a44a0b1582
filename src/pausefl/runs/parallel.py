"""Several runs side by side, here or elsewhere; the result does not depend on where, nor on how many at once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

from pausefl.errors import ConfigError, WorkerError
from pausefl.runs.config import ONE_RUN, Config, SelectionSection, differences
from pausefl.runs.play import require_same_run, run
from pausefl.runs.policy import is_own, try_policy
from pausefl.runs.read_folder import last_record
from pausefl.runs.run_data import RunData
from pausefl.system.child_processes import follow_parent

Progress = Callable[[int, Mapping[str, Any]], None]
"""Told (which run, the record of its last round)."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run and its folder."""

    config: Config
    out: Path


class Players(Protocol):
    """Where runs are played.  Law: the folders and the runs are the same to the bit, wherever that is."""

    def play(self, tasks: Sequence[Task], data_dir: Path | None, told: Progress | None) -> list[RunData]:
        """Play all tasks into their folders; return the runs in order."""
        ...


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """Plays runs on this machine, ``jobs`` of them at a time, each in a process of its own."""

    jobs: int = 1

    def play(self, tasks: Sequence[Task], data_dir: Path | None, told: Progress | None) -> list[RunData]:
        """Play all tasks into their folders; return the runs in order."""
        if self.jobs == 1 or len(tasks) == 1:
            tell = told or (lambda _which, _record: None)
            return [
                run(task.config, task.out, data_dir=data_dir, jobs=self.jobs, watch=partial(tell, i))
                for i, task in enumerate(tasks)
            ]
        with processes(min(self.jobs, len(tasks))) as pool:
            futures = [pool.submit(run, task.config, task.out, data_dir=data_dir) for task in tasks]
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                for i, task in enumerate(tasks):
                    if told is not None and (record := last_record(task.out)) is not None:
                        told(i, record)
            return [future.result() for future in futures]


def run_many(
    tasks: Sequence[Task],
    *,
    data_dir: Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    players: Players | None = None,
) -> list[RunData]:
    """Run all tasks, ``jobs`` at a time on this machine, or wherever ``players`` are; return the runs in order."""
    _require_different(tasks)
    for task in tasks:  # before anything long
        require_same_run(task.config, task.out)
    _try_policies(tasks)
    return (players or ThisMachine(jobs)).play(tasks, data_dir, progress)


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Give something that plays runs: this process alone, or so many others that end with it and when it is stopped."""
    if count == 1:
        yield _ThisProcess()
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=follow_parent) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise WorkerError(
                "a run's process died (out of memory?); run the same command again with fewer --jobs to continue"
            ) from None
        except BaseException:
            # Resumable, so there is nothing to wait for.  The pool itself ends the futures of dead processes, and
            # breaks with a traceback on one that was cancelled.
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise


class _ThisProcess(Executor):
    """Does what it is given at once; an error is raised there and then."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*arguments, **options))
        return done


def _try_policies(tasks: Sequence[Task]) -> None:
    """Let each class of the user's own play a trial, before the runs of other policies take their time."""
    tried: list[SelectionSection] = []
    for task in tasks:
        if is_own(task.config.selection) and task.config.selection not in tried:
            try_policy(task.config)
            tried.append(task.config.selection)


def _require_different(tasks: Sequence[Task]) -> None:
    """Refuse what would be one run in two folders: no table could show both."""
    for (i, one), (j, other) in combinations(enumerate(task.config for task in tasks), 2):
        if not differences(one, other, ONE_RUN):
            raise ConfigError(
                f"{tasks[i].out} and {tasks[j].out} would be the same run; leave one of them out, or set different "
                "values for them"
            )
