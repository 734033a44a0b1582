"""Answers that are still on their way when a round is closed: who is busy, until when, and what will arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.types import BoolArray, FloatArray, IntArray, Seconds


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LateAnswers:
    """A row per client that is still out: since which round, how long it takes, and at which time it answers.

    ``used`` says whether its update will be aggregated; ``weight`` and the squared norms ``noise`` and ``signal`` (NaN
    if unknown) are those of the round it belongs to, ``updates`` has a row each, and ``told`` a column per signal.
    """

    rows: IntArray
    number: IntArray
    seconds: FloatArray
    arrival: FloatArray
    used: BoolArray
    weight: FloatArray
    noise: FloatArray
    signal: FloatArray
    told: FloatArray
    updates: npt.NDArray[np.float32]

    @classmethod
    def none(cls, dimension: int, signals: int) -> Self:
        """Nobody is out."""
        return cls.out(np.empty(0, dtype=np.int64), 0, np.empty(0), 0.0, dimension, signals)

    @classmethod
    def out(
        cls, rows: IntArray, number: int, seconds: FloatArray, start: Seconds, dimension: int, signals: int
    ) -> Self:
        """Return clients that are out since ``start``, without anything to bring."""
        count = len(rows)
        return cls(
            rows=rows, number=np.full(count, number), seconds=seconds, arrival=start + seconds,
            used=np.zeros(count, dtype=np.bool_), weight=np.zeros(count), noise=np.full(count, np.nan),
            signal=np.full(count, np.nan), told=np.full((count, signals), np.nan),
            updates=np.zeros((count, dimension), dtype=np.float32),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.rows)

    def bring(
        self, place: int, update: npt.NDArray[np.float32], weight: float, level: NoiseLevel | None, told: FloatArray
    ) -> None:  # fmt: skip
        """Say what one of them will bring."""
        self.used[place], self.updates[place], self.weight[place], self.told[place] = True, update, weight, told
        if level is not None:
            self.noise[place], self.signal[place] = level.noise, level.signal

    def where(self, mask: BoolArray) -> Self:
        """Return some of them."""
        if not len(self):  # as in nearly every round
            return self
        return replace(self, **{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def joined(self, others: Self) -> Self:
        """Return these and others."""
        if not len(self) or not len(others):
            return others if len(others) else self
        names = [field.name for field in fields(self)]
        return replace(self, **{name: np.concatenate([getattr(self, name), getattr(others, name)]) for name in names})

    def weights(self, number: int) -> FloatArray:
        """Return what their updates weigh in round ``number``: the staler, the less."""
        return self.weight / (1.0 + number - self.number)

    def levels(self) -> list[NoiseLevel | None]:
        """Return how loud their updates are."""
        known = zip(self.noise.tolist(), self.signal.tolist(), strict=True)
        return [None if np.isnan(noise) else NoiseLevel(noise, signal) for noise, signal in known]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything, as arrays; nothing if nobody is out."""
        return {field.name: getattr(self, field.name) for field in fields(self)} if len(self) else {}

    def restored(self, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return what ``state`` was made of."""
        return replace(self, **{name: np.array(array) for name, array in state.items()}) if state else self
