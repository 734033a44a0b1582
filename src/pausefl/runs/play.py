"""A run is played into its folder: metrics, checkpoints, summary; called again, it goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pausefl import __version__
from pausefl.errors import ConfigError, PauseError
from pausefl.runs.build import build
from pausefl.runs.config import ONE_RUN, Config, differences
from pausefl.runs.own_code_hashes import code_of, require_same_code, write_code
from pausefl.runs.policy import own_name
from pausefl.runs.read_folder import METRICS, last_record, read_records, read_run, stored_config
from pausefl.runs.run_data import RunData
from pausefl.runs.versions import versions
from pausefl.sim.engine import Simulation
from pausefl.system.lock import only_writer
from pausefl.system.state_file import read_state, write_state, write_whole

Watcher = Callable[[dict[str, Any]], None]
_KIND = "run"
_LISTED = 10_000
"""Up to so many clients a summary lists each of them."""


def run(
    config: Config,
    out: Path,
    *,
    data_dir: Path | None = None,
    jobs: int = 1,
    watch: Watcher = lambda _: None,
    until: int | None = None,
) -> RunData:
    """Play all rounds of a configuration; return the run with its summary, as ``read_run`` would.

    ``out`` gets config.toml, metrics.jsonl (a line per round), checkpoint.state and, at the end, summary.json; also
    code.json, if the configuration names code of the user's own.  A run that was killed loses at most the rounds since
    its last checkpoint, and ends like one that was not.  A run that has ended goes on when it is called with more
    rounds.

    ``until`` stops it after the first checkpoint at or beyond that round, without a summary; the next call goes on as
    if it had never stopped.
    """
    rounds = play_rounds(config, out, data_dir=data_dir, jobs=jobs, until=until)
    try:
        while True:
            try:
                record, _ = next(rounds)
            except StopIteration as ended:
                played: RunData = ended.value
                return played
            watch(record)
    finally:
        rounds.close()


def play_rounds(
    config: Config, out: Path, *, data_dir: Path | None = None, jobs: int = 1, until: int | None = None
) -> Generator[tuple[dict[str, Any], bool], None, RunData]:
    """Play a run as ``run`` does, and yield each record, with whether a checkpoint has been written after it."""
    out.mkdir(parents=True, exist_ok=True)
    with only_writer(out / "lock", out, "use another folder"):
        if (done := finished_run(config, out)) is not None:
            return done
        kept = require_same_run(config, out)
        longer = kept is None or kept.run.rounds < config.run.rounds
        config = config if kept is None or longer else kept
        if until is not None and (before := _so_far(out)) is not None and len(before.records) >= until:
            return before
        simulation = build(config, data_dir=data_dir, jobs=jobs)
        try:
            records = _resume(simulation, config, out)
            if longer:  # only now, so that what cannot be built or go on neither takes the folder nor harms its run
                (out / "summary.json").unlink(missing_ok=True)
                if kept is None:
                    write_code(config, out)
                write_whole(out / "config.toml", config.toml())
            write_whole(out / METRICS[0], "".join(map(_line, records)))
            with (out / METRICS[0]).open("a", encoding="utf-8") as metrics:
                for record in simulation.play(config.run.rounds, config.run.checkpoint_every):
                    metrics.write(_line(record))
                    metrics.flush()
                    records.append(record)
                    last = record["round"] == config.run.rounds
                    whole = last or record["round"] % config.run.checkpoint_every == 0
                    if whole:
                        os.fsync(metrics.fileno())
                        write_state(out / "checkpoint.state", _KIND, *simulation.state())
                    yield record, whole
                    if whole and not last and until is not None and record["round"] >= until:
                        return RunData(_title(simulation, config), config, records, None, out, code_of(out))
            played = RunData(_title(simulation, config), config, records, None, out, code_of(out))
            return _summarised(simulation, played, out / "summary.json")
        finally:
            simulation.close()


def finished_run(config: Config, out: Path) -> RunData | None:
    """Return the run in a folder, if it has ended with as many rounds as are asked for, or more."""
    kept = require_same_run(config, out)
    ended = kept is not None and kept.run.rounds >= config.run.rounds and (out / "summary.json").exists()
    return read_run(out) if ended else None


def require_same_run(config: Config, out: Path) -> Config | None:
    """Return the folder's configuration, if any; it may be for more or fewer rounds, but differ in nothing else."""
    if next(out.glob("seed-*/config.toml"), None) is not None:
        raise ConfigError(f"{out} holds the seeds of other runs; use another folder")
    if not (out / "config.toml").exists():
        return None
    kept = stored_config(out)
    other = differences(kept, config, ONE_RUN)
    if other:
        said = "; ".join(f"{key} = {there!r} there, {here!r} here" for key, (there, here) in other.items())
        raise ConfigError(
            f"{out} holds a run of another configuration ({said}); use another folder, or delete this one"
        )
    require_same_code(out)
    played = (out / "summary.json").exists() or (out / METRICS[1]).exists()
    if played and config.run.rounds > kept.run.rounds and not (out / "checkpoint.state").exists():
        raise ConfigError(
            f"{out} was kept without its model, so it cannot continue; use another folder to run it from the start"
        )
    return kept


