"""Our own claims about aggregation that knows how noisy each update is."""

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
        figure = f"{np.mean(matched):.1f} % against {np.mean(plain):.1f} % with plain averaging: lead {ahead} points"
        yield Finding.compared(name, figure, ahead.above(-_PEAK_POINTS))


def _ends(evidence: Evidence) -> Iterator[Finding]:
    for name, pairs in _against_plain(evidence):
        left = Estimate.of([_end(matched) - _peak(plain) for matched, plain in pairs])
        own = np.mean([_end(matched) - _peak(matched) for matched, _ in pairs])
        ends = [np.mean([_end(run) for run in side]) for side in zip(*pairs, strict=True)]
        rounds = min(len(matched.records) for matched, _ in pairs)
        figure = (
            f"after {rounds} rounds {ends[0]:.1f} % (plain averaging: {ends[1]:.1f} %); {left} points above the peak "
            f"of plain averaging, {-own:.1f} below its own peak"
        )
        yield Finding.compared(name, figure, left.above(-_END_POINTS))


BEYOND = (
    Claim(
        "At its best, matched aggregation learns as well as plain averaging.",
        "*Matched* aggregation gives noisy updates less weight, and makes smaller steps when updates become noisier "
        "([simulator](simulator.md#averaging-that-knows-the-noise)). Plain averaging does not look at the noise. For "
        f"both, we take the mean accuracy of {SMOOTH} rounds where it is highest. Matched aggregation must be less "
        f"than {_PEAK_POINTS:g} point below plain averaging.",
        "Accuracy is highest while updates still carry little noise. Until then, to know the noise changes little, so "
        "both ways of averaging do about equally well.",
        _peaks,
        before_runs=True,
    ),
    Claim(
        "With matched aggregation training does not collapse.",
        f"We take the mean accuracy of the last {SMOOTH} rounds, when updates are noisiest. It must be less than "
        f"{_END_POINTS:g} points below the highest mean accuracy of {SMOOTH} rounds with plain averaging (its *peak*).",
        "",
        _ends,
        before_runs=True,
    ),
)
