"""``pausefl watch``: follow a run in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING


@app.command(rich_help_panel=TRAINING)
def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or the checkpoint of a Flower server.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page. 0 picks a free port.")] = 8765,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. If other machines can reach it, the page opens only with the token that "
            "pausefl prints."
        ),
    ] = "127.0.0.1",
) -> None:
    """Follow a run in the browser: its progress, slow clients, remaining budgets and alarms. It changes nothing."""
    from pausefl.report.live.server import watching

    with watching(run, host, port) as server:
        typer.echo(f"watching {run} at {server.url} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            rounds = server.run.rounds
            typer.echo(f"stopped watching after {rounds:,} {'round' if rounds == 1 else 'rounds'}", err=True)
