"""What a search aims at, what a trial has reached, and how trials compare: by the aim, and by the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.runs.config import Config
from pausefl.runs.run_data import RunData

Kind: TypeAlias = Literal["seconds", "accuracy", "front"]
Quantity: TypeAlias = Literal["seconds", "leakage", "accuracy"]

NEVER = 1e9
"""Stands for a number that a trial does not have: worse than all that it could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The numbers of a trial: means over its seeds, but the largest leakage of any client in any seed.

    Attributes:
        seconds: clock at the end or, with a target, when it was reached; None if some seed never did.
        leakage: None where nothing bounds it.
        accuracy: the mean of the last ten rounds, in percent; None without training.
        best_accuracy: the highest such mean.
        rounds: how many rounds these numbers are for.
    """

    seconds: float | None
    leakage: float | None
    accuracy: float | None
    best_accuracy: float | None
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is sought: the least ``seconds`` (to ``reach`` percent, if given), the best final ``accuracy``, or the
    whole Pareto ``front`` of seconds, leakage and accuracy; in each case with at most ``most_leakage``.

    >>> print(Aim(kind="seconds", reach=80.0, most_leakage=12.5))
    least seconds to 80 %, with a leakage of at most 12.5
    """

    kind: Kind
    reach: float | None = None
    most_leakage: float | None = None

    def __post_init__(self) -> None:
        if self.kind == "accuracy" and self.reach is not None:
            raise InvalidValueError(
                f"--reach is {self.reach:g}, but has no effect on --aim accuracy; leave one of them out"
            )

    def __str__(self) -> str:
        clock = "seconds" if self.reach is None else f"seconds to {self.reach:g} %"
        words = {
            "seconds": f"least {clock}",
            "accuracy": "best final accuracy",
            "front": f"Pareto front of {clock}, leakage and accuracy",
        }
        bound = "" if self.most_leakage is None else f", with a leakage of at most {self.most_leakage:g}"
        return words[self.kind] + bound

    @property
    def ends_there(self) -> bool:
        """Whether a run need not go on once the target is reached."""
        return self.kind == "seconds" and self.reach is not None

    def require_possible(self, config: Config) -> None:
        """Refuse an aim that says nothing of such runs."""
        trains, bounded = config.learning.enabled, config.privacy.enabled
        if not trains and (self.kind == "accuracy" or self.reach is not None):
            what = "--aim accuracy" if self.reach is None else f"--reach {self.reach:g}"
            raise ConfigError(
                f"learning.enabled is false, but must be true for {what}; set it to true, or pass --aim seconds"
            )
        if not bounded and self.most_leakage is not None:
            raise ConfigError(
                f"privacy.enabled is false, but must be true for --most-leakage {self.most_leakage:g}; set it to true, "
                "or leave the option out"
            )

    def quantities(self, config: Config) -> list[Quantity]:
        """Return what the front of such runs is made of."""
        trains = config.learning.enabled and not self.ends_there  # where runs end at the target, all are as accurate
        return ["seconds", *(["leakage"] if config.privacy.enabled else []), *(["accuracy"] if trains else [])]  # type: ignore[list-item]

    def measure(self, runs: Sequence[RunData]) -> Found:
        """Return the numbers of a trial from its runs, which have the same number of rounds."""
        rounds, seconds = len(runs[0].records), [float(run.records[-1]["seconds"]) for run in runs]
        curves = [run.series("accuracy") for run in runs]
        clock: float | None = float(np.mean(seconds))
        if self.reach is not None:
            times = [run.time_to(self.reach) for run in runs]
            clock = None if None in times else float(np.mean([time for time in times if time is not None]))
            if clock is not None and self.ends_there:
                # The trial as one would run it: until the last of its seeds has reached the target.
                rounds = 1 + max(int(np.flatnonzero(curve >= self.reach)[0]) for curve in curves)
        leaks = [run.records[rounds - 1]["max_leakage"] for run in runs]
        return Found(
            seconds=clock,
            leakage=None if None in leaks else float(max(leaks)),
            accuracy=_mean([float(curve[rounds - 1]) for curve in curves]),
            best_accuracy=_mean([_highest(curve[:rounds].tolist()) for curve in curves]),
            rounds=rounds,
        )

    def has_ended(self, found: Found) -> bool:
        """Whether more rounds would not change the numbers."""
        return self.ends_there and found.seconds is not None

    def violation(self, found: Found) -> float:
        """Return by how much a trial leaks too much; 0 or less if it does not."""
        if self.most_leakage is None:
            return 0.0
        return (NEVER if found.leakage is None else found.leakage) - self.most_leakage

    def score(self, found: Found) -> float:
        """Return a number that is smaller for better trials.

        A trial that never reaches the target is worse than any that does, and among such the best accuracy decides.
        """
        if self.kind == "seconds":
            return found.seconds if found.seconds is not None else NEVER + 100.0 - (found.best_accuracy or 0.0)
        return 100.0 - (found.accuracy or 0.0)

    def is_met(self, found: Found) -> bool:
        """Whether a trial leaks no more than it may, and reaches the target if there is one."""
        return self.violation(found) <= 0.0 and found.seconds is not None

    def is_hopeless(self, so_far: Sequence[RunData], best: float | None) -> str | None:
        """Return why a trial that has not ended cannot win any more; None if it can.

        Clock and leakage never fall.  ``best`` is the score of the best trial, if one has met the aim.
        """
        found = replace(self, reach=None).measure(so_far)
        if self.violation(found) > 0.0 and found.leakage is not None:
            return f"leakage {found.leakage:.3g}"
        if self.kind == "seconds" and best is not None:
            reached = [None if self.reach is None else run.time_to(self.reach) for run in so_far]
            ends = [float(run.records[-1]["seconds"]) for run in so_far]
            least = float(np.mean([end if time is None else time for time, end in zip(reached, ends, strict=True)]))
            if least > best:
                return f"clock {least:.3g} s"
        return None


def objectives(found: Found, quantities: Sequence[Quantity]) -> list[float]:
    """Return the numbers that make the front, each smaller for better trials."""
    every = {
        "seconds": found.seconds,
        "leakage": found.leakage,
        "accuracy": None if found.accuracy is None else 100.0 - found.accuracy,
    }
    return [NEVER if (number := every[name]) is None else number for name in quantities]


def pareto_front(points: Sequence[Sequence[float]]) -> list[int]:
    """Return the positions of the points that no other is at least as small as everywhere and smaller somewhere.

    >>> pareto_front([(1, 5), (2, 2), (2, 3), (5, 1), (2, 2)])
    [0, 1, 3, 4]
    """
    rows = np.array(points, dtype=np.float64)
    return [
        i for i, row in enumerate(rows) if not np.any(np.all(rows <= row, axis=1) & np.any(rows < row, axis=1))
    ]  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    return None if any(map(math.isnan, values)) else float(np.mean(values))


def _highest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
