"""Holm's correction for many comparisons, and which verdicts survive it.

Reference: Holm, A simple sequentially rejective multiple test procedure (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pausefl.report.seed_statistics import holm
from pausefl.studies.claims.claim import Finding, worst

_LEVEL = 0.05
"""The chance that a family may have of even one wrong verdict; the intervals have the same for each verdict alone."""
_DECIDED = ("holds", "does not hold")


def corrected(findings: Sequence[Finding]) -> list[Finding]:
    """Return the same findings, each with its verdict after the correction; all their comparisons are one family.

    A comparison that does not survive is undecided.  The raw verdicts stay.
    """
    p_values = iter(holm([one.p for finding in findings for one in finding.comparisons]))
    return [_corrected(finding, [next(p_values) for _ in finding.comparisons]) for finding in findings]


def comparisons(findings: Sequence[Finding]) -> int:
    """Return how many comparisons are in the family of these findings: those with two seeds or more."""
    return sum(one.p is not None for finding in findings for one in finding.comparisons)


def decided(finding: Finding) -> bool:
    """Whether comparisons decided the verdict before the correction."""
    return finding.corrected is not None and finding.verdict in _DECIDED


def survives(finding: Finding) -> bool:
    """Whether comparisons still decide the verdict after the correction."""
    return finding.corrected in _DECIDED


def _corrected(finding: Finding, p_values: Sequence[float | None]) -> Finding:
    judged = [(one.verdict, p) for one, p in zip(finding.comparisons, p_values, strict=True) if p is not None]
    if not judged:
        return finding
    verdict = worst(verdict if p < _LEVEL else "undecided" for verdict, p in judged)
    # All comparisons must hold for a claim to hold, so the weakest decides.  One that fails is enough to refute it.
    behind = [p for verdict, p in judged if verdict == finding.verdict]
    return replace(finding, corrected=verdict, p=max(behind) if finding.verdict == "holds" else min(behind))
