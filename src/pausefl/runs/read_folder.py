"""Runs, read from their folders: whole and consistent, or refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pausefl.errors import ConfigError
from pausefl.runs.config import Config, make_config
from pausefl.runs.own_code_hashes import code_of
from pausefl.runs.run_data import RunData
from pausefl.system.toml_sections import read_toml

METRICS = ("metrics.jsonl", "metrics.jsonl.gz")
"""A line per round, as a run writes it or as ``keep`` stores it."""

_NUMBERS = ("seconds", "max_leakage", "median_leakage", "p90_leakage", "accuracy", "loss", "latency", "wasted")
_LARGEST = 1e100
"""No run gets near it, and sums and squares of such numbers are still finite."""


def read_runs(folders: Iterable[Path]) -> list[RunData]:
    """Return the runs in these folders; a folder of seeds counts as all of them."""
    return [read_run(path) for folder in folders for path in require_runs(folder)]


def require_runs(folder: Path) -> list[Path]:
    """Return the folders of the runs in a folder, at least one."""
    return run_folders(folder) or _refuse(folder)


def run_folders(folder: Path) -> list[Path]:
    """Return the folders of the runs in a folder: itself, or all below it."""
    if metrics_file(folder) is not None:
        return [folder]
    return sorted({path.parent for name in METRICS for path in folder.rglob(name)})


def stored_config(folder: Path) -> Config:
    """Return the configuration that a run wrote into its folder: every section is there."""
    with _damage_told(folder):
        content = {"server": {}, "signals": {}, **read_toml(folder / "config.toml")}  # runs of before had none of them
        for section in Config.model_fields:
            if not isinstance(content.get(section), Mapping):
                raise ConfigError(f"config.toml lacks [{section}]")
        selection = content["selection"]
        if selection.pop("paper_scale", False) and selection.get("policy") == "sa-pause":  # the old spelling
            selection["policy"] = "sa-pause-as-published"
        return make_config(content)


def read_run(folder: Path) -> RunData:
    """Return one run, finished or not; a last line that a kill cut short is left out."""
    metrics, config = metrics_file(folder) or _refuse(folder), stored_config(folder)
    with _damage_told(folder):
        summary = folder / "summary.json"  # before the rounds: a run that ends meanwhile has all of them before it
        done = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else None
        records, code = _records(metrics, config), code_of(folder)
        if records:
            _check_summary(done, len(records))
    name = (done or {}).get("name") or config.selection.policy  # a class of the user's own has told its name
    return RunData(config.titled(name), config, records or _refuse(folder), done, folder, code)


def read_records(folder: Path, config: Config, rounds: int) -> list[dict[str, Any]]:
    """Return the first rounds of a run that goes on; whatever comes after them is not looked at."""
    with _damage_told(folder):
        return _records(folder / METRICS[0], config, rounds) if (folder / METRICS[0]).exists() else []


def last_record(folder: Path) -> dict[str, Any] | None:
    """Return the newest record of a run that is being played by another process."""
    try:
        with (folder / METRICS[0]).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 65_536))
            lines = file.read().split(b"\n")
        record: dict[str, Any] = json.loads(lines[-2])
    except (OSError, ValueError, IndexError):
        return None
    return record


@contextmanager
def _damage_told(folder: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{folder} holds a damaged run ({error}); delete it and run it again") from None
    except RecursionError:
        raise ConfigError(f"{folder} holds a damaged run (lists in lists without end); do not use it") from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read ({error}); check the folder and its permissions") from None


def metrics_file(folder: Path) -> Path | None:
    """Return the file with the rounds of a run; None if there is none yet."""
    return next((folder / name for name in METRICS if (folder / name).exists()), None)


def _refuse(folder: Path) -> NoReturn:
    if not folder.exists():
        raise ConfigError(f"there is no folder {folder}; pass the folder of a run")
    if (folder / "config.toml").exists():
        raise ConfigError(f"{folder} holds a run that has not ended a round yet; wait for its first round")
    raise ConfigError(
        f"{folder} holds no run (no metrics.jsonl); pass the folder of a run (or, to 'pausefl report', "
        "the checkpoint of a Flower server)"
    )


def _records(path: Path, config: Config, rounds: int | None = None) -> list[dict[str, Any]]:
    """Parse and check the lines of a run, all or the first ``rounds``: the one place that does."""
    data = path.read_bytes()
    whole = (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")[:-1]  # the last line may be cut
    records = [json.loads(line) for line in whole[:rounds] if line]
    seconds = 0.0
    for number, record in enumerate(records, 1):
        clients, bounded = config.network.clients, config.privacy.enabled
        seconds = check_record(record, number, clients, bounded=bounded, before=seconds)
    return records


def check_record(record: Any, number: int, clients: int, *, bounded: bool, before: float) -> float:
    """Raise ValueError unless this is the record of that round; ``bounded``: it must say what has leaked.

    ``before`` is the clock of the round before; return the clock of this one.
    """
    if not isinstance(record, Mapping) or record.get("round") != number:
        raise ValueError(f"line {number} of the metrics is not round {number}")
    if not _are_numbers([record[name] for name in _NUMBERS if name in record]):
        raise ValueError(f"round {number} has a value that should be a number and is not")
    seconds = record.get("seconds")
    if seconds is None or seconds < before:
        raise ValueError(f"round {number} lacks its seconds, or the clock goes back")
    if bounded and record.get("max_leakage") is None:
        raise ValueError(f"round {number} does not say what has leaked")
    if not _are_clients(record.get("members"), clients) or not isinstance(record.get("terms") or {}, Mapping):
        raise ValueError(f"round {number} lacks its members, or has members that are not among the {clients} clients")
    if not _are_clients(record.get("signals", []), clients):
        raise ValueError(f"round {number} has signals of clients that are not among the {clients}")
    told = record.get("told", {})
    columns = [record.get("latencies"), record.get("chances"), *(told.values() if isinstance(told, dict) else [0])]
    if not all(column is None or _is_column(column, len(record["members"])) for column in columns):
        raise ValueError(f"round {number} has latencies, chances or signals that are not a number per member")
    return float(seconds)


def _check_summary(summary: Any, rounds: int) -> None:
    """Raise ValueError unless the summary is one of so many rounds; None is an unfinished run."""
    if summary is None:
        return
    if not isinstance(summary, Mapping) or summary.get("rounds") != rounds:
        raise ValueError(f"summary.json does not count the {rounds} rounds of the metrics")
    per_client, spread = summary.get("clients") or {}, summary.get("client_accuracy") or {}
    if not isinstance(summary.get("name"), str | None):
        raise ValueError("the policy's name in summary.json is not a text")
    if not isinstance(summary.get("guarantee"), str) or not isinstance(per_client, Mapping):
        raise ValueError("summary.json lacks its guarantee or its clients")
    lists = [values for values in per_client.values() if isinstance(values, list)]
    if not isinstance(spread, Mapping) or len(lists) < len(per_client) or not all(map(_are_numbers, lists)):
        raise ValueError("the clients in summary.json are not lists of numbers")


def _are_numbers(values: list[Any]) -> bool:
    """Say whether all are numbers of a size that can be reckoned with, or nothing."""
    if None in values:
        values = [value for value in values if value is not None]
    return _of_kind(values, int, float) and all(-_LARGEST <= value <= _LARGEST for value in values)


def _is_column(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and _are_numbers(values)


def _are_clients(members: Any, clients: int) -> bool:
    fine = isinstance(members, list) and _of_kind(members, int)
    return fine and (not members or (min(members) >= 0 and max(members) < clients))


def _of_kind(values: list[Any], *kinds: type) -> bool:
    # The set is a quick look at all of them at once; truth values are whole numbers to Python.
    return set(map(type, values)) <= {*kinds, bool}
