"""What a server app needs to go on after a crash: a checkpoint that is whole or not there, and a journal beside it.

The checkpoint ``NAME`` holds what changes: model, selector, inner strategy.  The journal ``NAME.rounds`` holds what is
past, a line per round, and is written once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import numpy.typing as npt
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from pausefl.errors import StateFileError
from pausefl.flower.protocol import record_of, views_of
from pausefl.flower.server.inner_strategy import check_keepable, inner_state, restore_inner
from pausefl.flower.server.journal import KIND, Journal, Mark
from pausefl.flower.server.training_rounds import PlayedRound, RunState
from pausefl.privacy.aggregation import Aggregator
from pausefl.selector import Selector
from pausefl.selector.deadline import Deadline
from pausefl.system.lock import only_writer
from pausefl.system.state_file import arrays_under, read_state, write_state
from pausefl.types import ClientId


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What the files of a run hold: its state, the selector's state, the strategy's arrays, and the journal's length.

    Attributes:
        state: Where the run stands: its model, its history, and whose budget is gone.
        selector: The state of the selector, as ``Selector.state`` returns it.
        inner: The arrays of the inner strategy.
        mark: How much of the journal counts.
        aggregator: What an :class:`~pausefl.privacy.aggregation.Aggregator` remembers of the rounds.
        deadline: What a :class:`~pausefl.selector.deadline.Deadline` has learned.

    ``read`` is for people and tools that want to look into a run; a strategy resumes by itself.

    >>> import tempfile
    >>> import numpy as np
    >>> state = RunState("trial", result=Result(arrays=record_of({"layer": np.zeros(3)})))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(state, ({}, {}), {}, Mark()).write(f"{folder}/run")
    ...     found = Checkpoint.read(f"{folder}/run")
    >>> found.run, found.round, found.history, found.exhausted
    ('trial', 0, (), frozenset())
    """

    state: RunState
    selector: tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]]
    inner: Mapping[str, npt.NDArray[Any]]
    mark: Mark
    aggregator: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    deadline: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

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
        """Read a checkpoint and its journal; damaged files, and files of another kind, are refused."""
        values, arrays = read_state(path, KIND)
        mark, model = Mark(*values["journal"]), arrays_under("model", arrays)
        tensors = {name: model[name].reshape(shape) for name, shape in values["shapes"].items()}
        state = RunState(values["run"], values["round"], Result(arrays=record_of(tensors)))
        state.exhausted.update(values["exhausted"])
        state.planned, state.ended = values.get("planned"), values.get("ended", False)
        state.warm.update(values.get("warm", ()))
        state.open += [(client, number) for client, number in values.get("open", ())]
        for entry in Journal(path).read(mark):
            state.add_round(entry)
        return Checkpoint(
            state, (values["selector"], arrays_under("selector", arrays)), arrays_under("inner", arrays), mark,
            arrays_under("aggregator", arrays), arrays_under("deadline", arrays),
        )  # fmt: skip

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the checkpoint, atomically and durably; the journal must be up to date before."""
        (header, columns), model = self.selector, views_of(self.state.model)
        values = {
            "run": self.state.name, "round": self.state.rounds, "selector": dict(header),
            "shapes": {name: list(tensor.shape) for name, tensor in model.items()},
            "exhausted": sorted(self.state.exhausted, key=str), "journal": [self.mark.length, self.mark.checksum],
            "warm": sorted(self.state.warm), "open": [list(one) for one in self.state.open],
            "planned": self.state.planned, "ended": self.state.ended,
        }  # fmt: skip
        arrays = {f"model.{name}": tensor for name, tensor in model.items()}
        arrays |= {f"selector.{name}": column for name, column in columns.items()}
        arrays |= {f"inner.{name}": array for name, array in self.inner.items()}
        arrays |= {f"aggregator.{name}": array for name, array in self.aggregator.items()}
        arrays |= {f"deadline.{name}": array for name, array in self.deadline.items()}
        write_state(path, KIND, values, arrays)


class Checkpoints:
    """Saves a run after each round and finds it again; without a ``path`` it does neither.

    With an ``open_list`` of clients, those that had joined by the time of the checkpoint are clients again.
    """

    def __init__(
        self, path: Path | None, selector: Selector, inner: Strategy, aggregator: Aggregator,
        deadline: Deadline | None = None, *, open_list: bool = False,
    ) -> None:  # fmt: skip
        if path is not None:
            check_keepable(inner)
        self.path, self._selector, self._inner, self._aggregator = path, selector, inner, aggregator
        self._mark, self._deadline, self._open_list = Mark(), deadline, open_list

    def held(self) -> AbstractContextManager[None]:
        """Keep other servers off the file for the time of a run."""
        if self.path is None:
            return nullcontext()
        target = Path(os.path.realpath(self.path))  # one file has one lock, by whatever link it is called
        return only_writer(target.with_name(f"{target.name}.lock"), self.path, "use another file")

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
                log(WARNING, "pausefl: %s does not exist, but its journal does; the journal is now %s", self.path, old)
            return None
        found = Checkpoint.read(self.path)
        if _shapes(found.state.model) != _shapes(initial):
            raise StateFileError(f"{self.path} holds another model than the one to start from; use another file")
        self._selector.restore(*found.selector, open_list=self._open_list)
        restore_inner(self._inner, found.inner)
        self._aggregator.restore(found.aggregator)
        if self._deadline is not None:
            self._deadline.restore(found.deadline)
        journal.cut(found.mark)
        self._mark = found.mark
        log(INFO, "pausefl: the run continues after round %s of %s", found.round, self.path)
        return found.state

    def announce(self, number: int, clients: Sequence[ClientId]) -> None:
        """Note who is asked in the round that begins, for people who watch."""
        if self.path is not None:
            Journal(self.path).announce(self._mark, number, clients)

    def save(self, state: RunState) -> None:
        """Write down the latest round, and then the checkpoint that counts it."""
        if self.path is not None and state.rounds:
            self._mark = Journal(self.path).append(self._mark, state.latest_round())
        self.write(state)

    def write(self, state: RunState) -> None:
        """Write the checkpoint of a state whose rounds are in the journal already."""
        if self.path is None:
            return
        learned = {} if self._deadline is None else self._deadline.state()
        Checkpoint(
            state, self._selector.state(), inner_state(self._inner), self._mark, self._aggregator.state(), learned
        ).write(self.path)


def _shapes(model: ArrayRecord) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in model.items()}
