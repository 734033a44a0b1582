"""A study without training: a TOML file that names what is measured, and the folder its rows go to.

``[study]`` has title, figures, ``measures`` (g-function, complexity, regret or annealing) and the overrides of the
scales ``half`` and ``smoke``; the section of that name has the settings.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from pausefl.errors import ConfigError
from pausefl.studies.measured import KINDS
from pausefl.studies.measured.base import Measurement, Progress, Row
from pausefl.studies.study import Scale
from pausefl.system.settings import Section, validated, value_of
from pausefl.system.state_file import write_whole


class About(Section):
    """The ``[study]`` section."""

    title: str
    figures: list[str] = Field(default=[])
    measures: Literal["g-function", "complexity", "regret", "annealing"]
    half: list[str] = Field(default=[])
    smoke: list[str] = Field(default=[])


@dataclass(frozen=True, slots=True)
class MeasuredStudy:
    """What is measured, and how."""

    name: str
    about: About
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, about: Mapping[str, Any], sections: Mapping[str, Any]) -> Self:
        """Return the study that a file describes."""
        checked = validated(About, about, "study")
        for section in sections:
            if section != checked.measures:
                raise ConfigError(f"{name} has a section [{section}], but measures {checked.measures}; remove it")
            if not isinstance(sections[section], Mapping):
                raise ConfigError(f"{section} is {sections[section]!r}, but must be a section; mend the file")
        study = cls(name, checked, sections.get(checked.measures, {}))
        study.measurement("full")
        return study

    def measurement(self, scale: Scale, seeds: int | None = None, overrides: Sequence[str] = ()) -> Measurement:
        """Return what to measure."""
        kind = self.about.measures
        settings = dict(self.settings)
        size = {"full": [], "half": self.about.half, "smoke": self.about.smoke}[scale]
        for override in [*size, *overrides]:
            key, found, text = override.partition("=")
            if not found:
                raise ConfigError(f"override is {override!r}, but must look like key=value; e.g. seeds=2")
            settings[key.strip().removeprefix(f"{kind}.")] = value_of(text.strip())
        if seeds is not None and "seeds" in KINDS[kind].model_fields:
            settings["seeds"] = seeds
        return validated(KINDS[kind], settings, kind)


def write_rows(measurement: Measurement, folder: Path, progress: Progress = lambda _: None) -> list[Row]:
    """Measure, write the rows as CSV with the settings beside them, and return them.

    A folder of other settings is left alone: rows take long to measure and are quickly overwritten.
    """
    settings = json.dumps(measurement.model_dump(), indent=1) + "\n"
    kept = folder / "settings.json"
    if kept.exists() and kept.read_text(encoding="utf-8") != settings:
        raise ConfigError(f"{folder} holds rows of other settings; name another folder, or delete this one")
    rows = list(measurement.rows(progress))
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "rows.csv", table.getvalue())
    write_whole(kept, settings)
    return rows
