"""A run and its folder: metrics, checkpoints, summary; called again, it goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pausefl import __version__
from pausefl.errors import ConfigError
from pausefl.runs.build import build
from pausefl.runs.comparable import ONE_RUN, differences
from pausefl.runs.config import Config
from pausefl.runs.folder import METRICS, read_run, stored_config
from pausefl.sim.engine import Simulation
from pausefl.system.lock import only_writer
from pausefl.system.state_file import read_state, write_state, write_whole

Watcher = Callable[[dict[str, Any]], None]
_KIND = "run"
_LISTED = 10_000
"""Up to so many clients a summary lists each of them."""


def run(
    config: Config, out: Path, *, data_dir: Path | None = None, jobs: int = 1, watch: Watcher = lambda _: None
) -> dict[str, Any]:
    """Play all rounds of a configuration; return the summary.

    ``out`` gets config.toml, metrics.jsonl (a line per round), checkpoint.state and, at the end, summary.json.  A run
    that was killed loses at most the rounds since its last checkpoint, and ends like one that was not.  A run that has
    ended goes on when it is called with more rounds.
    """
    out.mkdir(parents=True, exist_ok=True)
    with only_writer(out / "lock", out, "name another folder"):
        kept = _same_run(config, out)
        longer = kept is None or kept.run.rounds < config.run.rounds
        config = config if kept is None or longer else kept
        summary = out / "summary.json"
        if summary.exists() and not longer:
            done: dict[str, Any] = json.loads(summary.read_text(encoding="utf-8"))
            return done
        simulation = build(config, data_dir=data_dir, jobs=jobs)
        try:
            if longer:  # only now, so that a configuration that cannot be built does not take the folder
                summary.unlink(missing_ok=True)
                write_whole(out / "config.toml", config.toml())
            _resume(simulation, out, config.run.evaluate_every)
            with (out / "metrics.jsonl").open("a", encoding="utf-8") as metrics:
                for record in simulation.play(config.run.rounds, config.run.checkpoint_every):
                    metrics.write(json.dumps(record, allow_nan=False) + "\n")
                    metrics.flush()
                    if record["round"] % config.run.checkpoint_every == 0 or record["round"] == config.run.rounds:
                        os.fsync(metrics.fileno())
                        write_state(out / "checkpoint.state", _KIND, *simulation.state())
                    watch(record)
            return _summarise(simulation, config, out)
        finally:
            simulation.close()


def last_record(folder: Path) -> dict[str, Any] | None:
    """Return the newest record of a run that may still be going on."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 65_536))
            lines = file.read().split(b"\n")
        record: dict[str, Any] = json.loads(lines[-2])
    except (OSError, ValueError, IndexError):
        return None
    return record


def _same_run(config: Config, out: Path) -> Config | None:
    """Return the folder's configuration, if any; it may be for more or fewer rounds, but differ in nothing else."""
    if next(out.glob("seed-*/config.toml"), None) is not None:
        raise ConfigError(f"{out} holds the seeds of other runs; name another folder")
    if not (out / "config.toml").exists():
        return None
    kept = stored_config(out)
    other = differences(kept, config, ONE_RUN)
    if other:
        said = "; ".join(f"{key} = {there!r} there, {here!r} here" for key, (there, here) in other.items())
        raise ConfigError(
            f"{out} holds a run of another configuration ({said}); name another folder, or delete this one"
        )
    played = (out / "summary.json").exists() or (out / METRICS[1]).exists()
    if played and config.run.rounds > kept.run.rounds and not (out / "checkpoint.state").exists():
        raise ConfigError(f"{out} was kept without its model, so it cannot go on; name another folder to run it anew")
    return kept


def _resume(simulation: Simulation, out: Path, evaluate_every: int) -> None:
    """Go back to the last checkpoint, and drop the metrics of rounds that will be played again."""
    path = out / "checkpoint.state"
    if path.exists():
        simulation.restore(*read_state(path, _KIND))
    metrics = out / "metrics.jsonl"
    if metrics.exists():
        lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True)[: simulation.number]
        if len(lines) < simulation.number:
            raise ConfigError(
                f"{metrics} has {len(lines)} rounds, but the checkpoint {simulation.number}; delete {out}"
            )
        if lines and simulation.number % evaluate_every:
            lines[-1] = _unscored(lines[-1])  # scored only because the run was to end there
        write_whole(metrics, "".join(lines))


def _unscored(line: str) -> str:
    record = json.loads(line)
    return json.dumps({key: value for key, value in record.items() if key not in ("accuracy", "loss")}) + "\n"


def _summarise(simulation: Simulation, config: Config, out: Path) -> dict[str, Any]:
    done = read_run(out)
    records = done.records
    if len(records) != config.run.rounds:
        raise ConfigError(f"{out} has {len(records)} of {config.run.rounds} rounds; delete {out} and run again")
    picks = simulation.selector.cohort.picks
    summary: dict[str, Any] = {
        "pausefl": __version__,
        "policy": config.selection.policy,
        "seed": config.run.seed,
        "rounds": len(records),
        "seconds": records[-1]["seconds"],
        "max_leakage": records[-1]["max_leakage"],
        "guarantee": simulation.guarantee(),
        "picks": picks.tolist() if len(picks) <= _LISTED else None,
    }
    columns = {"latency": simulation.network.latency.expected(), "size": simulation.selector.cohort.sizes}
    if "accuracy" in records[-1]:
        clients = columns["accuracy"] = simulation.client_accuracies()
        summary |= {
            "accuracy": done.final_accuracy(),
            "best_accuracy": done.best_accuracy(),
            "client_accuracy": {
                "mean": float(clients.mean()),
                "deviation": float(clients.std()),
                "worst": float(clients.min()),
            },
        }
    if len(picks) <= _LISTED:
        summary["clients"] = {name: column.round(4).tolist() for name, column in columns.items()}
    write_whole(out / "summary.json", json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return summary
