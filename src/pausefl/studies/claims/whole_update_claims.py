"""Claims of our own about budgets for the whole update: that models learn, that plans are right, and who is fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from pausefl.report.paired_differences import restricted_times
from pausefl.runs.run_data import SMOOTH
from pausefl.studies.claims.claim import Claim, Estimate, Finding
from pausefl.studies.evidence import Evidence, common_end, final_scores, leads_of, window
from pausefl.studies.measured.budgets import REACHED, Budgets, by_setting

_TARGET = 90.0
_REHEARSED = "pause (rehearsed)"
_NEARLY = 1.1
_COUNTED = (
    "If a run never gets there, we count seconds only up to the end of the shortest such run. A run that is not there "
    "by then counts as if it got there at that moment."
)


def _plans(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Budgets):
        for name, seeds in by_setting(rows).items():
            first = seeds[0]
            share = Estimate.of([row["accuracy"] / row["without_noise"] for row in seeds])
            can = first["noise_to_signal"] <= first["bearable"]
            accuracy = Estimate.of([row["accuracy"] for row in seeds])
            said = "can learn" if can else "cannot learn"
            figure = f"plan: {said}; {accuracy} % with noise, {first['without_noise']:.1f} % without"
            as_planned = share.above(REACHED) if can else share.below(REACHED)
            yield Finding.compared(f"{study}: {name}", figure, as_planned)


def _sooner(ours: str, other: str) -> Callable[[Evidence], Iterable[Finding]]:
    def judge(evidence: Evidence) -> Iterator[Finding]:
        for study, pairs in evidence.pairs(ours, other):
            if pairs[0][0].settings.privacy.mechanism != "privunit":
                continue
            times, end = restricted_times(pairs, _TARGET)
            ahead = Estimate.of([two - one for one, two in times])
            means = [np.mean(side) for side in zip(*times, strict=True)]
            there = [sum(run.time_to(_TARGET) is not None for run in side) for side in zip(*pairs, strict=True)]
            if any(there):
                counted = (
                    f"; up to {end:.0f} s; {there[0]} and {there[1]} of {len(times)} seeds got there" if end else ""
                )
                figure = f"{means[0]:.1f} s against {means[1]:.1f} s: {ahead} s sooner{counted}"
                yield Finding.compared(study, figure, ahead.above(0.0))

    return judge


def _nearly_as_fast(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs(_REHEARSED, "fastest"):
        ratio = Estimate.of([one.column("seconds")[-1] / two.column("seconds")[-1] for one, two in pairs])
        figure = f"{ratio} times the seconds of `fastest` until all budgets are spent"
        yield Finding.compared(study, figure, ratio.below(_NEARLY))


def _as_accurate(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs(_REHEARSED, "random"):
        if found := final_scores(pairs):
            ahead = Estimate.of(one - two for one, two in found)
            means = [np.mean(side) for side in zip(*found, strict=True)]
            figure = f"{means[0]:.1f} % against {means[1]:.1f} %: {ahead} points ahead"
            yield Finding.compared(study, figure, ahead.above(-1.0))


def _on_the_way(evidence: Evidence) -> Iterator[Finding]:
    for study, pairs in evidence.pairs(_REHEARSED, "random"):
        end, width = common_end(pairs, "seconds"), window(pairs)
        seconds = [float(lead.mean()) for pair in pairs if len(lead := leads_of(pair, end, width))]
        if seconds:
            ahead = Estimate.of(seconds)
            common = slice(int(common_end(pairs, "round")))
            scores = [[run.column("accuracy")[common] for run in pair] for pair in pairs]
            rounds = Estimate.of([float(np.nanmean(one - two)) for one, two in scores])
            figure = f"until {end:.0f} s on average {ahead} points ahead at equal seconds, {rounds} at equal rounds"
            yield Finding.compared(study, figure, ahead.above(0.0))


WHOLE_UPDATE = (
    Claim(
        "A small model on fixed features learns under a lifetime budget for the whole update, where the plan says so.",
        "The runs follow `pausefl plan`. Where the plan says that the model can learn, their mean accuracy must be "
        f"above {REACHED:.0%} of the accuracy without noise. Where it says that the model cannot learn, it must be "
        "below. The accuracy without noise is that of one run, so the interval leaves out by how much that run could "
        "differ.",
        "The verdict rests on one number: the ratio of noise to signal, divided by the ratio that the model bears. It "
        "was fitted to runs of other settings, and near 1 it can err either way.",
        _plans,
        before_runs=False,
    ),
    Claim(
        "With few releases per client, PAUSE is faster than random choice.",
        f"We compare the seconds to {_TARGET:g} % under a whole-update budget, seed by seed. {_COUNTED}",
        "",
        _sooner("pause", "random"),
        before_runs=False,
    ),
    Claim(
        "A rehearsal makes PAUSE faster.",
        f"We compare the seconds to {_TARGET:g} % with and without a rehearsal. Its own seconds count. {_COUNTED}",
        "",
        _sooner(_REHEARSED, "pause"),
        before_runs=False,
    ),
    Claim(
        "After a rehearsal, PAUSE spends all budgets nearly as fast as somebody who knows all latencies.",
        f"The seconds until all budgets are spent must be less than {_NEARLY:g} times those of `fastest`, which is "
        "told the true means.",
        "With unequal data PAUSE also brings in clients with much data, which may be slow.",
        _nearly_as_fast,
        before_runs=False,
    ),
    Claim(
        "After a rehearsal, PAUSE is as accurate as random choice, on unequal data too.",
        "Seed by seed, the accuracy of the last ten rounds must be less than 1 point below that of random choice.",
        "",
        _as_accurate,
        before_runs=False,
    ),
    Claim(
        "After a rehearsal, PAUSE is ahead of random choice on the way, on unequal data too.",
        "We take the mean difference in accuracy at equal seconds, seed by seed, from the first score of both until "
        f"the shortest of these runs ends. Scores are means over as many seconds as {SMOOTH} rounds of PAUSE take. The "
        "verdict is about equal seconds. The table also shows the difference at equal rounds.",
        "",
        _on_the_way,
        before_runs=False,
    ),
)
