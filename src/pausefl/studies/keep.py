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
    kept = []
    for source in folders:
        found = run_folders(source)
        if not found:
            raise ConfigError(f"{source} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")
        for run in found:
            place = target / (run.relative_to(source) if run != source else run.name)
            place.mkdir(parents=True, exist_ok=True)
            for name in ("config.toml", "summary.json"):
                if (run / name).exists():
                    shutil.copyfile(run / name, place / name)
            text = run / METRICS[0]
            packed = gzip.compress(text.read_bytes(), mtime=0) if text.exists() else (run / METRICS[1]).read_bytes()
            (place / METRICS[1]).write_bytes(packed)  # no time stamp inside: the same run gives the same bytes
            kept.append(place)
    return kept
