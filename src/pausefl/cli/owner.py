"""``pausefl owner``: set up a data owner, and check what its terms mean."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson, left_text
from pausefl.errors import ConfigError

if TYPE_CHECKING:
    from pausefl.owner.owner_check import Check

commands = typer.Typer(
    name="owner", help="Set up a data owner, and check the terms on which its data takes part.", no_args_is_help=True
)
app.add_typer(commands, rich_help_panel=PRIVACY)


@commands.command()
def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder in which to create owner.toml and ledger.db. It must be on a local disk.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="The name by which the server knows this data for life. In a simulation, the default is "
            "'client-{partition-id}'."
        ),
    ] = None,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Create one file for all clients of a simulation. It protects nothing.")
    ] = False,
    records: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many records there are at most. With this option, each record is protected. The default is the "
            "number of records in --records-from.",
        ),
    ] = None,
    records_from: Annotated[
        Path | None,
        typer.Option(
            help="Your data: a file with a record in each line, or a folder with a record in each file. pausefl then "
            "hands the records to the app one at a time, and each record is protected."
        ),
    ] = None,
    unit: Annotated[
        Literal["record", "update"] | None,
        typer.Option(
            click_type=click.Choice(["record", "update"]),
            help="What to protect: each single record, or the whole update. The default is record with --records, "
            "or "
            "--records-from, else update.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Epsilon of all releases together, for life. The default is 1 for records and 8 for updates."
        ),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            help="How many times this data may take part in its whole life. The default is 20 for records and 8 for "
            "updates."
        ),
    ] = None,
    clip: Annotated[
        float, typer.Option(help="The length limit of every update, or of each record's contribution.")
    ] = 1.0,
    delta: Annotated[
        float | None,
        typer.Option(
            help="A small allowance on top of epsilon where records are protected, for all releases together. The "
            "default is 1e-6."
        ),
    ] = None,
) -> None:
    """Create the owner's file and the only ledger of this data.  Do this once. The command overwrites nothing.

    With --simulation it creates the one file that all clients of a simulation share.
    """
    from pausefl.owner.doubtful_records import doubtful_records
    from pausefl.owner.made_ledgers import only_new_data, other_ledgers_warning
    from pausefl.owner.owner_init import FILE, LEDGER, SIMULATED_NAME, init_owner, init_simulation

    terms = partial(init_simulation if simulation else init_owner, unit=unit, records=records,
                    records_from=records_from, budget=budget, releases=releases, clip=clip, delta=delta)  # fmt: skip
    if simulation:
        made_for = terms(folder, name or SIMULATED_NAME)
        file = quote(str(folder.absolute() / FILE))
        typer.echo(f"made {file} for the simulated clients {made_for.name!r}; it protects nothing")
        typer.echo(f'in the client app: app = ClientApp(mods=[PrivateUpdate(owner="{folder.absolute() / FILE}")])')
        return
    if name is None:
        raise ConfigError("the name is missing; pass --name NAME, by which the server will know this data for life")
    done = "kept the existing" if (folder / LEDGER).exists() else "made"
    with only_new_data(name, folder / LEDGER, records_from):
        owner = terms(folder, name)
    made = (
        folder,
        folder / FILE,
        folder / LEDGER,
        f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-') or 'ledger'}-{date.today().isoformat()}.db",
    )
    where, file, ledger, copy = (quote(str(path)) for path in made)
    typer.echo(f"made {file}. Read it, change it if you must, then run: pausefl owner check {file}")
    typer.echo(
        f"{done} {ledger} (id {owner.ledger_id}). Back it up every week while the node is on: "
        f"pausefl ledger backup {ledger} {copy}"
    )
    doubtful = [] if owner.records is None else doubtful_records(owner.records)
    for warning in (*doubtful, *other_ledgers_warning(owner.ledger_id)):
        typer.echo(f"WARNING: {warning}")
    typer.echo(f"Run your node as the user who ran this command. For another user, let root run: chown -R USER {where}")


@commands.command()
def records(
    table: Annotated[Path, typer.Argument(help="A CSV file with titles in its first line.")],
    person: Annotated[str, typer.Option(help="The column that says whose row it is. It is left out of the records.")],
    columns: Annotated[
        list[str], typer.Option(help="The columns that a record has, with commas between them. You can repeat this.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write: a line for each person.")],
    text: Annotated[
        list[str] | None, typer.Option(help="Those columns that are text for all persons. Their cells are copied.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="A word that stands for an empty cell. You can repeat this.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="What is between two cells of the table: , or ; or tab.")] = ",",
    decimal: Annotated[str, typer.Option(help="What is before the digits of a fraction: . or a comma.")] = ".",
    encoding: Annotated[str, typer.Option(help="The encoding of the whole table, for example cp1252.")] = "utf-8",
    replace: Annotated[bool, typer.Option("--replace", help="Write over a file that exists.")] = False,
) -> None:
    """Write one record for each person of a table, in a form that no other person can change.

    All rows of one person become one line. A number is written in one way only: 71.0 becomes 71.
    """
    from pausefl.owner.doubtful_records import doubtful_records
    from pausefl.owner.table_records import write_records

    written = write_records(
        table, out, person=person, columns=_listed(columns), text=_listed(text or []), missing=missing or [],
        delimiter=delimiter, decimal=decimal, encoding=encoding, replace=replace,
    )  # fmt: skip
    many = "1 record" if written.records == 1 else f"{written.records} records, one in each line"
    typer.echo(f"wrote {out}: {many}. Look at some of them.")
    copied = [name for name in _listed(columns) if name in _listed(text or [])]
    plain = ", ".join(name for name in _listed(columns) if name not in copied)
    typer.echo(f"as numbers, days, times, or true and false: {plain or 'none'}; as text: {', '.join(copied) or 'none'}")
    for warning in (*written.warnings, *doubtful_records(out)):
        typer.echo(f"WARNING: {warning}")


def _listed(names: list[str]) -> list[str]:
    """Read names with commas between them; a name with a comma is in quotes."""
    return [name.strip() for row in csv.reader(names, skipinitialspace=True) for name in row]


@commands.command()
def check(
    file: Annotated[Path, typer.Argument(help="The owner's file.")],
    dimension: Annotated[
        int | None,
        typer.Option(min=1, help="How many numbers an update has. The default is the count of the last release."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the owner's file and the ledger as the client does, and say what the terms mean.

    The command charges nothing. The exit code is 2 if the client would refuse the file or the ledger.
    """
    from pausefl.owner.owner_check import check_owner

    found = check_owner(file, dimension)
    typer.echo(json.dumps(asdict(found), indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: Check) -> list[str]:
    noise = "unknown; pass --dimension to see how large it is"
    if found.noise_to_signal is not None:
        noise = f"{found.noise_to_signal:.3g} times as long as the longest update, for {found.dimension} numbers"
    ahead = ", ".join(f"{epsilon:.4g}" for epsilon in found.next) or (
        "none, because the budget is gone" if found.spent else "none, because the budget is too small for the mechanism"
    )
    whole = "unknown; pass --dimension to see it" if found.whole_budget is None else f"{found.whole_budget:g}"
    whole = "none: nothing is promised about all records together" if found.unit == "record" else whole
    begin = [
        f"{found.name}: {'a simulation' if found.simulation else found.ledger}",
        *([f"  second note: {found.second_note}"] if found.second_note else []),
    ]
    warnings = [f"  WARNING: {warning}" for warning in found.warnings]
    if found.retired:
        made = f"{found.releases} releases were made" if found.releases else "no release was made"
        return [
            *begin,
            f"  {made}; retired at {found.retired}, for ever: the terms in the file no longer matter",
            *warnings,
        ]
    return [
        *begin,
        f"  schedule: {found.schedule}",
        f"  mechanism: {found.mechanism}, unit: {found.unit}",
        f"  protected: {found.protected}",
        *([f"  records: {found.records}"] if found.records else []),
        *([f"  in plain words: {found.odds}"] if found.odds else []),
        f"  spent {found.spent:.6g} of {found.budget:g} in {found.releases} releases; "
        f"{left_text(found.left, found.budget)} left",
        f"  epsilon of the next releases: {ahead}",
        f"  budget for the whole update: {whole}",
        f"  noise of the next release: {noise}",
        f"  fixed: {found.fixed}",
        *warnings,
    ]
