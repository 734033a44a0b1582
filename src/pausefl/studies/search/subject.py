"""What is tuned: a run's file, or one policy of a study; either gives a configuration for the values of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError
from pausefl.runs.config import Config, make_config
from pausefl.studies.load import load_study
from pausefl.studies.search.space import Values
from pausefl.studies.study import Scale
from pausefl.studies.trained import TrainedStudy
from pausefl.system.toml_sections import read_toml

_POLICY = "selection.policy"


@dataclass(frozen=True, slots=True)
class Subject:
    """A run or a study, as it is before anything is varied.

    In a study the policy is ``random`` by default, which favours none of its policies.
    """

    name: str
    source: TrainedStudy | Mapping[str, Any]
    overrides: Sequence[str]
    policy: str | None
    scale: Scale

    def config(self, values: Values, seed: int | None = None) -> Config:
        """Return the run of a trial; without a seed it has that of the file."""
        if isinstance(self.source, TrainedStudy):
            return self.source.config(*self._of_study(values, seed))
        chosen = [] if self.policy is None else [f"{_POLICY}={self.policy}"]
        seeded = [] if seed is None else [f"run.seed={seed}"]
        return make_config(self.source, [*self.overrides, *chosen, *seeded, *_set(values)])

    def with_all_options(self, values: Values) -> Config:
        """Return the same before code of the user's own can be imported, which knows the options of a policy."""
        if isinstance(self.source, TrainedStudy):
            return self.source.with_all_options(*self._of_study(values, None))
        return self.config(values)

    def _of_study(self, values: Values, seed: int | None) -> tuple[str, int, Scale, list[str]]:
        policy = str(values.get(_POLICY, self.policy or "random"))
        rest = {key: value for key, value in values.items() if key != _POLICY}
        return policy, seed or 0, self.scale, [*self.overrides, *_set(rest)]


def read_subject(
    name: str, *, policy: str | None = None, scale: Scale | None = None, overrides: Sequence[str] = ()
) -> Subject:
    """Return what a file or a name stands for; a file with a ``[study]`` section is a study, any other one a run."""
    path = Path(name)
    if path.suffix == ".toml" and path.is_file():
        content = read_toml(path)
        if "study" not in content:
            if scale is not None:
                raise ConfigError(
                    f"--scale is {scale!r}, but {name} is not a study; leave it out, or pass --set run.rounds=…"
                )
            return Subject(path.stem, content, overrides, policy, "full")
    study = load_study(name)
    if not isinstance(study, TrainedStudy):
        raise ConfigError(f"{name} trains nothing, so there is nothing to tune; pass a run, or a study with policies")
    return Subject(study.name, study, overrides, policy, scale or "half")


def _set(values: Values) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]