def _title(simulation: Simulation, config: Config) -> str:
    return config.titled(own_name(config, simulation.selector.policy) or config.selection.policy)


def _so_far(out: Path) -> RunData | None:
    """Return a run that has stopped on the way; None if it has not begun."""
    return read_run(out) if last_record(out) is not None else None


def _resume(simulation: Simulation, config: Config, out: Path) -> list[dict[str, Any]]:
    """Go back to the last checkpoint and return the rounds before it; the folder is left as it is."""
    path = out / "checkpoint.state"
    if path.exists():
        header, arrays = read_state(path, _KIND)
        try:
            stored, mine = header["selector"], simulation.selector.state()[0]
            if (stored["policy"], mine["policy"]) == ("sa-pause", "sa-pause-as-published"):  # the old spelling
                stored |= {key: mine[key] for key in ("policy", "class", "settings")}
            simulation.restore(header, arrays)
        except PauseError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:  # written by nobody's run
            raise ConfigError(
                f"{path} is not a checkpoint of this run ({type(error).__name__}); delete {out} and run it again"
            ) from None
    number, rounds = simulation.number, config.run.rounds
    records = read_records(out, config, number)
    if len(records) < number:
        raise ConfigError(
            f"{out / METRICS[0]} has {len(records)} rounds, but the checkpoint has {number}; delete {out} and run it "
            "again"
        )
    if 0 < number < rounds and number % config.run.evaluate_every:  # scored only because the run was to end there
        records[-1] = {key: value for key, value in records[-1].items() if key not in ("accuracy", "loss")}
    return records


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def _summarised(simulation: Simulation, run: RunData, path: Path) -> RunData:
    """Write the summary of a run whose rounds are all played; return the run with it."""
    picks, last = simulation.selector.cohort.picks, run.records[-1]
    summary: dict[str, Any] = {
        "pausefl": __version__,
        "policy": run.settings.selection.policy,
        "seed": run.settings.run.seed,
        "rounds": len(run.records),
        "seconds": last["seconds"],
        "max_leakage": last["max_leakage"],
        "guarantee": simulation.guarantee(),
        "picks": picks.tolist() if len(picks) <= _LISTED else None,
        "versions": versions(),
    }
    name = own_name(run.settings, simulation.selector.policy)
    if name is not None:
        summary["name"] = name
    wasted = sum(record.get("wasted", 0) for record in run.records)
    if wasted:
        summary["wasted"] = wasted
    columns = {"latency": simulation.network.latency.expected(), "size": simulation.selector.cohort.sizes}
    if "accuracy" in last:
        clients = columns["accuracy"] = simulation.client_accuracies()
        summary |= {
            "accuracy": run.final_accuracy(),
            "best_accuracy": run.best_accuracy(),
            "client_accuracy": {
                "mean": float(clients.mean()),
                "deviation": float(clients.std()),
                "worst": float(clients.min()),
            },
        }
    if len(picks) <= _LISTED:
        summary["clients"] = {name: column.round(4).tolist() for name, column in columns.items()}
    write_whole(path, json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return replace(run, summary=summary)
