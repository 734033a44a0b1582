"""``pausefl owner``: a data owner's own commands: begin, and see what the terms mean before anything leaves."""

from __future__ import annotations

import json
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
    name="owner", help="Begin as a data owner, and check on which terms you take part.", no_args_is_help=True
)
app.add_typer(commands, rich_help_panel=PRIVACY)


@commands.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where owner.toml and ledger.db are made; on a local disk.")],
    name: Annotated[
        str | None,
        typer.Option(help="How the server knows this data, for life; in a simulation 'client-{partition-id}'."),
    ] = None,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="One file for all clients of a simulation; it protects nothing.")
    ] = False,
    records: Annotated[
        int | None, typer.Option(min=1, help="How many records there are at most; then each of them is protected.")
    ] = None,
    unit: Annotated[
        Literal["record", "update"] | None,
        typer.Option(
            click_type=click.Choice(["record", "update"]),
            help="What is protected: each single record, or the whole update; records if you count them.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Epsilon of all releases together, for life; left out, 1 for records and 8 for updates."),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            help="How often this data takes part at most, for life; left out, 20 for records and 8 for updates."
        ),
    ] = None,
    clip: Annotated[
        float, typer.Option(help="The length that every update, or each record's contribution, is bounded by.")
    ] = 1.0,
    delta: Annotated[
        float | None, typer.Option(help="How likely the promise about a record may fail, for life; left out, 1e-6.")
    ] = None,
) -> None:
    """Make the owner's file and the one ledger of this data.  Do it once: nothing is overwritten.

    With --simulation it makes the one file that all clients of a simulation share.
    """
    from pausefl.owner.owner_init import FILE, LEDGER, SIMULATED_NAME, init_owner, init_simulation

    terms = partial(init_simulation if simulation else init_owner, unit=unit, records=records, budget=budget,
                    releases=releases, clip=clip, delta=delta)  # fmt: skip
    if simulation:
        made_for = terms(folder, name or SIMULATED_NAME)
        file = quote(str(folder.absolute() / FILE))
        typer.echo(f"made {file} for the simulated clients {made_for.name!r}: it protects nothing")
        typer.echo(f'in the client app: app = ClientApp(mods=[PrivateUpdate(owner="{folder.absolute() / FILE}")])')
        return
    if name is None:
        raise ConfigError("name is missing, but is how the server knows this data, for life; pass --name")
    done = "took up" if (folder / LEDGER).exists() else "made"
    owner = terms(folder, name)
    made = (folder, folder / FILE, folder / LEDGER, f"{name}-{date.today().isoformat()}.db")
    where, file, ledger, copy = (quote(str(path)) for path in made)
    typer.echo(f"made {file}: read it, change it if you must, then run: pausefl owner check {file}")
    typer.echo(f"{done} {ledger} (id {owner.ledger_id}): after every run: pausefl ledger backup {ledger} {copy}")
    typer.echo(f"run your node as the same user as this command; for another, let root run: chown -R USER {where}")


@commands.command()
def check(
    file: Annotated[Path, typer.Argument(help="The owner's file.")],
    dimension: Annotated[
        int | None, typer.Option(min=1, help="Numbers in an update; by default those of the last release.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read file and ledger as the client does, charge nothing, and say what the terms mean; exit 2 if it refuses."""
    from pausefl.owner.owner_check import check_owner

    found = check_owner(file, dimension)
    typer.echo(json.dumps(asdict(found), indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: Check) -> list[str]:
    noise = "give --dimension to see how loud it is"
    if found.noise_to_signal is not None:
        noise = f"{found.noise_to_signal:.3g} times as long as the longest update, for {found.dimension} numbers"
    ahead = ", ".join(f"{epsilon:.4g}" for epsilon in found.next) or "none: the budget is gone"
    ahead = f"retired at {found.retired}, for ever" if found.retired else f"epsilon of the next releases: {ahead}"
    whole = "unknown; give --dimension" if found.whole_budget is None else f"{found.whole_budget:g}"
    whole = "none: nothing is promised about all records together" if found.unit == "record" else whole
    return [
        f"{found.name}: {'a simulation' if found.simulation else found.ledger}",
        *([f"  second note: {found.second_note}"] if found.second_note else []),
        f"  schedule: {found.schedule}",
        f"  mechanism: {found.mechanism}, unit: {found.unit}",
        f"  protected: {found.protected}",
        f"  spent {found.spent:.6g} of {found.budget:g} in {found.releases} releases; "
        f"{left_text(found.left, found.budget)} left",
        f"  {ahead}",
        f"  budget for the whole update: {whole}",
        *([] if found.retired else [f"  noise of the next release: {noise}"]),
        f"  fixed: {found.fixed}",
        *(f"  WARNING: {warning}" for warning in found.warnings),
    ]
