"""A study without training: a TOML file that names what is measured, and the folder its rows go to.

``[study]`` has title, figures, ``measures`` (the kind of a measurement) and the overrides of the
scales ``half`` and ``smoke``; the section of that name has the settings.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator

from pausefl.errors import ConfigError, require
from pausefl.studies.measured import KINDS, Measurement
from pausefl.studies.study import About, Order, Outcome, Progress, Row, Scale, Study, Trainer
from pausefl.system.printable_text import printable
from pausefl.system.state_file import write_whole
from pausefl.system.toml_sections import validated, value_of

FILE, PARTIAL = "rows.csv", "rows.partial.jsonl"


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """What a study measured, and which measurement it was."""

    kind: type[Measurement]
    rows: Sequence[Row]


def write_rows(measurement: Measurement, folder: Path, progress: Progress = lambda _: None) -> list[Row]:
    """Measure, write the rows as CSV with the settings beside them, and return them.

    A folder of other settings is left alone: rows take long to measure and are quickly overwritten.  A measurement that
    takes hours keeps each row when it is there, and goes on after the last one if it was stopped.
    """
    settings = json.dumps(measurement.model_dump(), indent=1) + "\n"
    kept = folder / "settings.json"
    if kept.exists() and kept.read_text(encoding="utf-8") != settings:
        raise ConfigError(f"{folder} holds rows of other settings; use another folder, or delete this one")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(kept, settings)
    rows = (
        _resumed(measurement, folder / PARTIAL, progress) if measurement.resumable else list(measurement.rows(progress))
    )
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=list(measurement.columns))
    writer.writeheader()
    writer.writerows(rows)
    write_whole(folder / FILE, table.getvalue())
    (folder / PARTIAL).unlink(missing_ok=True)
    return rows


def _resumed(measurement: Measurement, journal: Path, progress: Progress) -> list[Row]:
    """Return all rows: those that an earlier call has kept, and the others, each kept as soon as it is measured."""
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True) if journal.exists() else []
    whole = [line for line in lines if line.endswith("\n")]  # the last one may have been cut short
    rows: list[Row] = [json.loads(line) for line in whole]
    write_whole(journal, "".join(whole))
    with journal.open("a", encoding="utf-8") as file:
        for row in measurement.rows(progress, known=tuple(rows)):  # type: ignore[call-arg]
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows.append(row)
    return rows


def read_rows(path: Path) -> MeasuredRows:
    """Return the rows of a measured study; their columns tell which measurement it was."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if not rows or any(None in row or None in row.values() for row in rows):
            raise ConfigError(f"{path} is damaged or cut short; measure it again")
        kind = next((kind for kind in KINDS.values() if rows[0].keys() >= kind.columns.keys()), None)
        if kind is None:
            raise ConfigError(f"{path} has none of the tables of {', '.join(KINDS)}; measure it with 'pausefl study'")
        return MeasuredRows(
            kind, [{name: _value(name, row[name], of) for name, of in kind.columns.items()} for row in rows]
        )
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} is not a table of numbers ({error}); measure it again") from None


def _value(column: str, text: str, of: type[float] | type[str]) -> float | str:
    value = of(text)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{column} is nan")
    return printable(value) if isinstance(value, str) else value


class AboutMeasuring(About):
    """The ``[study]`` section."""

    measures: str
    smoke: list[str] = Field(default=[])

    @field_validator("measures")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(
                f"study.measures is {kind!r}, but must be one of {', '.join(KINDS)}; set it to one of these"
            )
        return kind


@dataclass(frozen=True, slots=True)
class MeasuredStudy(Study):
    """What is measured: a measurement's settings, and what changes at smaller scales."""

    name: str
    about: AboutMeasuring
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, about: Mapping[str, Any], sections: Mapping[str, Any]) -> Self:
        """Return the study that a file describes."""
        checked = validated(AboutMeasuring, about, "study")
        for section in sections:
            if section != checked.measures:
                raise ConfigError(
                    f"{name} has a section [{section}], but measures {checked.measures}; remove that section"
                )
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
                raise ConfigError(f"override is {override!r}, but must look like key=value; for example seeds=2")
            settings[key.strip().removeprefix(f"{kind}.")] = value_of(text.strip())
        if seeds is not None and "seeds" in KINDS[kind].model_fields:
            settings["seeds"] = seeds
        return validated(KINDS[kind], settings, kind)

    def play(self, order: Order, train: Trainer, progress: Progress = lambda _: None) -> Outcome:
        """Measure anew, and report on the rows."""
        given, nothing = len(order.references), f"leave it out, because {self.name} ends in a table, not in runs"
        require(not given, "number of --reference", given, "0 here", nothing)
        require(not order.policies, "--policy", order.policies, "left out", f"{self.name} ends in a table, not in runs")
        measurement = self.measurement(order.scale, order.seeds, order.overrides)
        rows = write_rows(measurement, order.out, progress)
        report = measurement.report(rows, self.about.title_at(order.scale))
        return Outcome(report, [{column: str(value) for column, value in row.items()} for row in rows])
