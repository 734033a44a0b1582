"""What all commands share: common options, completion, and the terminal."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import click
import typer
from rich.console import Console
from typer.models import ArgumentInfo

TRAINING, PRIVACY, PAPER = "Train and compare", "Privacy", "The paper"
"""The groups of commands in ``pausefl --help``."""

_ORDER = (
    "demo",
    "run",
    "study",
    "compare",
    "off-policy",
    "report",
    "watch",
    "tune",
    "data",
    "plan",
    "owner",
    "ledger",
    "node",
    "audit",
    "paper",
)

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, so that another program can read it.")]
DataDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the data sets. The default is $PAUSEFL_DATA, or ~/.cache/pausefl if that is not set.",
    ),
]
Folders: TypeAlias = Annotated[
    list[Path], typer.Argument(help="Folders that hold one run, the seeds of a run, or a whole study.")
]
Jobs: TypeAlias = Annotated[
    int, typer.Option(min=1, help="How many processes to use. The number does not change the result.")
]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override a key, for example run.rounds=50. You can repeat this option.",
    ),
]
Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Run on the Ray cluster at this address: HOST:PORT, auto, or local. pausefl then ignores --jobs.",
    ),
]
References: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        help="CSV file of a curve to draw for comparison. Its columns are round, seconds, accuracy and max_leakage."
    ),
]
Scale: TypeAlias = Annotated[
    Literal["full", "half", "smoke"],
    typer.Option(
        click_type=click.Choice(["full", "half", "smoke"]),
        help="How much to run. 'full' is the paper's size. 'half' takes an evening on two cores. 'smoke' takes some "
        "seconds.",
    ),
]


class Percent(click.FloatRange):
    """An accuracy in percent; a share such as 0.8 is refused, because it would be taken for 0.8 %."""

    def __init__(self) -> None:
        super().__init__(0, 100, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or refuse it in one line."""
        number = super().convert(value, param, ctx)
        if number <= 1.0:
            self.fail(
                f"{number:g} is too small for an accuracy in percent; write {100 * number:g} if you mean "
                f"{100 * number:g} %.",
                param,
                ctx,
            )
        return number


def complete_study(incomplete: str) -> list[str]:
    """Return the built-in studies and the TOML files here that begin like this."""
    from pausefl.studies.load import study_names

    files = sorted(str(path) for path in Path().glob("*.toml"))
    return [name for name in (*study_names(), *files) if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Return the policies that have a name."""
    from pausefl.selection import POLICIES, Fastest

    return [name for name in (*POLICIES, Fastest.name) if name.startswith(incomplete)]


def complete_data(incomplete: str) -> list[str]:
    """Return the data sets that can be fetched."""
    from pausefl.learn.datasets import DATASETS

    return [name for name in DATASETS[1:] if name.startswith(incomplete)]


def left_text(left: float, budget: float) -> str:
    """Return what is left of a budget; what only rounding leaves is nothing.

    >>> left_text(7.45e-09, 8.0), left_text(0.25, 8.0)
    ('0', '0.25')
    """
    return f"{left if left > 1e-6 * budget else 0.0:.6g}"


def terminal() -> Console:
    """Return where tables and sentences for people go; brackets and colons in what others wrote are no markup there."""
    # Wide enough for a table where nobody watches.
    return Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 100)


def finished(command: click.Command) -> click.Command:
    """Put commands into the order of a first day, and give arguments the help that was written for them.

    (click 8.5 clears the help that typer 0.20 had set.)  A paragraph of help becomes one line, because typer would keep
    the line ends of the source.
    """
    if command.help:
        command.help = "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    if isinstance(command, click.Group):
        command.commands = dict(sorted(command.commands.items(), key=lambda entry: _place(entry[0])))
        for inner in command.commands.values():
            finished(inner)
    elif command.callback is not None:
        hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        for parameter in command.params:
            for info in getattr(hints.get(parameter.name or ""), "__metadata__", ()):
                if isinstance(parameter, click.Argument) and isinstance(info, ArgumentInfo):
                    parameter.help = info.help  # type: ignore[attr-defined,unused-ignore]
    return command


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
