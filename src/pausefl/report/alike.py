"""Which runs are the same, which are seeds of one policy, and which may be compared: told by their settings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from pausefl.errors import ConfigError
from pausefl.report.frames import RunData
from pausefl.report.style import ordered

ONE_RUN = frozenset({"run.rounds", "run.checkpoint_every"})
"""How far a run goes and how often it is saved does not make it another one."""

ONE_POLICY = ONE_RUN | {"run.seed"}
"""In what the seeds of one policy may differ."""

ONE_STUDY = ONE_POLICY | {
    "selection.policy", "selection.steps", "selection.kappa", "selection.paper_scale", "privacy.enabled",
    "run.evaluate_every",
}  # fmt: skip
"""In what the policies of a study may differ."""

Settings = Mapping[str, Mapping[str, Any]]


def differences(one: Settings, other: Settings, allowed: Set[str]) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two configurations differ beyond what is allowed, with both values."""
    a, b = _flat(one), _flat(other)
    return {
        key: (a.get(key), b.get(key)) for key in a | b if key not in allowed and a.get(key) != b.get(key)
    }  # fmt: skip


def require_one_study(study: str, runs: Sequence[RunData]) -> None:
    """Refuse runs that cannot be compared: policies of other studies, or seeds of one policy with other settings."""
    first: dict[str, RunData] = {}
    for run in runs:
        same = first.setdefault(run.name, run)
        for other, allowed in ((same, ONE_POLICY), (runs[0], ONE_STUDY)):
            for key, (here, there) in differences(run.config, other.config, allowed).items():
                raise ConfigError(
                    f"{study}: {run.name} has {key} = {here}, but {other.name} {there}; only runs that differ in "
                    "policy and seed can be compared"
                )


def by_name(runs: Iterable[RunData]) -> dict[str, list[RunData]]:
    """Group the seeds of a run; runs of one policy that differ in more than the seed get names that say in what."""
    groups: dict[str, list[RunData]] = defaultdict(list)
    for run in runs:
        groups[json.dumps(_flat(run.config, ONE_POLICY), sort_keys=True)].append(run)
    named: dict[str, list[RunData]] = {}
    policies = Counter(group[0].name for group in groups.values())
    for group in groups.values():
        name = group[0].name
        if policies[name] > 1:
            others = [other[0] for other in groups.values() if other[0].name == name]
            name = f"{name} ({', '.join(_told_apart(group[0], others)) or len(named)})"
        seeds: dict[int, RunData] = {}
        for run in group:
            same = seeds.setdefault(run.config["run"]["seed"], run)
            if same is not run:
                raise ConfigError(
                    f"{same.folder} and {run.folder} are one run ({name}, seed {run.config['run']['seed']}); "
                    "leave one of them out"
                )
        named[name] = [replace(run, name=name) for run in group]
    return {name: named[name] for name in ordered(named)}


def _flat(settings: Settings, without: Set[str] = frozenset()) -> dict[str, Any]:
    return {
        name: value
        for section, values in settings.items()
        for key, value in values.items()
        if (name := f"{section}.{key}") not in without
    }


def _told_apart(run: RunData, others: Sequence[RunData]) -> list[str]:
    """Return the settings in which runs of one policy differ, as this run has them."""
    flat = [_flat(other.config, ONE_POLICY) for other in others]
    keys = dict.fromkeys(key for settings in flat for key in sorted(settings))
    mine = _flat(run.config)
    return [
        f"{key.partition('.')[2]}={mine.get(key, 'none')}"
        for key in keys
        if len({str(settings.get(key)) for settings in flat}) > 1
    ]
