"""The rows of a measured study as a file: written with the settings beside them, read back as numbers or refused."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.studies.measured import KINDS, Measurement
from pausefl.studies.measured.base import Row
from pausefl.studies.study import Progress
from pausefl.system.state_file import write_whole

FILE = "rows.csv"


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """What a study measured, and which measurement it was."""

    kind: type[Measurement]
    rows: Sequence[Row]


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
    writer = csv.DictWriter(table, fieldnames=list(measurement.columns))
    writer.writeheader()
    writer.writerows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, table.getvalue())
    write_whole(kept, settings)
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
        raise ConfigError(f"{path} is no table of numbers ({error}); measure it again") from None


def _value(column: str, text: str, of: type[float] | type[str]) -> float | str:
    value = of(text)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{column} is nan")
    return value
