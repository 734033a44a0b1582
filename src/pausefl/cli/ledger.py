"""``pausefl ledger``: what an auditor asks of a ledger: who leaked how much, what is left, and can it be believed."""

from __future__ import annotations

import csv
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pausefl.cli import app

if TYPE_CHECKING:
    from pausefl.privacy import SqliteLedger

commands = typer.Typer(name="ledger", help="Read and verify the record of what has leaked.", no_args_is_help=True)
app.add_typer(commands)

At = Annotated[Path, typer.Argument(help="The ledger's file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@commands.command()
def show(
    path: At,
    dimension: Annotated[
        int | None, typer.Option(help="Coordinates of an update, to say what it means as a whole.")
    ] = None,
    delta: Annotated[float, typer.Option(help="For the tight bound.")] = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Print for each subject what it has leaked, what is left, and how many releases until exhaustion."""
    ledger = _open(path)
    found = [_summary(ledger, subject, dimension, delta) for subject in ledger.subjects()]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in found:
        ends, until = one["releases_left"], _or_unknown(one["releases_until_99_percent"])
        typer.echo(f"{one['subject']}: {one['releases']} releases, schedule {one['schedule']}")
        typer.echo(f"  spent {one['spent']:.6g} of {one['budget']:g}, {one['left']:.6g} left; unit: {one['unit']}")
        typer.echo(f"  tight bound at delta {delta:g}: {_or_unknown(one['tight'])}")
        typer.echo(f"  for the whole update: {one['whole_update']}")
        typer.echo(
            f"  releases until exhaustion: {ends if ends is not None else f'no end; {until} until 99 % is gone'}"
        )
        for mechanism in one["mechanisms"]:
            typer.echo(f"  mechanism: {mechanism}")


@commands.command()
def verify(
    path: At,
    head: Annotated[str | None, typer.Option(help="A head noted earlier, which the chain must contain.")] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every hash; exit 2 if a row was edited, moved or removed.  Keep the head: it betrays an older copy."""
    end = _open(path).verify(head)
    typer.echo(json.dumps(asdict(end)) if as_json else f"{end.rows} rows, all in order; head {end.hash}")


@commands.command()
def export(
    path: At,
    form: Annotated[str, typer.Option("--format", help="json or csv.")] = "json",
    as_json: AsJson = False,
) -> None:
    """Print every row, in the order of the subjects."""
    from pausefl.errors import require

    require(form in ("json", "csv"), "format", form, "'json' or 'csv'", "choose one")
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

    return SqliteLedger(path, create=False)


def _summary(ledger: SqliteLedger, subject: str, dimension: int | None, delta: float) -> dict[str, Any]:
    from pausefl.errors import InvalidValueError, MissingExtraError
    from pausefl.privacy.accountant import compose, events_of
    from pausefl.privacy.schedule import parse_schedule

    rows = ledger.charges(subject)
    plays, budget, spent = len(rows), rows[0].budget, ledger.spent(subject)
    units = {row.unit for row in rows}
    unit = units.pop() if len(units) == 1 else "mixed"
    left_count = until = tight = None
    try:
        schedule = parse_schedule(rows[0].schedule)
        left_count = schedule.limit - plays if schedule.limit is not None else None
        until = _until(lambda count: float(schedule.spent(count)) >= 0.99 * budget, plays)
    except InvalidValueError:
        pass  # a schedule from elsewhere: what is left is known, how fast it goes is not
    try:
        events = events_of(rows)
        tight = compose(events, delta=delta).epsilon if events else None
    except MissingExtraError:
        pass
    whole = "update" if unit == "update" else "d x epsilon; give --dimension" if unit == "coordinate" else "unknown"
    if unit == "update" or (unit == "coordinate" and dimension is not None):
        whole = f"{spent * (dimension or 1 if unit == 'coordinate' else 1):.6g}"
    return {
        "subject": subject, "releases": plays, "spent": spent, "budget": budget, "left": max(0.0, budget - spent),
        "schedule": rows[0].schedule, "tight": tight, "tight_delta": delta, "unit": unit, "whole_update": whole,
        "releases_left": left_count, "releases_until_99_percent": until,
        "mechanisms": sorted({row.mechanism for row in rows}),
    }  # fmt: skip


def _until(reached: Any, plays: int) -> int | None:
    """Return how many more releases until ``reached``, by doubling and halving; None if not within a billion."""
    low, high = plays, max(1, plays)
    while not reached(high):
        low, high = high, high * 2
        if high > 10**9:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low - plays


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None or not math.isfinite(value) else f"{value:.6g}"
