"""Which runs are the same, which are seeds of one policy, and which may be compared: told by their settings."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from pausefl.errors import ConfigError
from pausefl.runs.config import Config
from pausefl.runs.data import RunData

ONE_RUN = frozenset({"run.rounds", "run.checkpoint_every"})
"""How far a run goes and how often it is saved does not make it another one."""

ONE_POLICY = ONE_RUN | {"run.seed"}
"""In what the seeds of one policy may differ."""

ONE_STUDY = ONE_POLICY | {
    "selection.policy", "selection.steps", "selection.kappa", "selection.options", "privacy.enabled",
    "run.evaluate_every",
}  # fmt: skip
"""In what the policies of a study may differ."""


def differences(one: Config, other: Config, allowed: Set[str]) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two configurations differ beyond what is allowed, with both values."""
    a, b = flat(one), flat(other)
    return {
        key: (a.get(key), b.get(key)) for key in a | b if key not in allowed and a.get(key) != b.get(key)
    }  # fmt: skip


def require_one_study(study: str, runs: Sequence[RunData]) -> None:
    """Refuse runs that cannot be compared: policies of other studies, or seeds of one policy with other settings."""
    first: dict[str, RunData] = {}
    for run in runs:
        same = first.setdefault(run.name, run)
        for other, allowed in ((same, ONE_POLICY), (runs[0], ONE_STUDY)):
            for key, (here, there) in differences(run.settings, other.settings, allowed).items():
                raise ConfigError(
                    f"{study}: {run.name} has {key} = {here}, but {other.name} {there}; only runs that differ in "
                    "policy and seed can be compared"
                )


def flat(config: Config, without: Set[str] = frozenset()) -> dict[str, Any]:
    """Return a configuration as one mapping from section.key to value."""
    return {
        name: value
        for section, values in config.model_dump().items()
        for key, value in values.items()
        if (name := f"{section}.{key}") not in without
    }
