"""Where studies are found: the paper's and those beyond it by name, anyone's by the path of a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pausefl.errors import ConfigError, did_you_mean
from pausefl.studies.measured.study import MeasuredStudy
from pausefl.studies.study import Study
from pausefl.studies.trained import TrainedStudy
from pausefl.system.toml_sections import read_toml


def study_names() -> list[str]:
    """Return the names of the studies that come with the package."""
    return sorted(_shipped("paper") | _shipped("beyond"))


def names_beyond_the_paper() -> list[str]:
    """Return the names of the studies of what the paper does not have."""
    return sorted(_shipped("beyond"))


def load_study(name: str) -> Study:
    """Return a study that comes with the package by name, or any study by the path of its file."""
    path, shipped = Path(name), _shipped("paper") | _shipped("beyond")
    if name in shipped:
        content = read_toml(shipped[name])
    elif path.suffix == ".toml" and path.is_file():
        content = read_toml(path)
    else:
        known = study_names()
        hint = did_you_mean(path.stem, known, "check the path of the file")
        raise ConfigError(f"study is {name!r}, but must be a TOML file or one of {', '.join(known)}; {hint}")
    about = content.pop("study", None)
    if not isinstance(about, Mapping):
        raise ConfigError(f"{name} has no [study] section; add one with title and policies")
    for section, values in content.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{section} is {values!r}, but must be a section; write [{section}] above its keys")
    kind = MeasuredStudy if "measures" in about else TrainedStudy
    return kind.read(path.stem if path.suffix else name, about, content)


def _shipped(folder: str) -> dict[str, Traversable]:
    entries = (files("pausefl.studies") / folder).iterdir()
    return {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}
