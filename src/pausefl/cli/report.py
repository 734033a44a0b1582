"""``pausefl report``: runs as a page to look at, and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.arguments import TRAINING


@app.command(rich_help_panel=TRAINING)
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, of seeds, or of whole studies.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "pausefl runs",
    reference: Annotated[
        list[Path] | None, typer.Option(help="CSV of a curve to draw beside (round, seconds, accuracy, max_leakage).")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder for the same charts as PNG and SVG.")] = None,
) -> None:
    """Write one self-contained HTML file with charts and tables of these runs."""
    from pausefl.report.frames import read_runs
    from pausefl.report.html import write_report
    from pausefl.report.images import write_images

    typer.echo(f"wrote {write_report(folders, out, title, reference or [])}")
    if images is not None:
        typer.echo(
            f"wrote {len(write_images(read_runs(folders), images, references=reference or []))} pictures to {images}"
        )
