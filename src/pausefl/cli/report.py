"""``pausefl report``: runs as a page to look at, and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING, Folders, References
from pausefl.errors import require

if TYPE_CHECKING:
    from pausefl.report.report_files import Report


@app.command(rich_help_panel=TRAINING)
def report(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    reference: References = None,
    images: Annotated[Path | None, typer.Option(help="Folder for the same charts as PNG and SVG.")] = None,
) -> None:
    """Write one self-contained HTML file with charts and tables of these runs."""
    from pausefl.report.report_files import write_images, write_page

    found = _read(folders, title, reference or ())
    typer.echo(f"wrote {write_page(found, out)}")
    if images is not None:
        typer.echo(f"wrote {len(write_images(found, images))} pictures to {images}")


def _read(folders: Sequence[Path], title: str | None, references: Sequence[Path]) -> Report:
    """Return the report of runs, or of the rows of one measured study."""
    from pausefl.report.reference_curves import read_references
    from pausefl.report.run_report import run_report
    from pausefl.runs.read_folder import read_runs
    from pausefl.studies.measured.study import FILE, read_rows

    if not any((folder / FILE).exists() for folder in folders):
        return run_report(read_runs(folders), title or "pausefl runs", read_references(references))
    require(len(folders) == 1, "number of folders", len(folders), "1 for measured rows", "report them one by one")
    require(not references, "number of --reference", len(references), "0 for measured rows", "leave it out")
    table = read_rows(folders[0] / FILE)
    return table.kind.report(table.rows, title or folders[0].name)
