"""``pausefl compare``: policies side by side, in the terminal or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from pausefl.cli import app
from pausefl.errors import require

if TYPE_CHECKING:
    from pausefl.report.summary import PolicySummary, Spread


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, of seeds, or of whole studies.")],
    target: Annotated[
        list[float] | None, typer.Option(help="Accuracy (percent) to measure the time to; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print accuracy, clock, leakage and time to accuracy: a line per policy, mean ± deviation over its seeds."""
    from pausefl.report.frames import by_name, read_runs
    from pausefl.report.summary import default_targets, summarise

    for wanted in target or ():
        require(0.0 < wanted <= 100.0, "--target", wanted, "a percentage above 0, up to 100", "e.g. 90")
    groups = by_name(read_runs(folders))
    policies = summarise(groups, target or default_targets(groups))
    if as_json:
        typer.echo(json.dumps([asdict(policy) for policy in policies], indent=1))
    else:
        screen = Console() if sys.stdout.isatty() else Console(width=100)
        screen.print(_glance(policies))
        if policies[0].time_to:
            screen.print(_times(policies))


def _glance(policies: Sequence[PolicySummary]) -> Table:
    table = _empty(["policy", "seeds", "rounds", "clock s", "final %", "best %", "max leak", "fast half %"])
    for p in policies:
        table.add_row(
            p.name, str(p.seeds), str(p.rounds), _said(p.seconds), _said(p.accuracy), _said(p.best_accuracy),
            "none" if p.max_leakage is None else f"{p.max_leakage:.1f}", _said(p.fast_share),
        )  # fmt: skip
    return table


def _times(policies: Sequence[PolicySummary]) -> Table:
    table = _empty(["policy", *(f"s to {target:g} %" for target in policies[0].time_to)])
    for p in policies:
        table.add_row(p.name, *(_said(time, p.seeds) for time in p.time_to.values()))
    return table


def _empty(columns: Sequence[str]) -> Table:
    table = Table()
    for name in columns:
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=name != "policy")
    return table


def _said(value: Spread | None, seeds: int = 0) -> str:
    return "-" if value is None else f"{value} ({value.count}/{seeds})" if value.count < seeds else str(value)
