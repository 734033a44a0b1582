"""``pausefl compare``: policies side by side; ``run``, ``study``, ``tune`` and ``demo`` end with the same table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import click
import typer
from rich.console import Console
from rich.table import Table

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson, Folders

if TYPE_CHECKING:
    from pausefl.report.policy_summary import Spread
    from pausefl.runs.run_data import RunData

_FALL, _SPENT = 15.0, 0.8
"""Points of accuracy lost since the best round, and the share of a budget spent, that are worth a word."""


@app.command(rich_help_panel=TRAINING)
def compare(
    folders: Folders,
    target: Annotated[
        list[float] | None,
        typer.Option(
            click_type=click.FloatRange(0, 100, min_open=True),
            help="Accuracy (percent) to measure the time to; may be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print accuracy, clock, leakage and time to accuracy: a line per policy, mean ± deviation over its seeds."""
    from pausefl.runs.read_folder import read_runs

    (print_runs if as_json else show_runs)(read_runs(folders), target)


def show_runs(runs: Sequence[RunData], targets: Sequence[float] | None = None) -> None:
    """Print runs, a line per policy."""
    from pausefl.report.policy_summary import at_a_glance, by_policy, summarise

    groups = by_policy(runs)
    policies = summarise(groups, targets)
    out = Console() if sys.stdout.isatty() else Console(width=100)  # wide enough for a table
    head = ["policy", "seeds", "rounds", "clock s", "final %", "best %", "max leak", "fast half %"]
    out.print(_table(head, [at_a_glance(p, "-") for p in policies]))
    targets = list(policies[0].time_to)[-max(1, (out.width - 20) // 20) :]
    if targets:
        times = [[p.name, *(_reached(p.time_to[target], p.seeds) for target in targets)] for p in policies]
        out.print(_table(["policy", *(f"s to {target:g} %" for target in targets)], times))
    out.print(
        "final: mean of the last ten rounds; max leak: largest epsilon spent by a client; fast half: picks of faster "
        "clients; ± over seeds."
    )
    for p in policies:
        budget = groups[p.name][0].settings.privacy.budget
        spent = (p.max_leakage or 0.0) > _SPENT * budget
        if spent and p.accuracy and p.best_accuracy and p.best_accuracy.mean - p.accuracy.mean > _FALL:
            out.print(
                f"{p.name} fell from {p.best_accuracy.mean:.1f} to {p.accuracy.mean:.1f} %: {p.max_leakage:.1f} of "
                f"{budget:g} is spent, and late releases are mostly noise; stop earlier, or allow a larger budget."
            )


def print_runs(runs: Sequence[RunData], targets: Sequence[float] | None = None) -> None:
    """Print the same as JSON, on the standard output."""
    from pausefl.report.policy_summary import by_policy, summarise

    typer.echo(json.dumps([asdict(policy) for policy in summarise(by_policy(runs), targets)], indent=1))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table()
    for name in head:
        table.add_column(
            name, justify="left" if name == "policy" else "right", no_wrap=name != "policy", overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    return table


def _reached(value: Spread | None, seeds: int) -> str:
    return "-" if value is None else f"{value} ({value.count}/{seeds})" if value.count < seeds else str(value)
