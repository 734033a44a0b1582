"""Runs as lines of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from pausefl.report.frames import RunData, read_runs
from pausefl.sim.latency import two_groups


def summary_table(runs: Sequence[tuple[str, Path]], target: float | None = None) -> Table:
    """Return a table with a line per run; the target accuracy defaults to nine tenths of the best final one."""
    rows = [(name, read_runs([folder])[0]) for name, folder in runs]
    finals = [final for _, run in rows if (final := run.final_accuracy()) is not None]
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
    for name, run in rows:
        last = run.records[-1]
        table.add_row(
            name,
            str(len(run.records)),
            f"{last['seconds']:.1f}",
            _or_dash(run.final_accuracy()),
            _or_dash(run.best_accuracy()),
            _or_dash(run.time_to(target)),
            "none" if last["max_leakage"] is None else f"{last['max_leakage']:.1f}",
            _fast_share(run),
        )
    return table


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _fast_share(run: RunData) -> str:
    """Say how many picks went to the faster half of the paper's network."""
    picked = [int(k) for record in run.records for k in record["members"]]
    if run.config["network"]["latency"] != "two-groups" or not picked:
        return "-"
    fast = two_groups(run.config["network"]["clients"]).means < 0.5
    return f"{float(np.mean(fast[picked])):.0%}"
