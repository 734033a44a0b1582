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
            figure = f"{setting}: at n = {last:,.0f} the ratio is {factor}"
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
                yield Finding.compared(study, f"{method}: x is {said}", *slow_enough)


def _grows_slowly_enough(rows: Rows, sizes: Sequence[float]) -> tuple[Comparison, str]:
    exponent = Estimate.of([_growth(rows, sizes, seed) for seed in _distinct(rows, "seed")])
    clients = np.array(sizes)
    ideal = growth(clients, clients * np.log(clients))
    figure = f"{exponent} from K = {sizes[0]:,.0f} to {sizes[-1]:,.0f} (K log K: {ideal:.2f})"
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
            figure = f"{reward}: after {steps:,.0f} steps the gap is smaller by {saved}"
            yield Finding.compared(study, figure, saved.above(0.0))


def _growth(rows: Rows, sizes: Sequence[float], seed: float) -> float:
    here = [row for row in rows if row["seed"] == seed and row["clients"] in sizes]
    return growth(np.array([row["clients"] for row in here]), np.array([row["seconds"] for row in here]))


def _distinct(rows: Rows, column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in rows if column in row))


MEASURED = (
    Claim(
        "Regret grows logarithmically (Theorem 1).",
        "A genie knows the mean speed of every client. The *regret* after n rounds is the value of the genie's choices "
        "minus the value of PAUSE's choices. When n doubles, regret grows by some amount. We divide the amount of the "
        "last doubling by the amount of the doubling before. This ratio is 1 if regret grows like log n, 1.41 if it "
        f"grows like the square root of n, and 2 if it grows like n. It must be below {_LOG_GROWTH}. This test cannot "
        "distinguish log n from a very small power of n.",
        "PAUSE adds a bonus to the speed of a client that it rarely timed. After T timings, the bonus is "
        "sqrt((m+1) ln n / T), where m clients take part in a round. In a training of usual length, the bonus is far "
        "larger than the differences between the clients' speeds. Regret grows logarithmically only after the bonus "
        "has become small beside these differences.",
        _logarithmic,
    ),
    Claim(
        "Regret stays below the bound of Theorem 1.",
        "We divide the regret by the bound at every n that was recorded. The largest result must not exceed 1.",
        "",
        _bounded,
    ),
    Claim(
        "PAUSE chooses in O(K log K).",
        "We measure the time of one choice among K clients, and fit K^x to it. A round has K/5 members, but at most "
        f"1,000. The exponent x may be at most {_MARGIN:g} above the exponent of K log K. A smaller x also passes. "
        "This must hold over all K, and over the last factor of ten alone. R1 is the paper's reward of averages, and "
        "R2 adds the penalty for members of the same cluster. *Opposed* means that slower clients have higher scores. "
        "Elsewhere speed and score are independent.",
        "When the clients no longer fit into the processor's caches, every operation takes longer. A busy machine also "
        "distorts the timings.",
        _complexity,
    ),
    Claim(
        "The tailored graph helps annealing.",
        "Annealing goes from one set of clients to another in a chain of random steps. A graph says which sets it can "
        "reach in one step. We compare one chain on the paper's tailored graph with one chain on the plain (vanilla) "
        f"graph. Both start at a random set, make {_STEPS:,} steps, and have our temperature, which is far lower than "
        "the paper's. The *gap* is the distance to the best value, and a random set has a gap of 1. The table shows by "
        "how much the median gap is smaller on the tailored graph. A negative number means that it is larger.",
        "On the tailored graph a step is cheap, and a chain can reach every set with a small temperature constant C. "
        "That is what the paper made it for. This graph was designed for the speed of the slowest member. But with "
        "alpha = 100 the scores decide which set is best, not the speed.",
        _tailored,
    ),
)
