"""Runs made small: what reports and claims read, without models and optimiser states."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.report.frames import METRICS, run_folders


def keep(folders: Sequence[Path], target: Path) -> list[Path]:
    """Copy the runs below these folders to ``target``, in the same arrangement; return their new folders."""
    kept: list[Path] = []
    for source in folders:
        found = [run for run in run_folders(source) if not run.resolve().is_relative_to(target.resolve())]
        if not found:
            raise ConfigError(f"{source} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")
        for run in found:
            place = target / (run.relative_to(source) if run != source else run.name)
            if place in kept:
                raise ConfigError(f"{place} would hold two of these runs; keep {source} in a folder of its own")
            place.mkdir(parents=True, exist_ok=True)
            for name in ("config.toml", "summary.json"):
                (place / name).unlink(missing_ok=True)  # an unfinished run has no summary, whatever was kept before
                if (run / name).exists():
                    shutil.copyfile(run / name, place / name)
            text = run / METRICS[0]
            packed = gzip.compress(text.read_bytes(), mtime=0) if text.exists() else (run / METRICS[1]).read_bytes()
            (place / METRICS[1]).write_bytes(packed)  # no time stamp inside: the same run gives the same bytes
            kept.append(place)
    return kept
