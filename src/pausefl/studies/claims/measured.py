"""Claims about regret, complexity and annealing, from measured rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pausefl.studies.claims.claim import Claim, Estimate, Finding
from pausefl.studies.claims.evidence import Evidence
from pausefl.studies.measured.complexity import growth

_LOG_GROWTH, _N_LOG_N = 1.1, 1.15


def _logarithmic(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows.items():
        for setting in _distinct(rows, "setting"):
            ours = [row for row in rows if row["setting"] == setting]
            last = max(row["rounds"] for row in ours)
            ends = [row for row in ours if row["rounds"] == last]
            factor = Estimate.of(
                [(r["regret"] - r["at_half"]) / max(1e-12, r["at_half"] - r["at_quarter"]) for r in ends]
            )
            figure = f"{setting}: at n = {last:,.0f} the last doubling added {factor} times the one before"
            yield Finding(study, factor.below(_LOG_GROWTH), figure)


def _bounded(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows.items():
        for setting in _distinct(rows, "setting"):
            share = max(row["regret"] / row["bound"] for row in rows if row["setting"] == setting)
            verdict = "holds" if share <= 1.0 else "does not hold"
            yield Finding(study, verdict, f"{setting}: at most {share:.1g} of the bound")  # type: ignore[arg-type]


def _complexity(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows.items():
        for method in ("exact R1", "exact R2"):
            ours = [row for row in rows if row.get("method") == method and "seconds" in row]
            if ours:
                exponent = Estimate.of([_growth(ours, seed) for seed in _distinct(ours, "seed")])
                sizes = [row["clients"] for row in ours]
                figure = f"{method}: time grows like K to the {exponent}, K = {min(sizes):,.0f} to {max(sizes):,.0f}"
                yield Finding(study, exponent.below(_N_LOG_N), figure)


def _tailored(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows.items():
        for reward in _distinct(rows, "reward"):
            gaps: dict[str, dict[tuple[float, float], float]] = {}
            for row in rows:
                if row["reward"] == reward:
                    gaps.setdefault(row["method"], {})[row["steps"], row["seed"]] = row["median_gap"]
            one, two = gaps["tailored, one chain"], gaps["vanilla, one chain"]
            steps = max(s for s, _ in one if s <= 3000)
            saved = Estimate.of([two[key] - one[key] for key in one if key[0] == steps])
            figure = f"{reward}: after {steps:,.0f} steps the median gap is {saved} smaller (1 = a random set)"
            yield Finding(study, saved.above(0.0), figure)


def _growth(rows: Sequence[Mapping[str, Any]], seed: float) -> float:
    of_seed = [row for row in rows if row["seed"] == seed]
    return growth(np.array([row["clients"] for row in of_seed]), np.array([row["seconds"] for row in of_seed]))


def _distinct(rows: Sequence[Mapping[str, Any]], column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in rows if column in row))


MEASURED = (
    Claim(
        "Regret grows logarithmically (Theorem 1).",
        f"What a doubling of n adds, over what the doubling before added: 1 under log n, 2 under n; at most "
        f"{_LOG_GROWTH} asked.",
        "The exploration bonus sqrt((m+1) ln n / T) is far larger than the differences of speed for as long as any "
        "training lasts; growth turns logarithmic only once it is small against them.",
        _logarithmic,
    ),
    Claim("Regret stays below the bound of Theorem 1.", "Largest regret over bound at any n.", "", _bounded),
    Claim(
        "PAUSE chooses in O(K log K).",
        f"Fitted exponent of the time of one choice; K log K itself looks like at most {_N_LOG_N} at these sizes.",
        "",
        _complexity,
    ),
    Claim(
        "The tailored graph helps annealing.",
        "Median gap to the optimum of one chain on either graph, same temperature, random start, 3,000 steps at most.",
        "It was made so that a step is cheap and the chain connected with a small C; it is no better at finding good "
        "sets: with alpha = 100 the scores decide, not the slowest member that its swaps are about.",
        _tailored,
    ),
)
