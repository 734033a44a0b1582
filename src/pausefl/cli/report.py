"""``pausefl report``: runs as a page to look at, and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.arguments import TRAINING
from pausefl.errors import require


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
    from pausefl.report.html import write_report
    from pausefl.report.images import write_images
    from pausefl.report.measured import write_measured, write_measured_images
    from pausefl.report.reading import read_runs
    from pausefl.report.rows import FILE, read_rows

    measured = [folder for folder in folders if (folder / FILE).exists()]
    if measured:
        require(folders == measured[:1], "folders", len(folders), "1 where it holds measured rows", "report it alone")
        require(not reference, "--reference", reference, "left out", f"{measured[0]} has no accuracy or leakage")
        table = read_rows(measured[0] / FILE)
        typer.echo(f"wrote {write_measured(table.kind, table.rows, out, title)}")
        if images is not None:
            written = write_measured_images(table.kind, table.rows, images)
            typer.echo(f"wrote {len(written)} pictures to {images}")
        return
    typer.echo(f"wrote {write_report(folders, out, title, reference or [])}")
    if images is not None:
        typer.echo(
            f"wrote {len(write_images(read_runs(folders), images, references=reference or []))} pictures to {images}"
        )
