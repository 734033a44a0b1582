"""Claims of our own, about what the paper does not have: aggregation that knows how noisy each update is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pausefl.runs.run_data import SMOOTH, RunData
from pausefl.studies.claims.claim import Claim, Estimate, Finding
from pausefl.studies.evidence import Evidence, Pair

_MATCHED = " (matched)"
_PEAK_POINTS, _END_POINTS = 1.0, 2.0


def _against_plain(evidence: Evidence) -> Iterator[tuple[str, list[Pair]]]:
    """Yield per study and policy its runs with matched and with plain aggregation, seed by seed."""
    policies = dict.fromkeys(name for found in evidence.runs.values() for name in found if not name.endswith(_MATCHED))
    for policy in policies:
        for study, pairs in evidence.pairs(f"{policy}{_MATCHED}", policy):
            yield f"{study}, {policy}", pairs


def _peak(run: RunData) -> float:
    return float(np.nanmax(run.series("accuracy")))


def _end(run: RunData) -> float:
    return float(run.series("accuracy")[-1])


def _peaks(evidence: Evidence) -> Iterator[Finding]:
    for name, pairs in _against_plain(evidence):
        matched, plain = ([_peak(run) for run in side] for side in zip(*pairs, strict=True))
        ahead = Estimate.of([one - other for one, other in zip(matched, plain, strict=True)])
        figure = f"{np.mean(matched):.1f} % against {np.mean(plain):.1f} % with plain averaging: {ahead} points ahead"
        yield Finding.compared(name, figure, ahead.above(-_PEAK_POINTS))


def _ends(evidence: Evidence) -> Iterator[Finding]:
    for name, pairs in _against_plain(evidence):
        left = Estimate.of([_end(matched) - _peak(plain) for matched, plain in pairs])
        own = np.mean([_end(matched) - _peak(matched) for matched, _ in pairs])
        ends = [np.mean([_end(run) for run in side]) for side in zip(*pairs, strict=True)]
        rounds = min(len(matched.records) for matched, _ in pairs)
        figure = (
            f"after {rounds} rounds {ends[0]:.1f} % (plain averaging: {ends[1]:.1f} %), {left} points above plain "
            f"averaging's peak and {-own:.1f} below its own"
        )
        yield Finding.compared(name, figure, left.above(-_END_POINTS))


BEYOND = (
    Claim(
        "Matched aggregation learns as well as plain averaging at its best.",
        f"We compare the best mean of {SMOOTH} rounds of both, seed by seed. That of matched aggregation must be less "
        f"than {_PEAK_POINTS:g} point below that of plain averaging.",
        "Early releases carry little noise, so a server gains nothing by knowing the noise.",
        _peaks,
        before_runs=True,
    ),
    Claim(
        "With matched aggregation training does not collapse.",
        f"The mean of the last {SMOOTH} rounds must be less than {_END_POINTS:g} points below the best that plain "
        "averaging ever had, seed by seed, however noisy releases have become.",
        "",
        _ends,
        before_runs=True,
    ),
)
