"""Claims about training: accuracy, time and leakage of the policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pausefl.runs.run_data import SMOOTH, RunData
from pausefl.studies.claims.claim import Claim, Estimate, Finding, Verdict
from pausefl.studies.evidence import Axis, Evidence, Pair, common_end, leads_of, leakage_at, still_exploring, window

_ROUNDING = 1e-9
_CLOSE_POINTS, _CLOSE_SHARE = 3.0, 0.05


def _budget_kept(evidence: Evidence) -> Iterator[Finding]:
    for study, policies in evidence.runs.items():
        shares = [
            float(np.nanmax(run.column("max_leakage"))) / run.settings.privacy.budget
            for seeds in policies.values()
            for run in seeds.values()
            if run.settings.privacy.enabled and run.settings.learning.enabled
        ]
        if shares:
            verdict: Verdict = "holds" if max(shares) <= 1.0 + _ROUNDING else "does not hold"
            yield Finding(study, verdict, f"at most {max(shares):.4f} of a budget spent, {len(shares)} runs")


def _more_accurate_than(other: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            end, width = common_end(pairs, "seconds"), window(pairs)
            leads = [lead for pair in pairs if len(lead := leads_of(pair, end, width))]
            if leads:
                last, mean = Estimate.of([lead[-1] for lead in leads]), Estimate.of([lead.mean() for lead in leads])
                of_seeds = f", in {sum(lead[-1] > 0 for lead in leads)} of {len(leads)} seeds" if len(leads) > 1 else ""
                ahead = float(np.mean([(lead > 0).mean() for lead in leads]))
                figure = (
                    f"after {end:.0f} s (mean of {min(width, end):.1f} s): {last} points ahead{of_seeds}; "
                    f"mean lead until then {mean}, ahead for {ahead:.0%} of the time"
                )
                yield _unless_early(Finding.compared(study, figure, last.above(0.0)), pairs, "seconds", end)

    return judge


def _unless_early(finding: Finding, pairs: Sequence[Pair], axis: Axis, end: float) -> Finding:
    early = still_exploring(pairs, axis, end)
    return replace(finding, verdict="too early", comparisons=()) if early else finding


def _leaks_less_than(other: str, axis: Axis) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            end = common_end(pairs, axis)
            at = np.arange(1.0, end + 1.0) if axis == "round" else np.linspace(0.0, end, 201)[1:]
            less = [leakage_at(theirs, axis, at) - leakage_at(ours, axis, at) for ours, theirs in pairs]
            last = Estimate.of([values[-1] for values in less])
            lower = float(np.mean([(values > 0).mean() for values in less]))
            place = f"at round {end:.0f}" if axis == "round" else f"after {end:.0f} s"
            figure = f"{place}: {last} epsilon less (negative: more), less for {lower:.0%} of the way"
            yield _unless_early(Finding.compared(study, figure, last.above(0.0)), pairs, axis, end)

    return judge


def _same_leakage(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("all", "fastest"):
        gaps = [_largest_gap(*pair) for pair in pairs]
        verdict: Verdict = "holds" if all(gap <= _ROUNDING for gap in gaps) else "does not hold"
        yield Finding(study, verdict, f"largest difference in any round {max(gaps):.2g}, pairs: {len(pairs)}")


def _largest_gap(one: RunData, two: RunData) -> float:
    common = min(len(one.records), len(two.records))
    return float(np.abs(one.column("max_leakage")[:common] - two.column("max_leakage")[:common]).max())


def _close_to_pause(annealed: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs(annealed, "pause"):
            rounds = int(common_end(pairs, "round"))
            one, two = (
                np.array([run.series("accuracy")[rounds - 1] for run in side]) for side in zip(*pairs, strict=True)
            )
            if not np.isnan(one - two).any():
                points = Estimate.of(one - two)
                time = Estimate.of([_relative(pair, "seconds", rounds) for pair in pairs])
                leakage = Estimate.of([_relative(pair, "max_leakage", rounds) for pair in pairs])
                figure = (
                    f"after {rounds} rounds against pause: accuracy {points} points, time {time} %, leakage {leakage} %"
                )
                share = 100 * _CLOSE_SHARE
                close = points.within(_CLOSE_POINTS), time.within(share), leakage.within(share)
                yield _unless_early(Finding.compared(study, figure, *close), pairs, "round", rounds)

    return judge


def _relative(pair: Pair, column: str, rounds: int) -> float:
    one, two = (float(run.column(column)[rounds - 1]) for run in pair)
    return 100.0 * (one / two - 1.0)


_TIME = (
    "We compare the test accuracy of both, seed by seed, at the time where the shortest of these runs ends. The "
    "accuracy at that time is the mean of the scores in a window before it, which is as long as "
    f"{SMOOTH} rounds of PAUSE take. The verdict is about that moment. The table also shows the mean lead until then. "
    "A negative lead means that PAUSE is behind."
)
_LEAK = "We compare the largest epsilon that any client has spent, seed by seed, at the last {} that all runs reach."
_AXIS = (
    " The paper draws leakage against rounds for i.i.d. data in the small network, and against time for the rest. We "
    "judge every study by both."
)
_FEW = "Single training runs differ by points of accuracy in either direction, so a few seeds decide little."
_CLOSE = (
    f"After the same number of rounds, the two must be within {_CLOSE_POINTS:g} points of accuracy (mean of {SMOOTH} "
    f"rounds) and {_CLOSE_SHARE:.0%} of time and of leakage. "
)

TRAINED = (
    Claim(
        "No client ever leaks more than its budget.",
        "For every training run with privacy, we take the largest epsilon that a client has spent in any round, and "
        "divide it by the budget. The schedules are made so that it cannot exceed 1, and the tests check that. Here we "
        "read it from what the runs recorded. The top of the page says what one epsilon covers.",
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
                "Clustered sampling weighs every client by its data in each round, so its updates are less biased. "
                "The time that PAUSE gains must outweigh that. " + _FEW,
            ),
            (
                "the fastest clients",
                "fastest",
                "The fastest clients play many rounds per second and lead at first. They soon spend their budgets, "
                "and then they send mostly noise. Where the common time ends before that, they are still ahead.",
            ),
            (
                "all clients with privacy",
                "all",
                "All clients together average away most of the noise, and lead as long as their budgets last. Then "
                "their accuracy collapses. Where the common time ends before that, they are still ahead.",
            ),
        )
    ),
    *(
        Claim(
            f"PAUSE leaks less per round than {name}.",
            _LEAK.format("round") + _AXIS,
            "The largest leakage is that of the client picked most often. PAUSE spreads picks evenly over data, not "
            "over clients: with unequal data sizes, clients with much data are picked more often.",
            _leaks_less_than(other, "round"),
        )
        for name, other in (("random selection", "random"), ("clustered sampling", "clustered"))
    ),
    *(
        Claim(
            f"PAUSE leaks less per second than {name}.",
            _LEAK.format("second") + _AXIS,
            "PAUSE's rounds are shorter, so it plays more of them per second, and each costs budget.",
            _leaks_less_than(other, "seconds"),
        )
        for name, other in (("random selection", "random"), ("clustered sampling", "clustered"))
    ),
    Claim(
        "Taking all clients and taking the fastest leak alike.",
        "We take the largest spent epsilon of both in each round, and the largest difference over all rounds.",
        "",
        _same_leakage,
    ),
    Claim(
        "SA-PAUSE is close to PAUSE.",
        _CLOSE
        + "This is our annealer: its temperature comes from the data, and it starts again where a chain is stuck.",
        "Once the two differ in a single choice, they pick different clients from then on. " + _FEW,
        _close_to_pause("sa-pause"),
    ),
    Claim(
        "SA-PAUSE as published is close to PAUSE.",
        _CLOSE
        + "This is one chain from a random set, at the paper's temperature: C / 30, where C comes from the largest "
        "range that the reward can have.",
        "With alpha = 100 that temperature is far above the differences between sets, so the chain walks almost at "
        "random.",
        _close_to_pause("sa-pause-as-published"),
    ),
)
