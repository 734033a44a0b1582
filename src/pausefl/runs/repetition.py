"""Runs that somebody repeated, beside those that were published: the same to the bit, alike, or other runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pausefl.errors import ConfigError
from pausefl.runs.config import ONE_RUN, differences, flat
from pausefl.runs.run_data import RunData
from pausefl.system.printable_text import printable

_SCORES = ("accuracy", "loss")
_CHOICES = ("members", "seconds", "max_leakage")
"""What follows from the seed alone unless a policy learns from training; an accuracy also depends on the processor."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """One run beside its repetition, over the rounds that both have.

    ``differs_from`` is the first round with other members, another clock or another leakage; None if there is none.
    ``points`` is the largest difference in accuracy of any round, and ``final_points`` that of the means of the last
    ten rounds; None without training.  ``exact`` is true if both wrote the same numbers in every round.
    """

    policy: str
    seed: int
    rounds: int
    exact: bool
    differs_from: int | None
    points: float | None
    final_points: float | None
    versions: dict[str, tuple[str, str]]

    def agrees(self, within: float) -> bool:
        """Whether it is the same run, with a final accuracy that differs by no more points than that."""
        return self.exact or (self.differs_from is None and (self.final_points or 0.0) <= within)

    def __str__(self) -> str:
        if self.exact:
            return "the same to the bit"
        if self.differs_from is not None:
            return f"another run from round {self.differs_from} on"
        if self.points is None:
            return "the same choices, clock and leakage; other details differ"
        return (
            "the same choices, clock and leakage; accuracy differs by up to "
            f"{self.points:.2f} points, at the end by {self.final_points:.2f}"
        )


@dataclass(frozen=True, slots=True)
class Repetitions:
    """All pairs of runs, and the published runs that nobody repeated."""

    pairs: Sequence[Repetition]
    not_repeated: Sequence[str]


def repetitions(published: Iterable[RunData], repeated: Iterable[RunData]) -> Repetitions:
    """Pair runs with the same settings, seed and code, wherever they lie, and compare them round by round."""
    found, everything = {_identity(run): run for run in repeated}, list(published)
    pairs, missing = [], []
    for run in everything:
        other = found.pop(_identity(run), None)
        if other is None:
            missing.append(f"{run.name}, seed {run.settings.run.seed}")
        else:
            pairs.append(_compared(run, other))
    for run in found.values():
        raise ConfigError(
            f"{run.folder} repeats none of the published runs ({_nearest(run, everything)}); leave it out, or run the "
            "published configuration with the published code"
        )
    return Repetitions(pairs, missing)


def _nearest(run: RunData, published: Sequence[RunData]) -> str:
    """Say in what a run differs from the published one that is most like it."""
    others = [(differences(one.settings, run.settings, ONE_RUN), one) for one in published]
    nearest, one = min(others, key=lambda pair: (len(pair[0]), pair[1].code != run.code))
    said = [f"{key} = {there!r} there, {here!r} here" for key, (there, here) in list(nearest.items())[:3]]
    return printable("; ".join(said)) if said else f"another version of your own code than in {one.folder}"


def _identity(run: RunData) -> str:
    return json.dumps(flat(run.settings, ONE_RUN), sort_keys=True) + run.code


def _compared(one: RunData, other: RunData) -> Repetition:
    rounds = min(len(one.records), len(other.records))
    pairs = list(zip(one.records[:rounds], other.records[:rounds], strict=True))
    differs = next((n for n, (a, b) in enumerate(pairs, 1) if any(a.get(key) != b.get(key) for key in _CHOICES)), None)
    scores = np.array([(a["accuracy"], b["accuracy"]) for a, b in pairs if "accuracy" in a and "accuracy" in b])
    last = [run.series("accuracy")[rounds - 1] for run in (one, other)]
    return Repetition(
        policy=one.name,
        seed=one.settings.run.seed,
        rounds=rounds,
        exact=all(_same(a, b, last=n == rounds) for n, (a, b) in enumerate(pairs, 1)) and _same_end(one, other),
        differs_from=differs,
        points=float(np.abs(scores[:, 0] - scores[:, 1]).max()) if len(scores) else None,
        final_points=float(abs(last[0] - last[1])) if len(scores) else None,
        versions=_other_versions(one, other),
    )


def _same(a: Mapping[str, Any], b: Mapping[str, Any], *, last: bool) -> bool:
    """Whether two records are the same; the last round of a shorter run is scored, and older runs tell no latencies."""
    may_lack = {"latencies", *(_SCORES if last else ())}
    return all(
        a.get(key) == b.get(key) for key in a.keys() | b.keys() if not (key in may_lack and (key in a) != (key in b))
    )


def _same_end(one: RunData, other: RunData) -> bool:
    """Whether the summaries of two runs of the same length say the same."""
    a, b = one.summary, other.summary
    if a is None or b is None or len(one.records) != len(other.records):
        return True
    return all(a.get(key) == b.get(key) for key in ("guarantee", "max_leakage", "picks", "clients", "client_accuracy"))


def _other_versions(one: RunData, other: RunData) -> dict[str, tuple[str, str]]:
    """Return the versions that differ; a run of before they were recorded tells none."""
    here, there = ((run.summary or {}).get("versions") for run in (one, other))
    if not isinstance(here, Mapping) or not isinstance(there, Mapping):
        return {}
    return {
        printable(str(name)): (printable(str(here[name])), printable(str(there[name])))
        for name in here
        if name in there and here[name] != there[name]
    }
