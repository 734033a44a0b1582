"""Policies against one reference, seed by seed: mean difference, its interval, and two tests with Holm's correction.

Runs with the same seed share data, start and latencies, so they are a pair, and what the seed does to both cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pausefl.errors import ConfigError
from pausefl.report.policy_summary import Groups, at_common_round, spellings
from pausefl.report.seed_statistics import holm, sign_flip_test, t_half_width, t_test
from pausefl.runs.run_data import RunData

METHOD = (
    "Pairs are runs with the same seed. Interval: 95 %, Student's t of the differences. p (t): paired t test; p "
    "(flip): exact sign-flip test, which with n seeds cannot fall below 2 / 2^n. Both are two-sided, and corrected by "
    "Holm for the number of policies compared. The interval is not corrected. Where a run of a pair never reaches a "
    "target, the times of this comparison count up to its end."
)
"""What stands below every table of such differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """How far a policy is from the reference in one measure: policy minus reference, over the seeds that both have.

    Attributes:
        low: lower end of the 95 % interval; None where the seeds are too few for one, or all differ by the same.
        high: upper end of it.
        p_t: p-value of the paired t test; ``p_t_holm`` is corrected for the number of policies.
        p_sign_flip: p-value of the exact sign-flip test; ``p_sign_flip_holm`` is the corrected one.
        horizon: for a time to a target that some run never reaches, the seconds up to which times count.
    """

    policy: str
    reference: str
    measure: str
    seeds: int
    difference: float
    low: float | None
    high: float | None
    p_t: float | None
    p_t_holm: float | None = None
    p_sign_flip: float | None
    p_sign_flip_holm: float | None = None
    horizon: float | None = None


Pair = tuple[RunData, RunData]
Measured = Callable[[RunData], float | None]
Differences = Callable[[Sequence[Pair]], tuple[list[float], float | None] | None]


def paired_differences(groups: Groups, reference: str, targets: Sequence[float] = ()) -> list[PairedDifference]:
    """Compare every policy with the reference: final accuracy, clock, leakage, and the time to each target.

    A policy that has no seed in common with the reference is left out, and so is a measure that a run does not have.
    """
    meant = next((name for name, known in spellings(groups).items() if reference in known), None)
    if meant is None:
        raise ConfigError(
            f"--against is {reference!r}, but must be one of {', '.join(groups)}; pass one of these names"
        )
    reference = meant
    at_end = {name: {run.settings.run.seed: run for run in at_common_round(runs)} for name, runs in groups.items()}
    ours = at_end.pop(reference)
    pairs = {name: [(runs[seed], ours[seed]) for seed in sorted(runs) if seed in ours] for name, runs in at_end.items()}
    found: list[PairedDifference] = []
    for measure, differences_of in _measures(targets):
        lines = [
            _difference(name, reference, measure, *differences)
            for name, both in pairs.items()
            if both and (differences := differences_of(both)) is not None
        ]
        for_t, for_flips = holm([line.p_t for line in lines]), holm([line.p_sign_flip for line in lines])
        found += [
            replace(line, p_t_holm=t, p_sign_flip_holm=flips)
            for line, t, flips in zip(lines, for_t, for_flips, strict=True)
        ]
    return found


def restricted_times(pairs: Sequence[Pair], target: float) -> tuple[list[tuple[float, float]], float | None]:
    """Return the seconds to a target of both runs of each pair, and the horizon up to which they count.

    The horizon is the end of the shortest run that never reaches the target, and None if all reach it: up to then every
    time is known, and after its end nobody can say what a run would have reached.  Whoever is later than that, or never
    there, counts with the horizon itself.
    """
    ends = [run.column("seconds")[-1] for pair in pairs for run in pair if run.time_to(target) is None]
    horizon = float(min(ends)) if ends else math.inf

    def time(run: RunData) -> float:
        reached = run.time_to(target)
        return horizon if reached is None else min(reached, horizon)

    return [(time(one), time(two)) for one, two in pairs], horizon if ends else None


def _measures(targets: Sequence[float]) -> Iterator[tuple[str, Differences]]:
    """Yield each measure with its differences and its horizon; they are None where a run lacks the number."""
    yield "final accuracy, %", lambda pairs: _plain(pairs, RunData.final_accuracy)
    yield "clock, s", lambda pairs: _plain(pairs, lambda run: float(run.records[-1]["seconds"]))
    yield "largest leakage", lambda pairs: _plain(pairs, lambda run: run.records[-1]["max_leakage"])
    for target in targets:
        yield f"s to {target:g} %", partial(_times, target)


def _plain(pairs: Sequence[Pair], number: Measured) -> tuple[list[float], None] | None:
    both = [(number(one), number(two)) for one, two in pairs]
    differences = [one - two for one, two in both if one is not None and two is not None]
    return (differences, None) if len(differences) == len(pairs) else None


def _times(target: float, pairs: Sequence[Pair]) -> tuple[list[float], float | None]:
    times, horizon = restricted_times(pairs, target)
    return [one - two for one, two in times], horizon


def _difference(
    policy: str, reference: str, measure: str, differences: Sequence[float], horizon: float | None
) -> PairedDifference:
    mean, half_width = float(np.mean(differences)), t_half_width(differences)
    known = 0.0 < half_width < math.inf  # where all differences are the same number, an interval would be a point
    return PairedDifference(
        policy=policy,
        reference=reference,
        measure=measure,
        seeds=len(differences),
        difference=mean,
        low=mean - half_width if known else None,
        high=mean + half_width if known else None,
        p_t=t_test(differences),
        p_sign_flip=sign_flip_test(differences) if len(differences) > 1 else None,
        horizon=horizon,
    )
