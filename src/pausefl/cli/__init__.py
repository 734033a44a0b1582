"""The command line: one module per command; every refusal is one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated

import click
import typer

from pausefl import __version__
from pausefl.errors import PauseError

app = typer.Typer(
    name="pausefl",
    help="Low-latency, privacy-aware client selection for federated learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pausefl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Low-latency, privacy-aware client selection for federated learning."""


def _terminate(*_: object) -> None:
    """Let a polite request to stop clean up as Ctrl-C does."""
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the entry point of the ``pausefl`` script."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):  # tables have lines that an ASCII terminal cannot show
            output.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(arguments, standalone_mode=False)
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # not in every release of click
            typer.echo(error.format_message())
        else:
            typer.echo(f"pausefl: {error.format_message()}".replace("\n", " "), err=True)
        code = 2
    except (PauseError, OSError) as error:
        typer.echo(f"pausefl: {error}".replace("\n", " "), err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        typer.echo("pausefl: interrupted", err=True)
        code = 130
    sys.exit(code)


from pausefl.cli import audit, compare, data, demo, ledger, regret, report, run, study  # noqa: E402, F401 - each registers its command
