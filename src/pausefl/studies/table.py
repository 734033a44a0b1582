"""Runs as lines of a table."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from pausefl.sim.latency import two_groups
from pausefl.studies.run import read_metrics

SMOOTH = 10
"""Rounds over which accuracy is averaged, as in the paper's figures."""


def summary_table(runs: Sequence[tuple[str, Path]], target: float | None = None) -> Table:
    """Return a table with a line per run; the target accuracy defaults to nine tenths of the best final one."""
    rows = [row_of(name, folder) for name, folder in runs]
    finals = [row["final"] for row in rows if row["final"] is not None]
    if target is None and finals:
        target = float(np.floor(0.9 * max(finals)))
    table = Table()
    columns = [
        "run",
        "rounds",
        "clock s",
        "final %",
        "best %",
        f"s to {target:g} %" if target else "",
        "max leak",
        "fast",
    ]
    for name in columns:
        table.add_column(name, justify="left" if name == "run" else "right", no_wrap=name != "run")
    for row in rows:
        reached = time_to(row["records"], target)
        table.add_row(
            row["name"],
            str(len(row["records"])),
            f"{row['records'][-1]['seconds']:.1f}",
            "-" if row["final"] is None else f"{row['final']:.1f}",
            "-" if row["best"] is None else f"{row['best']:.1f}",
            "-" if reached is None else f"{reached:.1f}",
            "none" if row["leakage"] is None else f"{row['leakage']:.1f}",
            "-" if row["fast"] is None else f"{row['fast']:.0%}",
        )
    return table


def row_of(name: str, folder: Path) -> dict[str, Any]:
    """Return what the table says of one run."""
    records = read_metrics(folder)
    scored = [r["accuracy"] for r in records if "accuracy" in r]
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    return {
        "name": name,
        "records": records,
        "final": float(np.mean(scored[-SMOOTH:])) if scored else None,
        "best": max(scored) if scored else None,
        "leakage": records[-1]["max_leakage"],
        "fast": _fast_share(records, config),
    }


def time_to(records: Sequence[dict[str, Any]], target: float | None) -> float | None:
    """Return the clock when the smoothed accuracy first reached the target."""
    if target is None:
        return None
    scored = [(r["seconds"], r["accuracy"]) for r in records if "accuracy" in r]
    recent: list[float] = []
    for seconds, accuracy in scored:
        recent = [*recent[-SMOOTH + 1 :], accuracy]
        if float(np.mean(recent)) >= target:
            return float(seconds)
    return None


def _fast_share(records: Sequence[dict[str, Any]], config: dict[str, Any]) -> float | None:
    """Return how many picks went to the faster half of the paper's network."""
    if config["network"]["latency"] != "two-groups":
        return None
    fast = two_groups(config["network"]["clients"]).means < 0.5
    picked = [int(k) for r in records for k in r["members"]]
    return float(np.mean(fast[picked])) if picked else None
