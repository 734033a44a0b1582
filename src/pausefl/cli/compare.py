"""``pausefl compare``: policies side by side, in the terminal or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson
from pausefl.cli.tables import print_runs, show_runs


@app.command(rich_help_panel=TRAINING)
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, of seeds, or of whole studies.")],
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
    from pausefl.runs.folder import read_runs

    (print_runs if as_json else show_runs)(read_runs(folders), target)
