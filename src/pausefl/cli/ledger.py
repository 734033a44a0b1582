"""``pausefl ledger``: read, verify, back up and close a ledger."""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson, left_text
from pausefl.errors import ConfigError
from pausefl.system.printable_text import printable, spreadsheet_cell

if TYPE_CHECKING:
    from pausefl.privacy import SqliteLedger
    from pausefl.privacy.ledger.hash_chain import Head
    from pausefl.privacy.ledger.statement import Statement

commands = typer.Typer(
    name="ledger",
    help="Read, verify, back up or close a ledger. It is the record of what has leaked.",
    no_args_is_help=True,
)
app.add_typer(commands, rich_help_panel=PRIVACY)

At = Annotated[Path, typer.Argument(help="The ledger's file.")]


@commands.command()
def show(
    path: At,
    delta: Annotated[float, typer.Option(help="The delta of the tight bound, from 1e-10 to 1.")] = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Print for each subject what it has leaked, what is left, and how many releases it can still make.

    A subject is the data of one owner, under the name by which the server knows it.
    """
    from pausefl.privacy.ledger.statement import statement

    ledger = _open(path)
    found = [statement(ledger, subject, delta=delta) for subject in ledger.subjects()]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        typer.echo("\n".join(map(printable, _lines(one))))  # a ledger may come from others
    if not found:
        typer.echo("this ledger has no release yet, so nothing has leaked")


@commands.command()
def verify(
    path: At,
    head: Annotated[
        str | None, typer.Option(help="A head that this command printed earlier. The ledger must still contain it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that no row of the ledger was edited, moved or removed, and that a node would accept it.

    The command recomputes the hash of every row. Then it compares the ledger with its noted heads, as a node does. A
    head is the hash of the last row. The exit code is 2 if a check fails. No node uses a backup, a ledger for a
    simulation, or a ledger whose head is noted nowhere. So the command checks only the rows of these. Keep the printed
    head in another place too. With it, you can detect an older copy.
    """
    from pausefl.owner.ledger_identity import check_newest
    from pausefl.owner.noted_heads import read_note, read_witness, witness_path
    from pausefl.owner.second_note_place import forgetful_places

    if head is not None and not re.fullmatch("[0-9a-fA-F]{64}", head):
        raise ConfigError(
            f"head is {head[:80]!r}, but must be 64 hexadecimal digits; copy it whole from the output of 'pausefl "
            "ledger verify'"
        )
    ledger = _open(path)
    end = ledger.verify(head and head.lower())
    noted, witness, warnings = read_note(ledger.path), None, []
    if ledger.is_backup:
        more = "; this is a backup, so nothing can be charged to it"
    elif ledger.simulation:
        more = "; it was made for a simulation, so no node uses it"
    elif (witness := read_witness(ledger.id)) is None and noted is None:
        more = "; its head is noted nowhere, so no node uses it"
    else:
        check_newest(ledger)
        warnings = forgetful_places(ledger.path)
        place = witness_path(ledger.id)
        second = f"and row {witness.rows} in {place}" if witness else f"and the first charge will be noted in {place}"
        more = f"; row {noted.rows} is noted beside its replies, {second}" if noted else ""
    kept = "" if head is None else "; it contains the head that you gave"
    rows = {"noted": noted.rows if noted else None, "second_note": witness.rows if witness else None}
    _tell_end(ledger.id, end, as_json, f"{end.rows} rows, all in order{more}{kept}", **rows)
    for warning in warnings:
        typer.echo(f"WARNING: {warning}", err=True)


@commands.command()
def export(
    path: At,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            click_type=click.Choice(["json", "csv"]),
            help="The format of the rows. --json means the same as json.",
        ),
    ] = "json",
    as_json: AsJson = False,
) -> None:
    """Print every row, subject by subject. Times are in UTC."""
    from pausefl.privacy.ledger.charge import Charge

    ledger = _open(path)
    charges = [charge for subject in ledger.subjects() for charge in ledger.charges(subject)]
    rows = [{**asdict(charge), "time": charge.when, "protects": charge.protects} for charge in charges]
    if form == "json" or as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        writer = csv.DictWriter(
            sys.stdout, [*(field.name for field in fields(Charge)), "protects"], lineterminator="\n"
        )
        writer.writeheader()
        for row in rows:
            writer.writerow({name: spreadsheet_cell(value) for name, value in row.items()})


