"""Runs as numbers: grouped by policy, with mean and spread over seeds, for tables on the page and in the terminal."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pausefl.errors import ConfigError
from pausefl.report.policy_looks import ordered
from pausefl.runs.config import ONE_POLICY, differences, flat
from pausefl.runs.run_data import RunData

Groups: TypeAlias = Mapping[str, Sequence[RunData]]
"""The runs of each policy, by the name that tables and charts give it."""


def by_policy(runs: Iterable[RunData]) -> dict[str, list[RunData]]:
    """Group runs by policy; if runs of one policy differ in more than the seed, their names tell in what."""
    groups: dict[str, list[RunData]] = defaultdict(list)
    for run in runs:
        groups[json.dumps(flat(run.settings, ONE_POLICY), sort_keys=True) + run.code].append(run)
    named: dict[str, list[RunData]] = {}
    policies = Counter(group[0].name for group in groups.values())
    for group in groups.values():
        name = group[0].name
        if policies[name] > 1:
            others = [other[0] for other in groups.values() if other[0].name == name]
            name = f"{name} ({', '.join(_told_apart(group[0], others)) or len(named)})"
        seeds: dict[int, RunData] = {}
        for run in group:
            same = seeds.setdefault(run.settings.run.seed, run)
            if same is not run:
                raise ConfigError(
                    f"{same.folder} and {run.folder} are one run ({name}, seed {run.settings.run.seed}); "
                    "leave one of them out"
                )
        named[name] = [replace(run, name=name) for run in group]
    return {name: named[name] for name in ordered(named)}


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over seeds, its standard deviation, and how many seeds had such a number.

    >>> str(spread([1.0, 2.0, None]))
    '1.5 ± 0.7'
    """

    mean: float
    deviation: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f}" if self.count > 1 else f"{self.mean:.1f}"


def epsilon_text(epsilon: float) -> str:
    """Return an epsilon for a table; a small one must not look like none.

    >>> epsilon_text(39.96), epsilon_text(0.0312), epsilon_text(0.0)
    ('40.0', '0.031', '0.0')
    """
    return f"{epsilon:.2g}" if 0.0 < epsilon < 0.95 else f"{epsilon:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySummary:
    """One policy over all its seeds.

    ``max_leakage`` is the largest of any seed and None without a bound; ``time_to`` holds the seconds to each target,
    over the seeds that reached it.
    """

    name: str
    seeds: int
    rounds: int
    seconds: Spread | None
    accuracy: Spread | None
    best_accuracy: Spread | None
    max_leakage: float | None
    fast_share: Spread | None
    client_deviation: Spread | None
    worst_client: Spread | None
    time_to: Mapping[float, Spread | None]


COLUMNS = (
    "policy", "seeds", "rounds", "clock, s", "final accuracy, %", "best, %", "largest leakage", "picks of fast half, %",
)  # fmt: skip
"""What every table says of a policy at a glance."""


def at_a_glance(policy: PolicySummary, nothing: str) -> list[str]:
    """Return a cell per column; ``nothing`` where there is no number."""
    p = policy
    spreads = (p.seconds, p.accuracy, p.best_accuracy)
    leakage = "no bound" if p.max_leakage is None else epsilon_text(p.max_leakage)
    return [p.name, str(p.seeds), str(p.rounds), *(cell(s, nothing) for s in spreads), leakage,
            cell(p.fast_share, nothing)]  # fmt: skip


def cell(value: Spread | None, nothing: str) -> str:
    """Return a number with its spread as a cell."""
    return nothing if value is None else str(value)


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return mean and standard deviation of the numbers among the values; None if there are none."""
    found = [value for value in values if value is not None]
    if not found:
        return None
    return Spread(float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else 0.0, len(found))


def summarise(groups: Groups, targets: Sequence[float] | None = None) -> list[PolicySummary]:
    """Return the summary of every policy, with the time to each target accuracy (percent).

    By default the targets are the five highest multiples of five percent that some policy ends above.
    """
    wanted = _default_targets(groups) if targets is None else targets
    return [_summary(name, runs, wanted) for name, runs in groups.items()]


def _default_targets(groups: Groups, count: int = 5) -> list[float]:
    finals = [spread(run.final_accuracy() for run in runs) for runs in groups.values()]
    best = max((final.mean for final in finals if final), default=0.0)
    return [float(target) for target in range(5, int(best) + 1, 5)][-count:]


def _summary(name: str, seeds: Sequence[RunData], targets: Sequence[float]) -> PolicySummary:
    common = min(len(run.records) for run in seeds)
    # Seeds that are not finished would be averaged at another moment than the rest.
    runs = [replace(run, records=run.records[:common]) for run in seeds]
    leaks = [run.records[-1]["max_leakage"] for run in runs]
    fairness = [(run.summary or {}).get("client_accuracy") or {} for run in runs]
    return PolicySummary(
        name=name,
        seeds=len(runs),
        rounds=common,
        seconds=spread(run.records[-1]["seconds"] for run in runs),
        accuracy=spread(run.final_accuracy() for run in runs),
        best_accuracy=spread(run.best_accuracy() for run in runs),
        max_leakage=None if None in leaks else max(leaks),
        fast_share=spread(_fast_share(run) for run in runs),
        client_deviation=spread(client.get("deviation") for client in fairness),
        worst_client=spread(client.get("worst") for client in fairness),
        time_to={target: spread(run.time_to(target) for run in runs) for target in targets},
    )


def _fast_share(run: RunData) -> float | None:
    """Return which share (percent) of all picks went to the faster half of the clients."""
    latency, picks = run.expected_latency(), run.picks()
    if latency is None or not picks.sum() or latency.max() <= latency.min():
        return None
    fast = np.argsort(latency, kind="stable")[: len(latency) // 2]
    return float(100.0 * picks[fast].sum() / picks.sum())


def _told_apart(run: RunData, others: Sequence[RunData]) -> list[str]:
    """Return the settings in which runs of one policy differ, as this run has them; its code, if only that differs."""
    settings_of = [flat(other.settings, ONE_POLICY) for other in others]
    keys = dict.fromkeys(key for settings in settings_of for key in sorted(settings))
    mine = flat(run.settings)
    alike = {other.code for other in others if not differences(run.settings, other.settings, ONE_POLICY)}
    return [
        f"{key.partition('.')[2]}={mine.get(key, 'none')}"
        for key in keys
        if len({str(settings.get(key)) for settings in settings_of}) > 1
    ] + [f"code {run.code or 'unknown'}"] * (len(alike) > 1)
