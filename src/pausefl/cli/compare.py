"""``pausefl compare``: policies side by side, in the terminal or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.tables import show_runs
from pausefl.errors import require


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
    if as_json:
        groups = by_name(read_runs(folders))
        policies = summarise(groups, target or default_targets(groups))
        typer.echo(json.dumps([asdict(policy) for policy in policies], indent=1))
    else:
        show_runs(folders, target)