@commands.command()
def retire(
    path: At,
    subject: Annotated[
        str | None,
        typer.Option(
            help="The subject to retire. You need this option only if the ledger has several subjects, or none and no "
            "owner.toml beside it."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Mark the rest of a subject's budget as spent, so that it never releases anything again.  You cannot undo this.

    Stop the node first: a finished reply may wait in it until the server takes it.
    """
    from pausefl.owner.ledger_identity import retire_for_ever
    from pausefl.privacy.ledger.charge import check_names

    ledger = _open(path)
    who = _one_subject(ledger, subject)
    check_names(subject=who)
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"retiring {who!r} cannot be undone; add --yes to confirm it")
        if not typer.confirm(f"Retire {who!r} for ever? Nothing of its data can be released after that"):
            typer.echo("nothing was changed")
            raise typer.Exit(1)
    spent = retire_for_ever(ledger, who)
    left = f"{spent.epsilon:.6g} of {spent.budget:g} were left, and they are spent now for ever"
    typer.echo(f"{who} is retired: {left if spent.play > 1 else 'it made no release, and it never will'}")
    typer.echo("Make a new backup now, and destroy the older ones, because they do not contain this row.")


@commands.command()
def backup(
    path: At,
    target: Annotated[Path, typer.Argument(help="The file of the copy. It must not exist yet.")],
    as_json: AsJson = False,
) -> None:
    """Check the ledger, and copy it to a new file.

    Nothing can be charged to the copy. To use it, put it in the ledger's place with 'restore'.
    """
    ledger = _open(path)
    end = ledger.backup(target)
    _tell_end(ledger.id, end, as_json, f"wrote {target}: {end.rows} rows")


@commands.command()
def restore(
    path: At,
    backup: Annotated[
        Path | None,
        typer.Option("--from", help="The backup to put in place. Leave it out to accept a ledger that you moved."),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(help="How many releases were made in all. Do not take this number from the server alone."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the ledger's place, or accept a ledger that you moved.

    The command refuses a copy in which a release is missing.
    """
    from pausefl.owner.ledger_restore import restore_ledger

    ledger = restore_ledger(path, backup, releases)
    _tell_end(ledger.id, ledger.head, as_json, f"restored {path}: {ledger.head.rows} rows")


def _tell_end(ledger_id: str, end: Head, as_json: bool, text: str, **more: int | None) -> None:
    values = {"id": ledger_id, "rows": end.rows, "head": end.hash, **more}
    typer.echo(json.dumps(values) if as_json else f"{text}; head {end.hash}")


def _one_subject(ledger: SqliteLedger, subject: str | None) -> str:
    from pausefl.owner.owner_init import owner_beside

    beside = owner_beside(ledger)
    known = ledger.subjects() or (() if beside is None else (beside.name,))
    if subject is None and len(known) == 1:
        return known[0]
    names = ", ".join(map(repr, known[:5])) + (", …" if len(known) > 5 else "")
    if subject is None:
        found = f"has {len(known)} subjects" + (f" ({names})" if known else "")
        raise ConfigError(f"ledger {str(ledger.path)!r} {found}; pass one with --subject NAME")
    if known and subject not in known:
        raise ConfigError(
            f"subject is {subject!r}, but this ledger knows only {names}; pass one of these with --subject"
        )
    return subject


def _open(path: Path) -> SqliteLedger:
    from pausefl.privacy import SqliteLedger

    if path.suffix == ".toml" and path.is_file():
        raise ConfigError(f"{path} is not a ledger but {_kind_of_file(path)}")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; pass the ledger in it, such as {path / 'ledger.db'}")
    return SqliteLedger(path)


def _kind_of_file(path: Path) -> str:
    """Say what a TOML file is, and what to name instead."""
    from pausefl.system.toml_sections import read_toml

    found = read_toml(path)
    if "ledger" in found:
        return f"an owner's file; pass its ledger {path.parent / str(found['ledger'])} instead"
    if "study" in found:
        return "a study; pass the database that the owner's file names as ledger, such as ledger.db"
    if "app" in found:
        return "a list of reviewed apps; pass the database that the owner's file names as ledger, such as ledger.db"
    return "a configuration in TOML; pass the database that the owner's file names as ledger, such as ledger.db"


def _lines(one: Statement) -> list[str]:
    if one.retired and not one.releases:
        return [f"{one.subject}: retired at {one.retired}; it made no release, and it never will"]
    tight = "not computed" if one.tight is None else f"{one.tight:.6g} at delta {one.tight_delta:g}"
    whole = {"coordinate": "unknown, because a release states no dimension", "record": "nothing is promised"}.get(
        one.unit, "unknown"
    )
    if one.whole_update is not None:
        whole = f"{one.whole_update:.6g} at delta {one.whole_delta:g}"
    ends = f"{one.releases_left} (ended by: {one.ended_by})" if one.releases_left is not None else "no end"
    settled = ", if the number of releases was settled beforehand" if one.method == "pld" else ""
    until = "unknown" if one.releases_until_99_percent is None else f"{one.releases_until_99_percent}"
    lines = [
        f"{one.subject}: {one.releases} releases, schedule {one.schedule}",
        f"  spent {one.spent:.6g} of {one.budget:g}, {left_text(one.left, one.budget)} left; unit: {one.unit}",
        f"  protected: {one.protects}",
        f"  delta spent {one.spent_delta:g} of {one.delta_limit:g}",
        f"  tight bound: {tight}",
        f"  best bound: {one.bound:.6g} at delta {one.bound_delta:g}, by {one.method}{settled}",
        f"  for the whole update: {whole}",
        f"  releases until exhaustion: {ends}; {until} until 99 % is gone",
    ]
    if one.retired:
        lines.insert(2, f"  retired at {one.retired}: the rest was spent, for ever")
    if one.unstated:
        lines.insert(-4, f"  {one.unstated} releases named no mechanism, so their delta is unknown and counts as 0")
    return [*lines, *(f"  mechanism: {name}" for name in one.mechanisms)]
