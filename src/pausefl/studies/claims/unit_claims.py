"""Our own claims about the unit of privacy: models learn while single records are protected, and what units cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pausefl.studies.claims.claim import Claim, Estimate, Finding
from pausefl.studies.evidence import Evidence, final_scores
from pausefl.studies.measured.units import Units
from pausefl.studies.study import Rows

_KEPT = 0.9
"""The share of the accuracy without noise that counts as learned."""
_STRONG = 1.0
"""A lifetime epsilon up to this is a strong promise."""

Setting = tuple[Any, ...]
Accuracies = dict[int, float]
"""The accuracy of each seed."""


def _by_setting(rows: Rows, unit: str) -> dict[Setting, Accuracies]:
    """Return the accuracies of one unit, by data, clients and budget."""
    found: dict[Setting, Accuracies] = {}
    for row in rows:
        if row["unit"] == unit:
            found.setdefault((row["data"], row["clients"], row["budget"]), {})[int(row["seed"])] = row["accuracy"]
    return found


def _pairs(one: Accuracies, other: Accuracies) -> list[tuple[float, float]]:
    """Return the accuracies of the seeds that both have."""
    return [(one[seed], other[seed]) for seed in one if seed in other]


def _name(study: str, setting: Setting) -> str:
    data, clients, budget = setting
    return f"{study}: {data}, {clients:.0f} clients, epsilon {budget:g}"


def _learns(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Units):
        without_noise = {setting[:2]: seeds for setting, seeds in _by_setting(rows, "none").items()}
        for setting, seeds in _by_setting(rows, "record").items():
            pairs = _pairs(seeds, without_noise.get(setting[:2], {}))
            if not pairs or setting[2] > _STRONG:
                continue
            share = Estimate.of(100.0 * noised / without for noised, without in pairs)
            means = [np.mean(side) for side in zip(*pairs, strict=True)]
            figure = f"{means[0]:.1f} % with noise, {means[1]:.1f} % without: {share} % of it"
            yield Finding.compared(_name(study, setting), figure, share.above(100.0 * _KEPT))


def _costs_less(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Units):
        records, updates = _by_setting(rows, "record"), _by_setting(rows, "update")
        for setting, seeds in records.items():
            pairs = _pairs(seeds, updates.get(setting, {}))
            if not pairs:
                continue
            ahead = Estimate.of(one - other for one, other in pairs)
            means = [np.mean(side) for side in zip(*pairs, strict=True)]
            figure = f"{means[0]:.1f} % against {means[1]:.1f} %: {ahead} points more"
            yield Finding.compared(_name(study, setting), figure, ahead.above(0.0))


def _sooner(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("pause", "random"):
        if pairs[0][0].settings.privacy.unit != "record":
            continue
        seconds = [(one.column("seconds")[-1], two.column("seconds")[-1]) for one, two in pairs]
        ahead = Estimate.of([two - one for one, two in seconds])
        means = [np.mean(side) for side in zip(*final_scores(pairs), strict=True)]
        reached = f"; accuracy {means[0]:.1f} % against {means[1]:.1f} %" if means else ""
        figure = f"{ahead} s sooner{reached}"
        yield Finding.compared(study, figure, ahead.above(0.0))


UNIT_CLAIMS = (
    Claim(
        "A model learns while every single record is protected, under a lifetime epsilon of 1 or less.",
        f"We divide the accuracy with noise by the accuracy without noise. The result must be above {_KEPT:.0%}.",
        "The noise of a client is divided by its number of records. So clients with few records and small budgets have "
        "the most noise.",
        _learns,
        before_runs=True,
    ),
    Claim(
        "At the same epsilon, protecting single records costs less accuracy than protecting whole updates.",
        "We compare the accuracy with both units of privacy. Data, clients and epsilon are the same.",
        "With many small clients, the direction of a whole update says as much as a sum over a few records.",
        _costs_less,
        before_runs=True,
    ),
    Claim(
        "Where single records are protected, PAUSE spends nearly all budgets sooner than random choice.",
        "We compare the seconds of all rounds. After them at most 2 % of all releases are left.",
        "",
        _sooner,
        before_runs=False,  # it was committed half a minute before its runs, which had been played by then
    ),
)
