"""A study of training: one configuration under several policies and seeds, as a TOML file that anyone can copy.

Beside the sections of a run it has ``[study]``: title, figures, policies, seeds, and ``half``: the overrides that make
it an evening's work on two cores.  After a policy's name, brackets set what only this entry has: ``all (no privacy)``
switches noise off, ``all (matched)`` aggregates by the noise, ``pause (rehearsed)`` times all clients before the first
round, and ``oort (exploration=0.5)`` sets an option of the policy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from pausefl.errors import ConfigError, require
from pausefl.report.policy_summary import by_policy, summarise
from pausefl.report.reference_curves import read_references
from pausefl.report.run_report import run_report
from pausefl.runs.config import Config, make_config
from pausefl.runs.parallel import Task
from pausefl.runs.policy import known_options, own_options
from pausefl.runs.read_folder import read_run, run_folders
from pausefl.selection import check_options
from pausefl.studies.study import About, Order, Outcome, Progress, Scale, Study, Trainer
from pausefl.system.toml_sections import validated

SMOKE = (
    "data.name=digits", "network.clients=12", "selection.per_round=3", "selection.steps=50", "learning.model=mlp",
    "run.rounds=4", "run.evaluate_every=1", "run.checkpoint_every=4",
)  # fmt: skip
"""What every study becomes in a few seconds: the embedded digits, few clients, few rounds."""


_VARIANTS = {
    "(no privacy)": ("privacy.enabled=false",),
    "(matched)": ("server.aggregation=matched", "server.average=0.97"),
    "(leaks un-noised losses)": ("signals.kind=bare",),
    "(rehearsed)": ("network.rehearsal=true",),
}
"""What may follow a policy's name, beside its options, and what it sets."""
_ENTRY = re.compile(r"([^ ]+)((?: \([^()]+\))*)")


class AboutTraining(About):
    """The ``[study]`` section."""

    policies: list[str] = Field(min_length=1)
    seeds: int = Field(default=1, ge=1)


