"""Runs by the name that tables and charts give them: the seeds of one policy together."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pausefl.errors import ConfigError
from pausefl.report.style import ordered
from pausefl.runs.comparable import ONE_POLICY, flat
from pausefl.runs.data import RunData


def by_name(runs: Iterable[RunData]) -> dict[str, list[RunData]]:
    """Group the seeds of a run; runs of one policy that differ in more than the seed get names that say in what."""
    groups: dict[str, list[RunData]] = defaultdict(list)
    for run in runs:
        groups[json.dumps(flat(run.settings, ONE_POLICY), sort_keys=True)].append(run)
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


def _told_apart(run: RunData, others: Sequence[RunData]) -> list[str]:
    """Return the settings in which runs of one policy differ, as this run has them."""
    settings_of = [flat(other.settings, ONE_POLICY) for other in others]
    keys = dict.fromkeys(key for settings in settings_of for key in sorted(settings))
    mine = flat(run.settings)
    return [
        f"{key.partition('.')[2]}={mine.get(key, 'none')}"
        for key in keys
        if len({str(settings.get(key)) for settings in settings_of}) > 1
    ]
