"""The command line: one module per command.

Whatever pausefl refuses, it says why in one line on stderr and ends with exit code 2, never with a traceback.
"""

from __future__ import annotations

import io
import re
import signal
import sys
from typing import Annotated

import click
import typer

from pausefl import __version__
from pausefl.cli.options import finished
from pausefl.errors import PauseError
from pausefl.system.printable_text import printable

app = typer.Typer(
    name="pausefl",
    help="Low-latency, privacy-aware client selection for federated learning.",
    epilog="Exit codes: 0 means done. 1 means that an audit refuted a claim, that a repeated run differs, or that you "
    "answered no. 2 means that pausefl refused, and one line says why. 130 and 143 mean that it was interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

MOVED = {
    "claims": "pausefl paper claims",
    "results": "pausefl paper results",
    "keep": "pausefl paper keep",
    "regret": "pausefl study regret",
}
"""Commands that have a new name: the old one says so and does nothing."""

GONE = {
    ("pausefl ledger show", "--dimension"): "leave it out, because every row of the ledger states its own dimension",
    ("pausefl ledger restore", "--head"): "pass --releases N instead, where N counts all releases ever made",
}
"""Options that are no longer there, and why."""


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


def _complain(message: str) -> None:
    """Print one line, whatever was quoted in it: a name may hold line ends or control a terminal."""
    typer.echo(printable(f"pausefl: {message}"), err=True)


def _gone(error: click.NoSuchOption) -> str | None:
    return GONE.get((error.ctx.command_path, error.option_name)) if error.ctx else None


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the entry point of the ``pausefl`` script."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):  # tables have lines that an ASCII terminal cannot show
            output.reconfigure(errors="replace")
    terminated = []

    def terminate(number: int, _: object) -> None:
        """A polite request to stop: clean up as with Ctrl-C."""
        terminated.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    try:
        code = finished(typer.main.get_command(app)).main(arguments, prog_name="pausefl", standalone_mode=False)
        if code == 130 and terminated:  # typer has caught the interrupt
            code = 143
    except click.ClickException as error:
        old = (arguments or sys.argv[1:] or [""])[0]
        if old in MOVED:
            _complain(f"'pausefl {old}' has a new name; run '{MOVED[old]}' instead")
        elif isinstance(error, click.NoSuchOption) and (why := _gone(error)):
            _complain(f"{error.option_name} is no longer an option; {why}")
        elif isinstance(error, click.NoSuchOption) and error.ctx and error.ctx.command_path == "pausefl node start":
            _complain(f"no such option: {error.option_name}; write the options of flower-supernode after --")
        elif old == "tune" and error.format_message().startswith("Got unexpected extra argument"):
            _complain(
                "'pausefl tune STUDY KEY VALUES' has a new form; run 'pausefl tune STUDY --vary KEY=VALUES' instead"
            )
        elif type(error).__name__ == "NoArgsIsHelpError":  # not in every release of click
            typer.echo(error.format_message())
        else:
            # Both click and typer add the nearest command, each in its own words: the first is enough.
            _complain(re.sub(r"( \(?Did you mean [^?]*\?\)?).*", r"\1", error.format_message()))
        code = 2
    except PauseError as error:
        _complain(str(error))
        code = 2
    except OSError as error:
        what = (
            f"pausefl cannot use {error.filename} ({error.strerror}); check the path and your rights to it"
            if error.filename
            else str(error)
        )
        _complain(what)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        typer.echo("pausefl: interrupted", err=True)
        code = 143 if terminated else 130
    sys.exit(code)


from pausefl.cli import (  # noqa: E402, F401 - each registers its command
    audit,
    compare,
    data,
    demo,
    ledger,
    node,
    off_policy,
    owner,
    paper,
    plan,
    report,
    run,
    study,
    tune,
    watch,
)
