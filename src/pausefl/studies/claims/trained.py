"""Claims about training: accuracy, time and leakage of the policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from pausefl.report.frames import RunData
from pausefl.studies.claims.claim import Claim, Estimate, Finding, worst
from pausefl.studies.claims.evidence import Evidence, Pair, accuracy_at

_ROUNDING = 1e-9
_CLOSE_POINTS, _CLOSE_SHARE = 3.0, 0.05


def _budget_kept(evidence: Evidence) -> Iterator[Finding]:
    for study, policies in evidence.runs.items():
        shares = [
            float(np.nanmax(run.column("max_leakage"))) / run.config["privacy"]["budget"]
            for seeds in policies.values()
            for run in seeds.values()
            if run.config["privacy"]["enabled"]
        ]
        if shares:
            verdict = "holds" if max(shares) <= 1.0 + _ROUNDING else "does not hold"
            yield Finding(study, verdict, f"largest spent share of a budget {max(shares):.4f}, {len(shares)} runs")  # type: ignore[arg-type]


def _more_accurate_than(other: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            ends, ahead = zip(*(_lead(pair) for pair in pairs), strict=True)
            lead = Estimate.of(ends)
            figure = f"{lead} points at the end of the common time, ahead for {np.mean(ahead):.0%} of it"
            yield Finding(study, lead.above(0.0), figure)

    return judge


def _lead(pair: Pair) -> tuple[float, float]:
    """Return by how many points the first is ahead at the end of the common time, and for which share of it."""
    end = min(run.column("seconds")[-1] for run in pair)
    at = np.linspace(0.0, end, 201)[1:]
    difference = accuracy_at(pair[0], at) - accuracy_at(pair[1], at)
    both = difference[~np.isnan(difference)]
    return float(both[-1]), float((both > 0).mean())


def _leaks_less_than(other: str, axis: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            ends, lower = zip(*(_extra_leakage(pair, axis) for pair in pairs), strict=True)
            extra = Estimate.of(ends)
            figure = f"{extra} epsilon more than {other} at the last common {axis}, below for {np.mean(lower):.0%}"
            yield Finding(study, extra.below(0.0), figure)

    return judge


def _extra_leakage(pair: Pair, axis: str) -> tuple[float, float]:
    def leakage(run: RunData) -> np.ndarray:
        place = np.searchsorted(run.column(x), at, side="right") - 1
        return np.where(place < 0, 0.0, run.column("max_leakage")[np.maximum(place, 0)])

    x = "round" if axis == "round" else "seconds"
    end = min(run.column(x)[-1] for run in pair)
    at = np.arange(1.0, end + 1.0) if axis == "round" else np.linspace(0.0, end, 201)[1:]
    difference = leakage(pair[0]) - leakage(pair[1])
    return float(difference[-1]), float((difference < 0).mean())


def _same_leakage(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("all", "fastest"):
        worst = 0.0
        for one, two in pairs:
            common = min(len(one.records), len(two.records))
            gap = one.column("max_leakage")[:common] - two.column("max_leakage")[:common]
            worst = max(worst, float(np.abs(gap).max()))
        verdict = "holds" if worst <= _ROUNDING else "does not hold"
        yield Finding(study, verdict, f"largest difference in any round {worst:.2g}, {len(pairs)} pairs")  # type: ignore[arg-type]


def _annealing_close(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("sa-pause", "pause"):
        points = Estimate.of([_lead(pair)[0] for pair in pairs])
        longer = Estimate.of([_relative(pair, "seconds") for pair in pairs])
        leakage = Estimate.of([_relative(pair, "max_leakage") for pair in pairs])
        figure = f"accuracy {points} points, time {longer} %, max leakage {leakage} % against pause"
        share = 100 * _CLOSE_SHARE
        verdict = worst([points.within(_CLOSE_POINTS), longer.within(share), leakage.within(share)])
        yield Finding(study, verdict, figure)


def _relative(pair: Pair, column: str) -> float:
    last = min(len(run.records) for run in pair) - 1
    one, two = (float(run.column(column)[last]) for run in pair)
    return 100.0 * (one / two - 1.0)


_TIME = "Smoothed test accuracy of both, seed by seed, where the shorter of the two clocks ends."
_LEAK = "Largest spent epsilon of any client, seed by seed, at the last common {}."

TRAINED = (
    Claim(
        "No client ever leaks more than its budget.",
        "Largest spent epsilon in every round of every run with privacy, over the budget.",
        "",
        _budget_kept,
    ),
    *(
        Claim(
            f"PAUSE is more accurate than {name} at equal latency.",
            _TIME,
            remark,
            _more_accurate_than(other),
        )
        for name, other, remark in (
            ("random selection", "random", ""),
            ("clustered sampling", "clustered", ""),
            (
                "the fastest clients",
                "fastest",
                "The fastest clients play many rounds per second and lead at first; they spend their budgets at once, "
                "and what follows is noise. Where the common time ends before that, they are still ahead.",
            ),
            (
                "all clients with privacy",
                "all",
                "All clients together average away most of the noise, at the price of the slowest client's time and "
                "of budgets that are gone early.",
            ),
        )
    ),
    *(
        Claim(f"PAUSE leaks less per round than {name}.", _LEAK.format("round"), "", _leaks_less_than(other, "round"))
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
        f"Within {_CLOSE_POINTS:g} points of accuracy and {_CLOSE_SHARE:.0%} of time and of leakage at the end.",
        "The two pick other clients once they differ in a single choice; single training runs then differ by points of "
        "accuracy either way, so few seeds decide nothing.",
        _annealing_close,
    ),
)
