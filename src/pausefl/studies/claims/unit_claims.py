"""Claims of our own about what is protected: that models learn while single records are, and what each unit costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pausefl.studies.claims.claim import Claim, Estimate, Finding
from pausefl.studies.evidence import Evidence
from pausefl.studies.measured.units import Units
from pausefl.studies.study import Rows

_KEPT = 0.9
"""The share of the accuracy without noise that counts as learned."""
_STRONG = 1.0
"""A lifetime epsilon up to this is a strong promise."""

Accuracies = dict[tuple[Any, ...], list[float]]


def _by_setting(rows: Rows, unit: str) -> Accuracies:
    """Return the accuracies of one unit over its seeds, by data, clients and budget."""
    found: Accuracies = {}
    for row in rows:
        if row["unit"] == unit:
            found.setdefault((row["data"], row["clients"], row["budget"]), []).append(row["accuracy"])
    return found


def _name(study: str, setting: tuple[Any, ...]) -> str:
    data, clients, budget = setting
    return f"{study}: {data}, {clients:.0f} clients, epsilon {budget:g}"


def _learns(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Units):
        best = _best(rows)
        for setting, seeds in _by_setting(rows, "record").items():
            without = best.get(setting[:2])
            if without is None or setting[2] > _STRONG:
                continue
            share = Estimate.of([accuracy / without for accuracy in seeds])
            figure = f"{Estimate.of(seeds)} % with noise, {without:.1f} % without"
            yield Finding.compared(_name(study, setting), figure, share.above(_KEPT))


def _best(rows: Rows) -> Mapping[tuple[Any, ...], float]:
    return {key[:2]: float(np.mean(seeds)) for key, seeds in _by_setting(rows, "none").items()}


def _costs_less(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Units):
        records, updates = _by_setting(rows, "record"), _by_setting(rows, "update")
        for setting in (one for one in records if one in updates):
            pairs = zip(records[setting], updates[setting], strict=False)
            ahead = Estimate.of([one - other for one, other in pairs])
            means = [np.mean(found[setting]) for found in (records, updates)]
            figure = f"{means[0]:.1f} % against {means[1]:.1f} %: {ahead} points more"
            yield Finding.compared(_name(study, setting), figure, ahead.above(0.0))


def _sooner(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("pause", "random"):
        if pairs[0][0].settings.privacy.unit != "record":
            continue
        seconds = [(one.column("seconds")[-1], two.column("seconds")[-1]) for one, two in pairs]
        ahead = Estimate.of([two - one for one, two in seconds])
        scores = [(one.final_accuracy() or 0.0, two.final_accuracy() or 0.0) for one, two in pairs]
        means = [np.mean(side) for side in zip(*scores, strict=True)]
        figure = f"{ahead} s sooner; {means[0]:.1f} % against {means[1]:.1f} %"
        yield Finding.compared(study, figure, ahead.above(0.0))


UNIT_CLAIMS = (
    Claim(
        "A model learns while every single record is protected, under a lifetime epsilon of 1 or less.",
        f"The accuracy must be above {_KEPT:.0%} of that without noise, in `pausefl study units`.",
        "The noise of a client is divided by its number of records. So small clients with small budgets have the most "
        "noise.",
        _learns,
    ),
    Claim(
        "At the same epsilon, protecting single records costs less accuracy than protecting whole updates.",
        "We compare the accuracy under both units, with the same data, clients and epsilon, seed by seed.",
        "With many small clients a direction of a whole update is worth as much as a sum over few records.",
        _costs_less,
    ),
    Claim(
        "Where single records are protected, PAUSE spends all budgets sooner than random choice.",
        "We compare the seconds until the last round, seed by seed.",
        "",
        _sooner,
    ),
)
