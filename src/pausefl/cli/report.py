"""``pausefl report``: runs as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders that 'pausefl run' wrote.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "pausefl runs",
) -> None:
    """Write one self-contained HTML file with charts and a table of these runs."""
    from pausefl.report.html import write_report

    typer.echo(f"wrote {write_report(folders, out, title)}")
