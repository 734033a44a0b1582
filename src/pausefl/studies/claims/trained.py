"""Claims about training: accuracy, time and leakage of the policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from pausefl.report.frames import RunData
from pausefl.studies.claims.claim import Claim, Estimate, Finding, Verdict, worst
from pausefl.studies.claims.evidence import Evidence, Pair, accuracy_at
from pausefl.types import FloatArray

_ROUNDING = 1e-9
_CLOSE_POINTS, _CLOSE_SHARE = 3.0, 0.05


def _budget_kept(evidence: Evidence) -> Iterator[Finding]:
    for study, policies in evidence.runs.items():
        shares = [
            float(np.nanmax(run.column("max_leakage"))) / run.config["privacy"]["budget"]
            for seeds in policies.values()
            for run in seeds.values()
            if run.config["privacy"]["enabled"] and run.config["learning"]["enabled"]
        ]
        if shares:
            verdict: Verdict = "holds" if max(shares) <= 1.0 + _ROUNDING else "does not hold"
            yield Finding(study, verdict, f"at most {max(shares):.4f} of a budget spent, {len(shares)} runs")


def _more_accurate_than(other: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            end = _common_end(pairs, "seconds")
            leads = [lead for pair in pairs if len(lead := _leads(pair, end))]
            if leads:
                last, mean = Estimate.of([lead[-1] for lead in leads]), Estimate.of([lead.mean() for lead in leads])
                ahead = float(np.mean([(lead > 0).mean() for lead in leads]))
                figure = f"after {end:.0f} s: {last} points ahead; mean until then {mean}, ahead {ahead:.0%} of it"
                yield Finding(study, last.above(0.0), figure)

    return judge


def _common_end(pairs: Sequence[Pair], axis: str) -> float:
    """Return where the shortest of all these runs ends: every pair is judged at the same place."""
    return float(min(run.column(axis)[-1] for pair in pairs for run in pair))


def _leads(pair: Pair, end: float) -> FloatArray:
    """Return by how many points the first is ahead, along the common time; empty if there is no common score."""
    at = np.linspace(0.0, end, 201)[1:]
    difference = accuracy_at(pair[0], at) - accuracy_at(pair[1], at)
    both: FloatArray = difference[~np.isnan(difference)]
    return both


def _leaks_less_than(other: str, axis: str) -> Callable[[Evidence], Iterable[Finding]]:
    column = "round" if axis == "round" else "seconds"

    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            end = _common_end(pairs, column)
            less = [_less_leaked(pair, column, end) for pair in pairs]
            last = Estimate.of([values[-1] for values in less])
            lower = float(np.mean([(values > 0).mean() for values in less]))
            figure = f"at {axis} {end:.0f}: {last} epsilon less (negative: more), less for {lower:.0%} of the way"
            yield Finding(study, last.above(0.0), figure)

    return judge


def _less_leaked(pair: Pair, column: str, end: float) -> FloatArray:
    at = np.arange(1.0, end + 1.0) if column == "round" else np.linspace(0.0, end, 201)[1:]

    def leakage(run: RunData) -> FloatArray:
        place = np.searchsorted(run.column(column), at, side="right") - 1
        return np.where(place < 0, 0.0, run.column("max_leakage")[np.maximum(place, 0)])

    return leakage(pair[1]) - leakage(pair[0])


def _same_leakage(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("all", "fastest"):
        largest = 0.0
        for one, two in pairs:
            common = min(len(one.records), len(two.records))
            gap = one.column("max_leakage")[:common] - two.column("max_leakage")[:common]
            largest = max(largest, float(np.abs(gap).max()))
        verdict: Verdict = "holds" if largest <= _ROUNDING else "does not hold"
        yield Finding(study, verdict, f"largest difference in any round {largest:.2g}, {len(pairs)} pairs")


def _annealing_close(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("sa-pause", "pause"):
        end, rounds = _common_end(pairs, "seconds"), int(_common_end(pairs, "round"))
        leads = [lead[-1] for pair in pairs if len(lead := _leads(pair, end))]
        if leads:
            points = Estimate.of(leads)
            time = Estimate.of([_relative(pair, "seconds", rounds) for pair in pairs])
            leakage = Estimate.of([_relative(pair, "max_leakage", rounds) for pair in pairs])
            figure = (
                f"after {rounds} rounds against pause: accuracy {points} points, time {time} %, leakage {leakage} %"
            )
            share = 100 * _CLOSE_SHARE
            verdict = worst([points.within(_CLOSE_POINTS), time.within(share), leakage.within(share)])
            yield Finding(study, verdict, figure)


def _relative(pair: Pair, column: str, rounds: int) -> float:
    one, two = (float(run.column(column)[rounds - 1]) for run in pair)
    return 100.0 * (one / two - 1.0)


_TIME = (
    "Smoothed test accuracy of both, seed by seed, at the time where the shortest of these runs ends; the verdict is "
    "on that moment, the way there is told beside it."
)
_LEAK = "Largest spent epsilon of any client, seed by seed, at the last {} that all of these runs reach."
_FEW = "Differences between single training runs are points of accuracy either way; few seeds decide little."

TRAINED = (
    Claim(
        "No client ever leaks more than its budget.",
        "Largest spent epsilon in every round of every training run with privacy, by the account, over the budget; the "
        "law of the schedules and the ledger behind it is in the tests. What one epsilon covers is said above.",
        "",
        _budget_kept,
    ),
    *(
        Claim(f"PAUSE is more accurate than {name} at equal latency.", _TIME, remark, _more_accurate_than(other))
        for name, other, remark in (
            ("random selection", "random", _FEW),
            (
                "clustered sampling",
                "clustered",
                "Clustered sampling weighs every client by its data in each round, so its updates are less biased; "
                "what PAUSE gains in time must outweigh that. " + _FEW,
            ),
            (
                "the fastest clients",
                "fastest",
                "The fastest clients play many rounds per second and lead at first; they spend their budgets at once, "
                "and what follows is noise. Where the common time ends before that, they are still ahead.",
            ),
            (
                "all clients with privacy",
                "all",
                "All clients together average away most of the noise, and lead as long as their budgets last; then "
                "they collapse. Where the common time ends before that, they are still ahead.",
            ),
        )
    ),
    *(
        Claim(
            f"PAUSE leaks less per round than {name}.",
            _LEAK.format("round"),
            "The largest leakage is that of the client picked most often. PAUSE spreads picks evenly over data, not "
            "over clients: with unequal data sizes, clients with much data are picked more often.",
            _leaks_less_than(other, "round"),
        )
        for name, other in (("random selection", "random"), ("clustered sampling", "clustered"))
    ),
    Claim(
        "Beyond the paper: PAUSE leaks less per second than random selection.",
        _LEAK.format("second"),
        "PAUSE's rounds are shorter, so it plays more of them per second, and each costs budget.",
        _leaks_less_than("random", "second"),
    ),
    Claim(
        "Taking all clients and taking the fastest leak alike.",
        "Largest difference of the largest spent epsilon in any round.",
        "",
        _same_leakage,
    ),
    Claim(
        "SA-PAUSE is close to PAUSE.",
        f"Within {_CLOSE_POINTS:g} points of accuracy and {_CLOSE_SHARE:.0%} of time and of leakage.",
        "The two pick other clients once they differ in a single choice. " + _FEW,
        _annealing_close,
    ),
)
