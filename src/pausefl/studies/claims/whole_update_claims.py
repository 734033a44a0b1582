"""Our own claims about budgets for the whole update: models learn, plans are right, and which policy is fastest."""

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
    "If some run never reaches it, we count seconds only up to a limit: the end of the shortest such run. A run that "
    "has not reached it by then counts with the limit."
)


def _plans(evidence: Evidence) -> Iterator[Finding]:
    for study, rows in evidence.rows(Budgets):
        for name, seeds in by_setting(rows).items():
            first = seeds[0]
            share = Estimate.of([row["accuracy"] / row["without_noise"] for row in seeds])
            can = first["noise_to_signal"] <= first["bearable"]
            accuracy = Estimate.of([row["accuracy"] for row in seeds])
            said = "can learn" if can else "cannot learn"
            figure = f"{said}; {accuracy} % with noise, {first['without_noise']:.1f} % without"
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
                    f"; limit {end:.0f} s; {there[0]} and {there[1]} of {len(times)} seeds reach it" if end else ""
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
            figure = f"{means[0]:.1f} % against {means[1]:.1f} %: lead {ahead} points"
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
            figure = f"until {end:.0f} s: mean lead {ahead} points at equal seconds, {rounds.short} at equal rounds"
            yield Finding.compared(study, figure, ahead.above(0.0))


WHOLE_UPDATE = (
    Claim(
        "A small model on fixed features learns under a lifetime budget for the whole update, where the plan says so.",
        "The settings of these runs come from `pausefl plan`, which says whether a model can learn. If the plan says "
        f"that it can, the mean accuracy must be above {REACHED:.0%} of the accuracy without noise. If the plan says "
        "that it cannot, the mean accuracy must be below. The accuracy without noise comes from a single run. The "
        "interval does not include how much that run could differ. The brackets name the [features](choosing.md) of "
        "the images: `hog`, `pool`, or `none` (the pixels).",
        "The plan decides by one number: the noise-to-signal ratio divided by the ratio that the model bears. We "
        "fitted this number to runs of other settings. Near 1 the plan can be wrong in both directions.",
        _plans,
        before_runs=False,
    ),
    Claim(
        "With few releases per client, PAUSE is faster than random choice.",
        f"We compare the seconds until a run reaches an accuracy of {_TARGET:g} %, under a budget for the whole "
        f"update. {_COUNTED}",
        "",
        _sooner("pause", "random"),
        before_runs=False,
    ),
    Claim(
        "A rehearsal makes PAUSE faster.",
        "In a *rehearsal*, all clients do the work of a round once on made-up data, so that PAUSE knows their speeds. "
        f"We compare the seconds until a run reaches an accuracy of {_TARGET:g} %, with and without a rehearsal. The "
        "seconds of the rehearsal count. For runs that never reach it, there is a limit as in the claim above.",
        "",
        _sooner(_REHEARSED, "pause"),
        before_runs=False,
    ),
    Claim(
        "After a rehearsal, PAUSE spends all budgets nearly as fast as a policy that knows all latencies.",
        "The policy `fastest` is told the true mean latency of every client. PAUSE must need less than "
        f"{_NEARLY:g} times its seconds until all budgets are spent.",
        "If data is unequal, PAUSE also picks clients with much data, and these may be slow.",
        _nearly_as_fast,
        before_runs=False,
    ),
    Claim(
        "After a rehearsal, PAUSE is as accurate as random choice, on unequal data too.",
        "We compare the mean accuracy of the last ten rounds. PAUSE must be less than 1 point below random choice.",
        "",
        _as_accurate,
        before_runs=False,
    ),
    Claim(
        "After a rehearsal, PAUSE is ahead of random choice during training, on unequal data too.",
        "The lead is the accuracy of PAUSE minus that of random choice at the same second. Accuracies are means over a "
        f"window as long as {SMOOTH} rounds of PAUSE take. The verdict is about the mean lead, from the moment when "
        "both have a score until the shortest of these runs ends. The table also shows the mean lead at equal rounds.",
        "",
        _on_the_way,
        before_runs=False,
    ),
)
