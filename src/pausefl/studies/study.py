"""A study: one configuration under several policies and seeds, as a TOML file that anyone can copy and change.

Beside the sections of a run it has ``[study]``: title, figures, policies (``all (no privacy)`` switches noise off),
seeds, and ``half``: the overrides that make it an evening's work on two cores.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pausefl.errors import ConfigError, require
from pausefl.studies.config import Config, make_config
from pausefl.studies.many import Task

Scale: TypeAlias = Literal["full", "half", "smoke"]

SMOKE = (
    "data.name=digits", "network.clients=12", "selection.per_round=3", "selection.steps=50", "learning.model=mlp",
    "run.rounds=4", "run.checkpoint_every=4",
)  # fmt: skip
"""What every study becomes in a few seconds: the embedded digits, few clients, few rounds."""


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared, and how."""

    name: str
    title: str
    figures: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: int
    half: tuple[str, ...]
    sections: dict[str, Any]

    def config(self, policy: str, seed: int, scale: Scale, overrides: Sequence[str] = ()) -> Config:
        """Return the run of one policy and seed."""
        plain, _, rest = policy.partition(" ")
        chosen = [f"selection.policy={plain}", f"run.seed={seed}"]
        if rest == "(no privacy)":
            chosen.append("privacy.enabled=false")
        size = {"full": (), "half": self.half, "smoke": SMOKE + _smoke_train_size(self.sections)}[scale]
        return make_config(self.sections, [*size, *chosen, *overrides])

    def tasks(
        self, out: Path, scale: Scale, seeds: int | None = None, overrides: Sequence[str] = (),
        policies: Sequence[str] = (),
    ) -> list[Task]:  # fmt: skip
        """Return the runs of the study, of some policies or of all, each with its folder."""
        for policy in policies:
            if policy not in self.policies:
                known = ", ".join(self.policies)
                raise ConfigError(f"--policy is {policy!r}, but {self.name} has {known}; name one of them")
        count = seeds or (1 if scale == "smoke" else self.seeds)
        require(count >= 1, "--seeds", count, "1 or more", "run at least one")
        return [
            Task(self.config(policy, seed, scale, overrides), out / _folder(policy) / f"seed-{seed}")
            for policy in policies or self.policies
            for seed in range(count)
        ]


def study_names() -> list[str]:
    """Return the names of the paper's studies."""
    return sorted(entry.name.removesuffix(".toml") for entry in _shelf().iterdir() if entry.name.endswith(".toml"))


def load_study(name: str) -> Study:
    """Return a study of the paper by name, or any study by the path of its file."""
    path = Path(name)
    if name in study_names():
        text = (_shelf() / f"{name}.toml").read_text(encoding="utf-8")
    elif path.suffix == ".toml" and path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        raise ConfigError(f"study is {name!r}, but must be a TOML file or one of {', '.join(study_names())}; check it")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is no TOML file ({error}); mend it") from None
    about = content.pop("study", None)
    wanted = {"title": str, "figures": list, "policies": list, "seeds": int, "half": list}
    if not isinstance(about, dict) or set(about) != set(wanted):
        raise ConfigError(f"{name} needs a [study] section with exactly {', '.join(wanted)}; copy one of the paper's")
    for key, kind in wanted.items():
        if not isinstance(about[key], kind):
            raise ConfigError(f"study.{key} is {about[key]!r}, but must be a {kind.__name__}; copy one of the paper's")
    return Study(
        path.stem if path.suffix else name, about["title"], tuple(about["figures"]), tuple(about["policies"]),
        about["seeds"], tuple(about["half"]), content,
    )  # fmt: skip


def _smoke_train_size(sections: dict[str, Any]) -> tuple[str, ...]:
    return ("data.train_size=300",) if "train_size" in sections.get("data", {}) else ()


def _folder(policy: str) -> str:
    return policy.replace(" (", "-").replace(")", "").replace(" ", "-").replace(":", "-")


def _shelf() -> Any:
    return files("pausefl.studies") / "paper"
