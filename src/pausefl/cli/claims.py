"""``pausefl claims``: what of the paper holds, judged by runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import PAPER, AsJson


@app.command(rich_help_panel=PAPER)
def claims(
    folder: Annotated[Path, typer.Argument(help="A folder with a folder per study, such as results/.")],
    out: Annotated[Path | None, typer.Option(help="Write the page here instead of printing it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Judge each claim of the paper by the runs in a folder, and write the page."""
    from pausefl.studies.claims import CLAIMS, claims_page, gather

    if as_json:
        evidence = gather(folder)
        rows = [
            {"claim": c.text, "tested": c.test, "findings": [asdict(found) for found in c.judge(evidence)]}
            for c in CLAIMS
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    command = f"pausefl claims {folder}" + (f" --out {out}" if out else "")
    page = claims_page(gather(folder), CLAIMS, command)
    if out is None:
        typer.echo(page)
    else:
        out.write_text(page, encoding="utf-8")
        typer.echo(f"wrote {out}")
