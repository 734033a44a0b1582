"""Claims about regret, complexity and annealing, from measured rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pausefl.studies.claims.claim import Claim, Estimate, Finding
from pausefl.studies.claims.evidence import Evidence
from pausefl.studies.measured.complexity import growth

_LOG_GROWTH, _MARGIN, _STEPS = 1.1, 0.05, 3000


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
        for method in (name for name in _distinct(rows, "method") if "seconds" in rows[0] and "exact" in name):
            ours = [row for row in rows if row["method"] == method]
            low, high = (end(row["clients"] for row in ours) for end in (min, max))
            if low < high:
                exponent = Estimate.of([_growth(ours, seed) for seed in _distinct(ours, "seed")])
                allowed = 1.0 + math.log(math.log(high) / math.log(low)) / math.log(high / low) + _MARGIN
                figure = (
                    f"{method}: time grows like K to the {exponent} from K = {low:,.0f} to {high:,.0f}; "
                    f"K log K itself like {allowed - _MARGIN:.2f}"
                )
                yield Finding(study, exponent.below(allowed), figure)


def _tailored(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows.items():
        for reward in _distinct(rows, "reward"):
            gaps: dict[str, dict[tuple[float, float], float]] = {}
            for row in rows:
                if row["reward"] == reward:
                    gaps.setdefault(row["method"], {})[row["steps"], row["seed"]] = row["median_gap"]
            one, two = gaps["tailored, one chain"], gaps["vanilla, one chain"]
            steps = min((s for s, _ in one), key=lambda s: abs(s - _STEPS))
            saved = Estimate.of([two[key] - one[key] for key in one if key[0] == steps])
            figure = f"{reward}: after {steps:,.0f} steps its median gap is smaller by {saved} (1 = a random set)"
            yield Finding(study, saved.above(0.0), figure)


def _growth(rows: Sequence[Mapping[str, Any]], seed: float) -> float:
    of_seed = [row for row in rows if row["seed"] == seed]
    return growth(np.array([row["clients"] for row in of_seed]), np.array([row["seconds"] for row in of_seed]))


def _distinct(rows: Sequence[Mapping[str, Any]], column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in rows if column in row))


MEASURED = (
    Claim(
        "Regret grows logarithmically (Theorem 1).",
        f"What the last doubling of n added, over what the one before added: 1 under log n, 2 under n; at most "
        f"{_LOG_GROWTH} asked, which does not tell log n from a very small power of n.",
        "The exploration bonus sqrt((m+1) ln n / T) is far larger than the differences of speed for as long as any "
        "training lasts; growth turns logarithmic only once it is small against them.",
        _logarithmic,
    ),
    Claim("Regret stays below the bound of Theorem 1.", "Largest regret over bound at any n.", "", _bounded),
    Claim(
        "PAUSE chooses in O(K log K).",
        f"Fitted exponent p of K^p to the time of one choice, m = K/5 and at most 1,000, against that of K log K plus "
        f"{_MARGIN:g}; with speed and score independent, and opposed (the slower a client, the higher its score).",
        "Timings of another machine or a busy one may bend the fit.",
        _complexity,
    ),
    Claim(
        "The tailored graph helps annealing.",
        f"Median gap to the optimum of one chain on either graph, same temperature, random start, {_STEPS:,} steps.",
        "It was made so that a step is cheap and the chain connected with a small C. Its swaps are about the slowest "
        "member, but with alpha = 100 the scores decide.",
        _tailored,
    ),
)
