"""Runs made small: what reports and claims read, without models and optimiser states."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.runs.config import ONE_RUN, differences
from pausefl.runs.own_code_hashes import CODE_FILE
from pausefl.runs.read_folder import METRICS, read_run, require_runs, run_folders


def keep(folders: Sequence[Path], target: Path) -> list[Path]:
    """Copy the runs below these folders to ``target``, in the same arrangement; return their new folders.

    A copy takes the place of an older one of the same run, no shorter, and of nothing else.
    """
    places: dict[Path, Path] = {}
    for source in folders:
        for run in require_runs(source):
            if run.resolve().is_relative_to(target.resolve()):
                continue
            place = target / (run.relative_to(source) if run != source else run.name)
            if place in places:
                raise ConfigError(f"{place} would hold two of these runs; copy {source} into another folder")
            _require_free(place, run)
            places[place] = run
    if not places:
        raise ConfigError(f"{target} holds these runs already; pass another folder for the copies")
    for place, run in places.items():  # only now: nothing is copied if anything is refused
        _copy(run, place)
    return list(places)


def _require_free(place: Path, run: Path) -> None:
    new = read_run(run)
    if (place / METRICS[0]).exists() or (place / "checkpoint.state").exists():
        raise ConfigError(f"{place} holds a run, not a copy; pass another folder for the copies")
    if run_folders(place) == [place]:
        old = read_run(place)
        for key, (there, here) in differences(old.settings, new.settings, ONE_RUN).items():
            raise ConfigError(
                f"{place} holds a copy of another run ({key} = {there!r} there, {here!r} here); pass another folder"
            )
        if old.code != new.code:
            raise ConfigError(
                f"{place} holds a copy of a run with other versions of your own code; pass another folder"
            )
        if len(old.records) > len(new.records):
            raise ConfigError(
                f"{place} holds a copy with {len(old.records)} rounds, but {run} has {len(new.records)}; let the run "
                "continue, or delete the copy"
            )


def _copy(run: Path, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in ("config.toml", "summary.json", CODE_FILE):
        (place / name).unlink(missing_ok=True)  # an unfinished run has no summary, whatever was kept before
        if (run / name).exists():
            shutil.copyfile(run / name, place / name)
    text = run / METRICS[0]
    packed = gzip.compress(text.read_bytes(), mtime=0) if text.exists() else (run / METRICS[1]).read_bytes()
    (place / METRICS[1]).write_bytes(packed)  # no time stamp inside: the same run gives the same bytes
