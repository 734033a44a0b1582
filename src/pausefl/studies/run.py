"""A run and its folder: metrics, checkpoints, summary; called again, it goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pausefl import __version__
from pausefl.errors import ConfigError
from pausefl.sim.engine import Simulation
from pausefl.statefile import read_state, write_state
from pausefl.studies.build import build
from pausefl.studies.config import Config

Watcher = Callable[[dict[str, Any]], None]
_KIND = "run"


def run(
    config: Config, out: Path, *, data_dir: Path | None = None, jobs: int = 1, watch: Watcher = lambda _: None
) -> dict[str, Any]:
    """Play all rounds of a configuration; return the summary.

    ``out`` gets config.toml, metrics.jsonl (a line per round), checkpoint.state and, at the end, summary.json.  A run
    that was killed loses at most the rounds since its last checkpoint, and ends like one that was not.
    """
    out.mkdir(parents=True, exist_ok=True)
    _settle_config(config, out)
    summary = out / "summary.json"
    if summary.exists():
        done: dict[str, Any] = json.loads(summary.read_text(encoding="utf-8"))
        return done
    simulation = build(config, data_dir=data_dir, jobs=jobs)
    try:
        _resume(simulation, out)
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


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run, a dictionary per round."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        raise ConfigError(f"{folder} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


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


def _settle_config(config: Config, out: Path) -> None:
    path = out / "config.toml"
    text = config.toml()
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ConfigError(f"{out} holds a run of another configuration; name another folder, or delete this one")
    path.write_text(text, encoding="utf-8")


def _resume(simulation: Simulation, out: Path) -> None:
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
        kept = metrics.with_suffix(".tmp")
        kept.write_text("".join(lines), encoding="utf-8")
        kept.replace(metrics)


def _summarise(simulation: Simulation, config: Config, out: Path) -> dict[str, Any]:
    records = read_metrics(out)
    picks = simulation.selector.cohort.picks
    summary: dict[str, Any] = {
        "pausefl": __version__,
        "policy": config.selection.policy,
        "seed": config.run.seed,
        "rounds": len(records),
        "seconds": records[-1]["seconds"],
        "max_leakage": records[-1]["max_leakage"],
        "guarantee": simulation.guarantee(),
        "picks": picks.tolist() if len(picks) <= 10_000 else None,
    }
    if "accuracy" in records[-1]:
        scored = [r["accuracy"] for r in records if "accuracy" in r]
        clients = simulation.client_accuracies()
        summary |= {
            "accuracy": float(np.mean(scored[-10:])),
            "best_accuracy": max(scored),
            "client_accuracy": {
                "mean": float(clients.mean()),
                "deviation": float(clients.std()),
                "worst": float(clients.min()),
            },
        }
    temporary = out / "summary.tmp"
    temporary.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(out / "summary.json")
    return summary
