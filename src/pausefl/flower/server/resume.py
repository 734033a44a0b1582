"""Where a run goes on: from its checkpoint to the parts that play it, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from logging import INFO, WARNING
from pathlib import Path

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from pausefl.errors import StateFileError
from pausefl.flower.arrays import record_of
from pausefl.flower.server.checkpoint import Checkpoint
from pausefl.flower.server.history import Played
from pausefl.flower.server.inner import check_keepable, inner_state, restore_inner
from pausefl.flower.server.journal import Journal, Mark
from pausefl.flower.server.loop import Progress
from pausefl.selector import Selector
from pausefl.system.lock import only_writer
from pausefl.types import ClientId


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """What a checkpoint says of a run, beside what selector and inner strategy have taken over already."""

    run: str
    progress: Progress
    history: tuple[Played, ...]
    exhausted: tuple[ClientId, ...]


class Keeper:
    """Keeps selector, inner strategy and progress of a run in a file, and its rounds in a journal, if it is to."""

    def __init__(self, path: Path | None, selector: Selector, inner: Strategy) -> None:
        if path is not None:
            check_keepable(inner)
        self.path, self._selector, self._inner = path, selector, inner
        self._mark = Mark()

    def held(self) -> AbstractContextManager[None]:
        """Keep other servers off the file for the time of a run."""
        if self.path is None:
            return nullcontext()
        target = Path(os.path.realpath(self.path))  # one file has one lock, by whatever link it is called
        return only_writer(target.with_name(f"{target.name}.lock"), self.path, "name another file")

    def resume(self, initial: ArrayRecord) -> Resumed | None:
        """Take over what the file says; None if there is none.  One of another model is refused."""
        self._mark = Mark()
        if self.path is None:
            return None
        if not self.path.exists():
            if (old := Journal(self.path).set_aside()) is not None:
                log(WARNING, "pausefl: %s is gone, but not its journal; that is now %s", self.path, old)
            return None
        found = Checkpoint.read(self.path)
        shapes = {name: tuple(tensor.shape) for name, tensor in found.model.items()}
        if shapes != {name: tuple(array.shape) for name, array in initial.items()}:
            raise StateFileError(f"{self.path} holds another model than the one to start from; name another file")
        self._selector.restore(*found.selector)
        restore_inner(self._inner, found.inner)
        Journal(self.path).cut(found.mark)
        self._mark = found.mark
        log(INFO, "pausefl: goes on after round %s of %s", found.round, self.path)
        progress = Progress.of(found.round, record_of(found.model), found.metrics)
        return Resumed(found.run, progress, found.history, found.exhausted)

    def save(self, run: str, progress: Progress, exhausted: Iterable[ClientId], played: Played | None) -> None:
        """Write down the round ``played``, and then the checkpoint that counts it."""
        if self.path is None:
            return
        if played is not None:
            entry = {"played": played.plain(), "metrics": progress.metrics()}
            self._mark = Journal(self.path).append(self._mark, entry)
        model = {name: array.numpy() for name, array in progress.arrays.items()}
        gone = tuple(sorted(exhausted, key=str))
        Checkpoint(
            run, progress.round, model, self._selector.state(), inner_state(self._inner), gone, self._mark
        ).write(self.path)
