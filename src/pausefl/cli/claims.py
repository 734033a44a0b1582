"""``pausefl claims``: what of the paper holds, judged by runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app


@app.command()
def claims(
    folder: Annotated[Path, typer.Argument(help="A folder with a folder per study, such as results/.")],
    out: Annotated[Path | None, typer.Option(help="Write the page here instead of printing it.")] = None,
) -> None:
    """Judge each claim of the paper by the runs in a folder, and write the page."""
    from pausefl.studies.claims import CLAIMS, claims_page, gather

    command = f"pausefl claims {folder}" + (f" --out {out}" if out else "")
    page = claims_page(gather(folder), CLAIMS, command)
    if out is None:
        typer.echo(page)
    else:
        out.write_text(page, encoding="utf-8")
        typer.echo(f"wrote {out}")
