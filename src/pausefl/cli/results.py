"""``pausefl results``: studies as a page of Markdown with charts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import PAPER


@app.command(rich_help_panel=PAPER)
def results(
    folder: Annotated[Path, typer.Argument(help="A folder with a folder per study, such as results/.")],
    out: Annotated[Path, typer.Option(help="The Markdown file to write; charts go to images/ beside it.")],
) -> None:
    """Write a page with the table and the main charts of each study in a folder."""
    from pausefl.studies.results import write_results

    typer.echo(f"wrote {write_results(folder, out, f'pausefl results {folder} --out {out}')}")
