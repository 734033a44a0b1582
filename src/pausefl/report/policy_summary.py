"""Runs as numbers: grouped by policy, with mean and spread over seeds, for tables on the page and in the terminal."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pausefl.errors import ConfigError
from pausefl.report.policy_looks import ordered
from pausefl.report.seed_statistics import t_half_width
from pausefl.report.time_to_target import TimeToTarget, time_to_target
from pausefl.runs.config import ONE_POLICY, differences, flat
from pausefl.runs.run_data import RunData
from pausefl.system.printable_text import printable

Groups: TypeAlias = Mapping[str, Sequence[RunData]]
"""The runs of each policy, by the name that tables and charts give it."""


def by_policy(runs: Iterable[RunData]) -> dict[str, list[RunData]]:
    """Group runs by policy; if runs of one policy differ in more than the seed, their names tell in what."""
    groups: dict[str, list[RunData]] = defaultdict(list)
    for run in runs:
        groups[json.dumps(flat(run.settings, ONE_POLICY), sort_keys=True) + run.code].append(run)
    named: dict[str, list[RunData]] = {}
    names = {key: next((run.name for run in group if run.summary), group[0].name) for key, group in groups.items()}
    policies = Counter(names.values())
    for key, group in groups.items():
        name = names[key]
        if policies[name] > 1:
            others = [other[0] for place, other in groups.items() if names[place] == name]
            name = printable(f"{name} ({', '.join(_told_apart(group[0], others)) or len(named)})")
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


def spellings(groups: Groups) -> dict[str, list[str]]:
    """Return what each policy may be called: as in the table, as in a study's file, and without its options.

    A spelling that several policies share is none, unless it is exactly what the table calls one of them.
    """
    every: dict[str, list[str]] = {}
    for name, runs in groups.items():
        run = runs[0]
        own = (run.summary or {}).get("name")
        also = [run.settings.title, own, run.settings.selection.policy]
        every[name] = list(dict.fromkeys([name, *(printable(one) for one in also if one)]))
    times = Counter(one for known in every.values() for one in known)
    return {
        name: [one for one in known if one == name or (times[one] == 1 and one not in groups)]
        for name, known in every.items()
    }


def labelled(groups: Groups, labels: Sequence[str]) -> dict[str, list[RunData]]:
    """Return the groups under other names: ``NAME=TEXT`` calls the policy NAME of the table, or of the run, TEXT."""
    names = {name: name for name in groups}
    known = [(one, name) for name, all_of_it in spellings(groups).items() for one in all_of_it]
    for label in labels:
        meant = [(len(one), one, name) for one, name in known if label.startswith(f"{one}=")]
        if not meant:
            raise ConfigError(
                f"--label is {label!r}, but must be NAME=TEXT with one of the names {', '.join(groups)}; for example "
                f"{next(iter(groups))}=Ours"
            )
        _, spelled, name = max(meant)
        names[name] = printable(label.removeprefix(f"{spelled}=")).strip()
    for text, count in Counter(names.values()).items():
        if count > 1 or not text:
            raise ConfigError(f"--label calls {count} policies {text!r}; give each of them another name")
    return {names[name]: [replace(run, name=names[name]) for run in runs] for name, runs in groups.items()}


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over seeds, its standard deviation, and how many seeds had such a number.

    ``half_width`` is half the width of the mean's 95 % interval (Student's t); None where the seeds are too few.

    >>> str(spread([1.0, 2.0, None]))
    '1.5 ± 0.7'
    """

    mean: float
    deviation: float
    count: int
    half_width: float | None = None

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

    ``max_leakage`` is the largest of any seed and None without a bound; ``time_to`` holds the seconds to each target
    over all seeds, those that never reached it too; ``wasted`` is the share (percent) of paid releases that were never
    used, and None if there was no such release.
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
    time_to: Mapping[float, TimeToTarget]
    wasted: Spread | None = None


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
    deviation, half_width = float(np.std(found, ddof=1)) if len(found) > 1 else 0.0, t_half_width(found)
    return Spread(float(np.mean(found)), deviation, len(found), half_width if math.isfinite(half_width) else None)


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
    runs = at_common_round(seeds)
    leaks = [run.records[-1]["max_leakage"] for run in runs]
    fairness = [(run.summary or {}).get("client_accuracy") or {} for run in runs]
    return PolicySummary(
        name=name,
        seeds=len(runs),
        rounds=len(runs[0].records),
        seconds=spread(run.records[-1]["seconds"] for run in runs),
        accuracy=spread(run.final_accuracy() for run in runs),
        best_accuracy=spread(run.best_accuracy() for run in runs),
        max_leakage=None if None in leaks else max(leaks),
        fast_share=spread(_fast_share(run) for run in runs),
        client_deviation=spread(client.get("deviation") for client in fairness),
        worst_client=spread(client.get("worst") for client in fairness),
        wasted=_wasted(runs),
        time_to={target: time_to_target(run.time_to(target) for run in runs) for target in targets},
    )


def at_common_round(seeds: Sequence[RunData]) -> list[RunData]:
    """Return the runs of one policy up to the last round that all of them have.

    Seeds that are not finished would be averaged at another moment than the rest.
    """
    common = min(len(run.records) for run in seeds)
    return [replace(run, records=run.records[:common]) for run in seeds]


def _wasted(runs: Sequence[RunData]) -> Spread | None:
    """Return which share (percent) of the paid releases was never used; None if all were."""
    lost = [sum(record.get("wasted", 0) for record in run.records) for run in runs]
    paid = [sum(len(record["members"]) for record in run.records) for run in runs]
    return spread(100.0 * a / max(1, b) for a, b in zip(lost, paid, strict=True)) if any(lost) else None


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
