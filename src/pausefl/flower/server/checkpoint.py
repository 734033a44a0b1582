"""Everything a server app needs to go on after a crash: a file that is whole or not there, and a journal beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from pausefl.flower.server.history import Played
from pausefl.flower.server.journal import Journal, Mark
from pausefl.privacy.mechanisms.layers import Tensor
from pausefl.system.state_file import arrays_under, read_state, write_state
from pausefl.types import ClientId

_KIND = "flower run with a journal"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run after ``round`` complete rounds.

    ``run`` names its releases: a server that died in mid-round asks again under the same names, and clients that had
    answered send the same bytes instead of paying twice.  ``history`` and ``metrics`` are in the journal up to
    ``mark``: ``read`` brings them along, ``write`` leaves them where they are.
    """

    run: str
    round: int
    model: Mapping[str, Tensor]
    selector: tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]]
    inner: Mapping[str, npt.NDArray[Any]]
    exhausted: tuple[ClientId, ...]
    mark: Mark
    history: tuple[Played, ...] = ()
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the file, atomically and durably."""
        header, columns = self.selector
        values = {
            "run": self.run, "round": self.round, "selector": dict(header),
            "shapes": {name: list(tensor.shape) for name, tensor in self.model.items()},
            "exhausted": list(self.exhausted), "journal": [self.mark.length, self.mark.checksum],
        }  # fmt: skip
        arrays = {f"model.{name}": tensor for name, tensor in self.model.items()}
        arrays |= {f"selector.{name}": column for name, column in columns.items()}
        arrays |= {f"inner.{name}": array for name, array in self.inner.items()}
        write_state(path, _KIND, values, arrays)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Checkpoint:
        """Read a file that ``write`` made, and its journal; what is damaged or of another kind is refused."""
        values, arrays = read_state(path, _KIND)
        mark = Mark(*values["journal"])
        entries = Journal(path).read(mark)
        metrics: dict[str, dict[str, Any]] = {}
        for entry in entries:
            for name, numbered in entry["metrics"].items():
                metrics.setdefault(name, {}).update(numbered)
        model = arrays_under("model", arrays)
        return Checkpoint(
            values["run"],
            values["round"],
            {name: model[name].reshape(shape) for name, shape in values["shapes"].items()},
            (values["selector"], arrays_under("selector", arrays)),
            arrays_under("inner", arrays),
            tuple(values["exhausted"]),
            mark,
            tuple(Played.of(entry["played"]) for entry in entries),
            metrics,
        )