@dataclass(frozen=True, slots=True)
class TrainedStudy(Study):
    """What is compared: one run's settings, under some policies and seeds."""

    name: str
    about: AboutTraining
    sections: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, about: Mapping[str, Any], sections: Mapping[str, Any]) -> Self:
        """Return the study that a file describes."""
        return cls(name, validated(AboutTraining, about, "study"), sections)

    def config(self, policy: str, seed: int, scale: Scale, overrides: Sequence[str] = ()) -> Config:
        """Return the run of one policy and seed, with those of the file's options that the policy takes."""
        config = self._own_config(policy, seed, scale, overrides)
        given = make_config({}, [one for one in overrides if one.strip().startswith("selection.options")])
        if given.selection.options:
            check_options(policy, known_options(config.selection), given.selection.options)
        return config

    def _own_config(self, policy: str, seed: int, scale: Scale, overrides: Sequence[str]) -> Config:
        config = self.with_all_options(policy, seed, scale, overrides)
        named = make_config({}, _Entry.read(policy).options).selection.options
        if named:
            check_options(policy, known_options(config.selection), named)
        selection = config.selection.model_copy(update={"options": own_options(config.selection)})
        return config.model_copy(update={"selection": selection})

    def with_all_options(self, policy: str, seed: int, scale: Scale, overrides: Sequence[str] = ()) -> Config:
        """Return the run of one policy and seed, with the options of all policies; no code of the user's is needed."""
        entry = _Entry.read(policy)
        chosen = [f"selection.policy={entry.name}", f"run.seed={seed}", *entry.settings]
        for override in overrides:
            key = override.partition("=")[0].strip()
            if key in ("run.seed", "selection.policy"):
                raise ConfigError(f"--set {key} would make all runs of a study alike; use --seeds and --policy")
        few = ("data.train_size=300",) if "train_size" in self.sections.get("data", {}) else ()
        dealt = ("data.partition=iid",) if self.sections.get("data", {}).get("partition") == "natural" else ()
        size = {"full": (), "half": self.about.half, "smoke": SMOKE + few + dealt}[scale]
        return make_config(self.sections, [*size, *chosen, *overrides, *entry.options])

    def tasks(
        self, out: Path, scale: Scale, seeds: int | None = None, overrides: Sequence[str] = (),
        policies: Sequence[str] = (),
    ) -> list[Task]:  # fmt: skip
        """Return the runs of the study, of some policies or of all, each with its folder."""
        count = (1 if scale == "smoke" else self.about.seeds) if seeds is None else seeds
        require(count >= 1, "--seeds", count, "1 or more", "run at least one")
        tasks = [
            Task(self._own_config(policy, seed, scale, overrides), out / folder_name(policy) / f"seed-{seed}")
            for policy in self._asked(policies)
            for seed in range(count)
        ]
        every = [self.with_all_options(policy, 0, scale, overrides).selection for policy in self.about.policies]
        taken = {name for selection in every for name in own_options(selection)}
        for name in every[0].options:
            if name not in taken:
                raise ConfigError(f"selection.options has {name!r}, but none of the policies takes it; remove it")
        for folder, times in Counter(task.out for task in tasks).items():
            if times > 1:
                raise ConfigError(f"{times} policies of {self.name} would share {folder}; let each name differ")
        return tasks

    def _asked(self, policies: Sequence[str]) -> Sequence[str]:
        """Return the policies of the file that these names mean: a name alone means all entries of that policy."""
        asked: list[str] = []
        for name in policies:
            alike = [policy for policy in self.about.policies if _Entry.read(policy).name == name]
            found = [name] if name in self.about.policies else alike
            if not found:
                known = ", ".join(self.about.policies)
                raise ConfigError(f"--policy is {name!r}, but {self.name} has {known}; pass one of these names")
            asked += found
        return list(dict.fromkeys(asked)) or self.about.policies

    def play(self, order: Order, train: Trainer, progress: Progress = lambda _: None) -> Outcome:
        """Train, and report on all runs in the folder: a study may grow in pieces."""
        references = read_references(order.references)  # before anything long
        tasks = self.tasks(order.out, order.scale, order.seeds, order.overrides, order.policies)
        played = {run.folder: run for run in train(tasks)}
        runs = [played.get(folder) or read_run(folder) for folder in run_folders(order.out)]
        report = run_report(runs, self.about.title_at(order.scale), references)
        return Outcome(report, [asdict(policy) for policy in summarise(by_policy(runs))], runs)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One of the policies of a study: its name, what its variants set, and the options that are its own."""

    name: str
    settings: Sequence[str]
    options: Sequence[str]

    @classmethod
    def read(cls, policy: str) -> Self:
        found = _ENTRY.fullmatch(policy)
        brackets = re.findall(r"\([^()]+\)", found[2]) if found else [policy]
        settings: list[str] = []
        options: list[str] = []
        for one in brackets:
            if one in _VARIANTS:
                settings += _VARIANTS[one]
            elif found is not None and "=" in one:
                options += [f"selection.options.{option}" for option in re.split(r",\s*(?=\w+=)", one[1:-1])]
            else:
                may = ", ".join(repr(variant) for variant in _VARIANTS)
                what = (
                    "the policy is called 'sa-pause-as-published'"
                    if one == "(as published)"
                    else "write one of these, or the name alone"
                )
                raise ConfigError(f"policy is {policy!r}, but only {may} or '(OPTION=VALUE)' may follow a name; {what}")
        return cls(policy if found is None else found[1], settings, options)


def folder_name(text: str) -> str:
    """Return a name that stays inside its folder, whatever a policy or a value is called."""
    plain = text.replace(" (", "-").replace(")", "")
    return re.sub(r"[^\w.+-]", "-", plain).lstrip(".") or "-"
