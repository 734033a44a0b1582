"""Commands that have a new name: the old one says so and does nothing."""

from __future__ import annotations

from collections.abc import Callable

import click

from pausefl.cli import app

MOVED = {
    "claims": "pausefl paper claims",
    "results": "pausefl paper results",
    "keep": "pausefl paper keep",
    "regret": "pausefl study regret",
}


def _refusal(old: str, new: str) -> Callable[[], None]:
    def refuse() -> None:
        raise click.UsageError(f"'pausefl {old}' is now '{new}'; use that")

    return refuse


for _old, _new in MOVED.items():
    app.command(
        _old,
        hidden=True,
        help=f"Use '{_new}'.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_refusal(_old, _new))
