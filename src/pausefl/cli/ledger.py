"""``pausefl ledger``: what an auditor asks of a ledger: who leaked how much, what is left, and can it be believed."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson

if TYPE_CHECKING:
    from pausefl.privacy import SqliteLedger
    from pausefl.privacy.ledger.statement import Statement

commands = typer.Typer(name="ledger", help="Read and verify the record of what has leaked.", no_args_is_help=True)
app.add_typer(commands, rich_help_panel=PRIVACY)

At = Annotated[Path, typer.Argument(help="The ledger's file.")]


@commands.command()
def show(
    path: At,
    dimension: Annotated[
        int | None, typer.Option(min=1, help="Coordinates of an update, to say what it means as a whole.")
    ] = None,
    delta: Annotated[float, typer.Option(help="For the tight bound, between 0 and 1.")] = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Print for each subject what it has leaked, what is left, and how many releases until exhaustion."""
    from pausefl.privacy.ledger.statement import statement

    ledger = _open(path)
    found = [statement(ledger, subject, dimension=dimension, delta=delta) for subject in ledger.subjects()]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        typer.echo("\n".join(_lines(one)))


@commands.command()
def verify(
    path: At,
    head: Annotated[str | None, typer.Option(help="A head noted earlier, which the chain must contain.")] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every hash; exit 2 if a row was edited, moved or removed.  Keep the head: it betrays an older copy."""
    end = _open(path).verify(head)
    typer.echo(
        json.dumps({"rows": end.rows, "head": end.hash})
        if as_json
        else f"{end.rows} rows, all in order; head {end.hash}"
    )


@commands.command()
def export(
    path: At,
    form: Annotated[
        str, typer.Option("--format", click_type=click.Choice(["json", "csv"]), help="--json means the former.")
    ] = "json",
    as_json: AsJson = False,
) -> None:
    """Print every row, in the order of the subjects."""
    ledger = _open(path)
    rows = [asdict(charge) for subject in ledger.subjects() for charge in ledger.charges(subject)]
    if form == "json" or as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _open(path: Path) -> SqliteLedger:
    from pausefl.privacy import SqliteLedger

    return SqliteLedger(path)


def _lines(one: Statement) -> list[str]:
    tight = "unknown" if one.tight is None else f"{one.tight:.6g} at delta {one.tight_delta:g}"
    whole = "unknown" if one.unit != "coordinate" else "d x the sum; give --dimension"
    if one.whole_update is not None:
        whole = f"{one.whole_update:.6g} at delta {one.whole_delta:g}"
    ends = f"{one.releases_left} (ended by: {one.ended_by})" if one.releases_left is not None else "no end"
    until = "unknown" if one.releases_until_99_percent is None else f"{one.releases_until_99_percent}"
    lines = [
        f"{one.subject}: {one.releases} releases, schedule {one.schedule}",
        f"  spent {one.spent:.6g} of {one.budget:g}, {one.left:.6g} left; unit: {one.unit}",
        f"  delta spent {one.spent_delta:g} of {one.delta_limit:g}",
        f"  tight bound: {tight}",
        f"  best bound: {one.bound:.6g} at delta {one.bound_delta:g}, by {one.method}",
        f"  for the whole update: {whole}",
        f"  releases until exhaustion: {ends}; {until} until 99 % is gone",
    ]
    if one.unstated:
        lines.insert(3, f"  {one.unstated} releases named no mechanism: their delta is unknown and counted as 0")
    return [*lines, *(f"  mechanism: {name}" for name in one.mechanisms)]
