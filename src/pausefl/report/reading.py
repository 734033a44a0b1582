"""Runs, read from their folders: whole and consistent, or refused in one line."""

from __future__ import annotations

import gzip
import json
import math
import tomllib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pausefl.errors import ConfigError
from pausefl.report.frames import RunData

METRICS = ("metrics.jsonl", "metrics.jsonl.gz")
"""A line per round, as a run writes it or as ``keep`` stores it."""

_SETTINGS = {
    "data": (), "network": ("clients",), "selection": ("policy", "per_round"), "privacy": ("enabled", "budget"),
    "learning": ("enabled",), "run": ("seed", "rounds"),
}  # fmt: skip
"""What everybody who reads a run asks of its configuration."""


def read_runs(folders: Iterable[Path]) -> list[RunData]:
    """Return the runs in these folders; a folder of seeds counts as all of them."""
    return [read_run(path) for folder in folders for path in require_runs(folder)]


def require_runs(folder: Path) -> list[Path]:
    """Return the folders of the runs in a folder, at least one."""
    return run_folders(folder) or _refuse(folder)


def run_folders(folder: Path) -> list[Path]:
    """Return the folders of the runs in a folder: itself, or all below it."""
    if _metrics(folder) is not None:
        return [folder]
    return sorted({path.parent for name in METRICS for path in folder.rglob(name)})


def read_run(folder: Path) -> RunData:
    """Return one run, finished or not; a last line that a kill cut short is left out."""
    metrics = _metrics(folder) or _refuse(folder)
    try:
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        _check_settings(config)
        text = _text(metrics)
        records = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line]
        _check_records(records)
        summary = folder / "summary.json"
        done = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else None
        _check_summary(done, len(records))
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{folder} holds a damaged run ({error}); delete it and run it again") from None
    if not records:
        raise ConfigError(f"{folder} holds a run without a single round yet; wait for it")
    return RunData(_name(config), config, records, done)


def _name(config: Mapping[str, Any]) -> str:
    """Return a policy as a study calls it."""
    published = " (as published)" if config["selection"].get("paper_scale") else ""
    return str(config["selection"]["policy"]) + published + ("" if config["privacy"]["enabled"] else " (no privacy)")


def _check_settings(config: Mapping[str, Any]) -> None:
    for section, keys in _SETTINGS.items():
        values = config.get(section)
        if not isinstance(values, Mapping) or any(key not in values for key in keys):
            raise ValueError(f"config.toml lacks {' or '.join(f'{section}.{key}' for key in keys) or section}")


def _check_records(records: Sequence[Any]) -> None:
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping) or record.get("round") != number:
            raise ValueError(f"line {number} of the metrics is not round {number}")
        leakage, accuracy = record.get("max_leakage"), record.get("accuracy")
        numbers = [record.get("seconds"), *(value for value in (leakage, accuracy) if value is not None)]
        if not isinstance(record.get("members"), list) or not all(map(_is_number, numbers)):
            raise ValueError(f"round {number} lacks its members or seconds, or has text for a number")


def _check_summary(summary: Any, rounds: int) -> None:
    if summary is not None and (not isinstance(summary, Mapping) or summary.get("rounds") != rounds):
        raise ValueError(f"summary.json does not count the {rounds} rounds of the metrics")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _metrics(folder: Path) -> Path | None:
    return next((folder / name for name in METRICS if (folder / name).exists()), None)


def _refuse(folder: Path) -> NoReturn:
    raise ConfigError(f"{folder} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
