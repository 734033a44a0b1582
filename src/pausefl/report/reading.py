"""Runs, read from their folders: whole and consistent, or refused in one line."""

from __future__ import annotations

import gzip
import json
import tomllib
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pausefl.errors import ConfigError
from pausefl.report.checks import check_records, check_settings, check_summary
from pausefl.report.frames import RunData

METRICS = ("metrics.jsonl", "metrics.jsonl.gz")
"""A line per round, as a run writes it or as ``keep`` stores it."""


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
        summary = folder / "summary.json"  # first of all: a run that ends meanwhile has all its rounds before it
        done = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else None
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        check_settings(config)
        text = _text(metrics)
        records = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line]
        check_records(records, config["network"]["clients"], config["privacy"]["enabled"])
        if records:
            check_summary(done, len(records))
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{folder} holds a damaged run ({error}); delete it and run it again") from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read ({error}); check the folder and its permissions") from None
    if not records:
        raise ConfigError(f"{folder} holds a run without a single round yet; wait for it")
    return RunData(_name(config), config, records, done, folder)


def _name(config: Mapping[str, Any]) -> str:
    """Return a policy as a study calls it."""
    selection = config["selection"]
    published = (
        selection["policy"] == "sa-pause" and selection.get("paper_scale") and selection.get("kappa") in (None, 30)
    )
    return (
        str(selection["policy"])
        + (" (as published)" if published else "")
        + ("" if config["privacy"]["enabled"] else " (no privacy)")
    )


def _metrics(folder: Path) -> Path | None:
    return next((folder / name for name in METRICS if (folder / name).exists()), None)


def _refuse(folder: Path) -> NoReturn:
    raise ConfigError(f"{folder} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
