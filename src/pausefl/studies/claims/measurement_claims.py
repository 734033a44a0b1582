"""Claims about regret, complexity and annealing, from measured rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pausefl.studies.claims.claim import Claim, Comparison, Estimate, Finding, Verdict
from pausefl.studies.evidence import Evidence
from pausefl.studies.measured import Annealing, Complexity, Regret
from pausefl.studies.measured.complexity import growth
from pausefl.studies.study import Rows

_LOG_GROWTH, _MARGIN, _STEPS = 1.1, 0.05, 3000


def _logarithmic(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Regret):
        for setting in _distinct(rows, "setting"):
            ours = [row for row in rows if row["setting"] == setting]
            last = max(row["rounds"] for row in ours)
            ends = [row for row in ours if row["rounds"] == last]
            factor = Estimate.of(
                [(r["regret"] - r["at_half"]) / max(1e-12, r["at_half"] - r["at_quarter"]) for r in ends]
            )
            figure = f"{setting}: at n = {last:,.0f} the last doubling added {factor} times the one before"
            yield Finding.compared(study, figure, factor.below(_LOG_GROWTH))


def _bounded(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Regret):
        for setting in _distinct(rows, "setting"):
            share = max(row["regret"] / row["bound"] for row in rows if row["setting"] == setting)
            verdict: Verdict = "holds" if share <= 1.0 else "does not hold"
            yield Finding(study, verdict, f"{setting}: at most {share:.1g} of the bound")


def _complexity(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Complexity):
        for method in (name for name in _distinct(rows, "method") if "exact" in name):
            ours = [row for row in rows if row["method"] == method]
            sizes = sorted({row["clients"] for row in ours if row["clients"] > 1})
            late = [size for size in sizes if size >= sizes[-1] / 10]
            judged = [
                _grows_slowly_enough(ours, part)
                for part in ([sizes, late] if late != sizes else [sizes])
                if len(part) > 1
            ]
            if judged:
                said = "; ".join(figure for _, figure in judged)
                slow_enough = [comparison for comparison, _ in judged]
                yield Finding.compared(study, f"{method}: time grows like K to the {said}", *slow_enough)


def _grows_slowly_enough(rows: Rows, sizes: Sequence[float]) -> tuple[Comparison, str]:
    exponent = Estimate.of([_growth(rows, sizes, seed) for seed in _distinct(rows, "seed")])
    clients = np.array(sizes)
    ideal = growth(clients, clients * np.log(clients))
    figure = f"{exponent} from K = {sizes[0]:,.0f} to {sizes[-1]:,.0f}, where K log K itself grows like {ideal:.2f}"
    return exponent.below(ideal + _MARGIN), figure


def _tailored(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Annealing):
        for reward in _distinct(rows, "reward"):
            gaps: dict[str, dict[tuple[float, float], float]] = {}
            for row in rows:
                if row["reward"] == reward:
                    gaps.setdefault(row["method"], {})[row["steps"], row["seed"]] = row["median_gap"]
            one, two = gaps.get("tailored, one chain"), gaps.get("vanilla, one chain")
            if one is None or two is None or one.keys() != two.keys():
                continue
            steps = min((s for s, _ in one), key=lambda s: abs(s - _STEPS))
            saved = Estimate.of([two[key] - one[key] for key in one if key[0] == steps])
            figure = (
                f"{reward}: after {steps:,.0f} steps the median gap on the tailored graph is smaller by {saved} "
                "(negative: larger; a random set has a gap of 1)"
            )
            yield Finding.compared(study, figure, saved.above(0.0))


def _growth(rows: Rows, sizes: Sequence[float], seed: float) -> float:
    here = [row for row in rows if row["seed"] == seed and row["clients"] in sizes]
    return growth(np.array([row["clients"] for row in here]), np.array([row["seconds"] for row in here]))


def _distinct(rows: Rows, column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in rows if column in row))


MEASURED = (
    Claim(
        "Regret grows logarithmically (Theorem 1).",
        "Let n be the number of rounds. We divide the regret that the last doubling of n added by what the doubling "
        "before added. The result is 1 if regret grows like log n, 1.41 if it grows like the root of n, and 2 if it "
        f"grows like n. We ask for {_LOG_GROWTH} at most. This cannot tell log n from a very small power of n.",
        "For a client that was timed T times, the exploration bonus is sqrt((m+1) ln n / T). It is far larger than the "
        "differences of speed for as long as any training lasts. Regret grows logarithmically only when the bonus has "
        "become small beside them.",
        _logarithmic,
    ),
    Claim("Regret stays below the bound of Theorem 1.", "We divide regret by the bound at every n.", "", _bounded),
    Claim(
        "PAUSE chooses in O(K log K).",
        "We fit K^p to the time of one choice among K clients, with m = K/5 members, but at most 1,000. The exponent "
        f"p must not exceed that of K log K by more than {_MARGIN:g}. This must hold over all K, and over the last "
        "factor of ten alone. Speed and score are independent, or opposed (the slower a client, the higher its score).",
        "The time of one operation grows too, once the clients no longer fit into the processor's caches. Timings on a "
        "busy machine also distort the fit.",
        _complexity,
    ),
    Claim(
        "The tailored graph helps annealing.",
        "The graph says which sets a chain can reach in one step. We compare the median gap to the optimum of one "
        "chain on the paper's tailored graph and of one on the plain (vanilla) graph. Both chains have our temperature "
        f"(from the data, far colder than the paper's), a random start and {_STEPS:,} steps.",
        "The paper made the tailored graph so that a step is cheap, and so that the chain can reach every set with a "
        "small temperature constant C. Its swaps are about the slowest member. But with alpha = 100 the scores decide.",
        _tailored,
    ),
)
