"""``pausefl compare``: runs side by side, in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pausefl.cli import app


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders that 'pausefl run' wrote.")],
    target: Annotated[float | None, typer.Option(help="Accuracy (percent) to measure the time to.")] = None,
) -> None:
    """Print final accuracy, time to accuracy, leakage and who was used, a line per run."""
    from pausefl.studies.table import summary_table

    screen = Console() if sys.stdout.isatty() else Console(width=100)
    screen.print(summary_table([(folder.name, folder) for folder in folders], target))
