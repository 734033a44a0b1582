"""``pausefl keep``: runs without their weights, small enough to commit or to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING


@app.command(rich_help_panel=TRAINING)
def keep(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, of seeds, or of whole studies.")],
    out: Annotated[Path, typer.Option(help="Where the copies go.")],
) -> None:
    """Copy runs without models and optimiser states; report, compare and claims read the copies as well."""
    from pausefl.runs.archive import keep as copy

    kept = copy(folders, out)
    size = sum(file.stat().st_size for folder in kept for file in folder.iterdir())
    typer.echo(f"kept {len(kept)} runs in {out}, {size / 2**20:.2f} MiB")
