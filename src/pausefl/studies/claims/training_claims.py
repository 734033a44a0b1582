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
            yield Finding(study, verdict, f"at most {max(shares):.4f} of the budget, in {len(shares)} runs")


def _more_accurate_than(other: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs("pause", other):
            end, width = common_end(pairs, "seconds"), window(pairs)
            leads = [lead for pair in pairs if len(lead := leads_of(pair, end, width))]
            if leads:
                last, mean = Estimate.of([lead[-1] for lead in leads]), Estimate.of([lead.mean() for lead in leads])
                of_seeds = f", ahead in {sum(lead[-1] > 0 for lead in leads)} of them" if len(leads) > 1 else ""
                ahead = float(np.mean([(lead > 0).mean() for lead in leads]))
                figure = (
                    f"lead after {end:.0f} s: {last}{of_seeds}; mean lead {mean.short}, ahead for {ahead:.0%} of the "
                    f"time (window: {min(width, end):.1f} s)"
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
            share = f"in {lower:.0%} of the rounds" if axis == "round" else f"for {lower:.0%} of the time"
            figure = f"{place}: {last}; PAUSE leaks less {share}"
            yield _unless_early(Finding.compared(study, figure, last.above(0.0)), pairs, axis, end)

    return judge


def _same_leakage(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs("all", "fastest"):
        gaps = [_largest_gap(*pair) for pair in pairs]
        verdict: Verdict = "holds" if all(gap <= _ROUNDING for gap in gaps) else "does not hold"
        yield Finding(
            study,
            verdict,
            f"largest difference {max(gaps):.2g}, in {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}",
        )


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
                    f"after {rounds} rounds: accuracy {points} points, time {time.short} %, leakage {leakage.short} %"
                )
                share = 100 * _CLOSE_SHARE
                close = points.within(_CLOSE_POINTS), time.within(share), leakage.within(share)
                yield _unless_early(Finding.compared(study, figure, *close), pairs, "round", rounds)

    return judge


def _relative(pair: Pair, column: str, rounds: int) -> float:
    one, two = (float(run.column(column)[rounds - 1]) for run in pair)
    return 100.0 * (one / two - 1.0)


_TIME = (
    "We compare the test accuracy of both policies at one moment: when the shortest of these runs ends. The accuracy "
    f"at a moment is the mean of the scores in a window before it. The window is as long as {SMOOTH} rounds of PAUSE "
    "take. The *lead* is the accuracy of PAUSE minus that of the other policy, in points. So a negative lead means "
    "that PAUSE is behind. The verdict is about the lead at that moment. The table also shows the mean lead until then."
)
_LEAK = (
    "We compare the leakage at the last {} that all runs reach. The table shows by how much epsilon PAUSE leaks less. "
    "A negative number means that PAUSE leaks more."
)
_AXIS = (
    " For equal data in the small network, the paper draws leakage against rounds, and otherwise against time. We "
    "judge every study by rounds here, and by seconds in the claims about leakage per second."
)
_FEW = "Two training runs can differ by some points of accuracy for no reason but chance. So a few seeds decide little."
_CLOSE = (
    "We compare SA-PAUSE with PAUSE after the same number of rounds. The accuracy (mean of "
    f"{SMOOTH} rounds) must differ by less than {_CLOSE_POINTS:g} points. Time and leakage must differ by less than "
    f"{_CLOSE_SHARE:.0%}. A positive number means that SA-PAUSE has more. "
)

TRAINED = (
    Claim(
        "No client ever leaks more than its budget.",
        "For every run of the paper's studies with privacy, we take the largest epsilon that any client has spent, and "
        "divide it by the budget. The result must not exceed 1. The schedules cannot spend more by construction, and "
        "unit tests check that. This claim checks what the runs recorded.",
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
                "In each round of clustered sampling, every client counts in proportion to its data. So the updates "
                "are less biased. PAUSE must gain enough time to make up for that. " + _FEW,
            ),
            (
                "the fastest clients",
                "fastest",
                "The fastest clients finish many rounds per second, so they lead at first. They soon spend their "
                "budgets, and then they send mostly noise. If the comparison is before that moment, they are still "
                "ahead.",
            ),
            (
                "all clients with privacy",
                "all",
                "The mean over all clients contains little noise. So the policy `all` leads until the budgets are "
                "nearly spent. Then its accuracy collapses. If the comparison is before that moment, all clients "
                "together are still ahead.",
            ),
        )
    ),
    *(
        Claim(
            f"PAUSE leaks less per round than {name}.",
            _LEAK.format("round") + _AXIS,
            "The client that was picked most often has the largest leakage. PAUSE picks clients in proportion to their "
            "data. So if clients have unequal amounts of data, PAUSE picks those with much data more often.",
            _leaks_less_than(other, "round"),
        )
        for name, other in (("random selection", "random"), ("clustered sampling", "clustered"))
    ),
    *(
        Claim(
            f"PAUSE leaks less per second than {name}.",
            _LEAK.format("second"),
            "PAUSE's rounds are shorter. So it plays more rounds per second, and each round costs budget.",
            _leaks_less_than(other, "seconds"),
        )
        for name, other in (("random selection", "random"), ("clustered sampling", "clustered"))
    ),
    Claim(
        "Taking all clients leaks as much as taking the fastest clients.",
        "We compare the leakage of both policies in each round. The largest difference over all rounds must be 0, "
        "except for rounding.",
        "",
        _same_leakage,
    ),
    Claim(
        "SA-PAUSE is close to PAUSE.",
        _CLOSE + "This is our annealer. It takes its temperature from the data, and starts again where a chain is "
        "stuck.",
        "After the first round in which the two choose differently, they have different histories and go on choosing "
        "differently. " + _FEW,
        _close_to_pause("sa-pause"),
    ),
    Claim(
        "SA-PAUSE as published is close to PAUSE.",
        _CLOSE + "This is the paper's annealer: one chain that starts at a random set. Its temperature is C / 30, "
        "where C follows from the largest range that the reward can have.",
        "With alpha = 100, this temperature is far above the differences between sets. So the chain walks almost at "
        "random.",
        _close_to_pause("sa-pause-as-published"),
    ),
)
