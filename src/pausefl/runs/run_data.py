"""A run as numbers: a column per quantity, smoothed as in the paper, and what each client did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pausefl.errors import InvalidValueError
from pausefl.privacy.ledger.price import leaked
from pausefl.runs.config import Config
from pausefl.runs.network import build_latency
from pausefl.system.printable_text import printable
from pausefl.types import FloatArray, IntArray

_Number = TypeVar("_Number", np.float64, np.int64)

SMOOTH = 10
"""Rounds over which accuracy is averaged, as in the paper's figures."""


@dataclass(frozen=True, slots=True)
class RunData:
    """One finished or unfinished run; ``config`` is None for a curve that somebody else measured."""

    name: str
    config: Config | None
    records: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] | None
    folder: Path | None = field(default=None, compare=False)
    code: str = ""  # which version of the user's own code it was played with
    _columns: dict[tuple[str, int], npt.NDArray[Any]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    def column(self, name: str) -> FloatArray:
        """Return a number per round, ``terms.NAME`` from the terms of the reward; NaN where a round has none.

        It can only be read: a report asks for the same columns again and again, and they are worked out once.
        """
        return self._once(name, lambda: self._column(name))

    def series(self, name: str) -> FloatArray:
        """Return a column as charts show it: ``accuracy`` and ``terms.NAME`` as means of ten rounds, the rest as is."""
        if name != "accuracy" and not name.startswith("terms."):
            return self.column(name)
        return self._once(f"smoothed {name}", lambda: _smoothed(self.column(name)))

    def _column(self, name: str) -> FloatArray:
        inside, _, term = name.rpartition(".")
        rows = [record.get(inside) or {} for record in self.records] if inside else self.records
        return np.array([row.get(term) for row in rows], dtype=np.float64)  # None becomes NaN

    def _once(self, name: str, make: Callable[[], npt.NDArray[_Number]]) -> npt.NDArray[_Number]:
        """Return what was made under this name before, unless the run has gone on since."""
        key = (name, len(self.records))
        if key not in self._columns:
            self._columns[key] = made = make()
            made.flags.writeable = False
        return self._columns[key]

    @property
    def settings(self) -> Config:
        """How it was configured; a curve of somebody else's has no such thing."""
        if self.config is None:
            raise InvalidValueError(f"{self.name} is a curve without a configuration; pass a run")
        return self.config

    @property
    def guarantee(self) -> str:
        """What its leakage covers, in a sentence."""
        return printable(str((self.summary or {}).get("guarantee", "not finished yet")))

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return self.settings.network.clients

    def picks(self) -> IntArray:
        """Return how often each client took part, in an array that can only be read."""
        return self._once("picks", lambda: self._times("members"))

    def _times(self, name: str) -> IntArray:
        """Return in how many rounds each client is in this list of the records."""
        named = [int(k) for record in self.records for k in record.get(name, ())]
        return np.bincount(np.array(named, dtype=np.int64), minlength=self.clients)

    def expected_latency(self) -> FloatArray | None:
        """Return each client's expected seconds; None if only a trace knows them and the run is not finished.

        They are those of the beginning: drift, jams and congestion are not in them.
        """
        stored = self._per_client("latency")
        if stored is not None or self.settings.network.latency == "trace":
            return stored
        return build_latency(self.settings.network, self.settings.run.seed).expected()

    def sizes(self) -> FloatArray | None:
        """Return how much data each client has, once the run is finished."""
        return self._per_client("size")

    def client_accuracy(self) -> FloatArray | None:
        """Return the final model's accuracy (percent) on each client's own data, once the run is finished."""
        return self._per_client("accuracy")

    def budget_left(self) -> FloatArray | None:
        """Return the epsilon that each client may still spend; None if nothing bounds it."""
        if not self.settings.privacy.enabled:
            return None
        tellings = self._times("signals") if any("signals" in record for record in self.records) else None
        return epsilon_left(self.settings, self.picks(), tellings)

    def _per_client(self, name: str) -> FloatArray | None:
        stored = ((self.summary or {}).get("clients") or {}).get(name)
        return None if stored is None else np.array(stored, dtype=np.float64)

    def final_accuracy(self) -> float | None:
        """Return the mean score of the last ten rounds."""
        last = self.series("accuracy")[-1:]
        return None if np.isnan(last).all() else float(last[0])

    def best_accuracy(self) -> float | None:
        """Return the best single score."""
        scores = self.column("accuracy")
        return None if np.isnan(scores).all() else float(np.nanmax(scores))

    def time_to(self, target: float) -> float | None:
        """Return the clock when the smoothed accuracy first reached the target."""
        reached = np.flatnonzero(self.series("accuracy") >= target)
        return float(self.column("seconds")[reached[0]]) if len(reached) else None


def epsilon_left(config: Config, picks: IntArray, tellings: IntArray | None = None) -> FloatArray:
    """Return the epsilon left to clients that took part so often, and told so many signals if the run has any."""
    schedule, mechanism, paid = config.privacy.as_schedule(), config.privacy.as_mechanism(), np.zeros(len(picks))
    budget = schedule.budget
    if tellings is not None and config.signals.kind != "bare":
        schedule, telling = config.signals.as_signals().parts(schedule)
        paid = telling.spent(tellings)
    amounts, which = np.unique(schedule.spent(picks) + paid, return_inverse=True)
    spent = [leaked(mechanism, budget, float(part))[0] for part in amounts]
    left: FloatArray = np.maximum(0.0, budget - np.array(spent))[which]
    return left


def _smoothed(values: FloatArray) -> FloatArray:
    """Return the mean of the numbers in the last ten rounds, or the last such mean where there is none."""
    if np.isnan(values).all():
        return np.full(len(values), np.nan)
    padded = np.concatenate([np.full(SMOOTH - 1, np.nan), values])
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTH)
    counts = (~np.isnan(windows)).sum(axis=1)
    means = np.nansum(windows, axis=1) / np.maximum(counts, 1)
    newest = np.maximum.accumulate(np.where(counts > 0, np.arange(len(values)), -1))
    return np.where(newest < 0, np.nan, means[newest])
