"""``pausefl report``: runs as a page to look at, and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING
from pausefl.errors import require


@app.command(rich_help_panel=TRAINING)
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, of seeds, or of whole studies.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="CSV of a curve to draw beside (round, seconds, accuracy, max_leakage).")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder for the same charts as PNG and SVG.")] = None,
) -> None:
    """Write one self-contained HTML file with charts and tables of these runs."""
    from pausefl.report.images import write_images
    from pausefl.report.measured import write_measured, write_measured_images
    from pausefl.report.page.report import write_report
    from pausefl.runs.folder import read_runs
    from pausefl.studies.measured.table import FILE, read_rows

    pictures = None
    if any((folder / FILE).exists() for folder in folders):
        require(len(folders) == 1, "number of folders", len(folders), "1 for measured rows", "report them one by one")
        require(not reference, "number of --reference", len(reference or []), "0 for measured rows", "leave it out")
        table = read_rows(folders[0] / FILE)
        page = write_measured(table.kind, table.rows, out, title or folders[0].name)
        if images is not None:
            pictures = write_measured_images(table.kind, table.rows, images)
    else:
        page = write_report(folders, out, title or "pausefl runs", reference or [])
        if images is not None:
            pictures = write_images(read_runs(folders), images, references=reference or [])
    typer.echo(f"wrote {page}")
    if pictures is not None:
        typer.echo(f"wrote {len(pictures)} pictures to {images}")
