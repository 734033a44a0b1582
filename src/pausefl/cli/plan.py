"""``pausefl plan``: how to spend a budget, and whether a model can learn under it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Literal

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import PRIVACY, AsJson

if TYPE_CHECKING:
    from pausefl.privacy import Mechanism, ReleasePlan


@app.command(rich_help_panel=PRIVACY)
def plan(
    clients: Annotated[int, typer.Option(min=1, help="How many clients there are.")],
    per_round: Annotated[int, typer.Option(min=1, help="How many of them take part in a round.")],
    budget: Annotated[float, typer.Option(help="How much each client may leak in its whole life (epsilon).")],
    dimension: Annotated[int, typer.Option(min=1, help="How many parameters the model has.")],
    mechanism: Annotated[
        str, typer.Option(help="The mechanism that adds noise to the updates: privunit, gaussian or laplace.")
    ] = "privunit",
    unit: Annotated[
        Literal["update", "coordinate"],
        typer.Option(
            click_type=click.Choice(["update", "coordinate"]),
            help="What the budget protects: the whole update, or each of its numbers alone.",
        ),
    ] = "update",
    delta: Annotated[float, typer.Option(help="The delta of each release, for the gaussian mechanism.")] = 1e-5,
    examples: Annotated[int | None, typer.Option(min=1, help="How many examples a client has, if known.")] = None,
    accuracy: Annotated[
        float, typer.Option(help="The accuracy that the task reaches without noise, in percent.")
    ] = 95.0,
    as_json: AsJson = False,
) -> None:
    """Propose how to spend a budget, and say whether a model can learn under it.

    A release is one update that a client sends. The plan says how many releases each client makes, with which epsilon,
    and how large a step the server takes.
    """
    from pausefl.privacy import suggest

    noised = _mechanism(mechanism, unit, delta)
    found = suggest(
        clients, per_round, dimension, budget, mechanism=noised, examples=examples, accuracy=accuracy
    )  # fmt: skip
    if as_json:
        times = 1 if noised.composition == "zcdp" else found.releases  # where epsilons are added up, so are deltas
        promise = replace(noised.guarantee, delta=noised.guarantee.delta * times).sentence(budget, dimension)
        typer.echo(json.dumps({"guarantee": promise, **asdict(found)}, indent=2))
        return
    for line in _lines(found, noised, clients, budget, dimension):
        typer.echo(line)


def _mechanism(name: str, unit: str, delta: float) -> Mechanism:
    from pausefl.errors import require
    from pausefl.privacy import MECHANISMS

    require(name in MECHANISMS, "--mechanism", name, f"one of {', '.join(MECHANISMS)}", "privunit suits most tasks")
    made: Mechanism = MECHANISMS[name].from_settings({"unit": unit, "clip": 1.0, "width": 1.0, "delta": delta})
    found = made.guarantee.unit
    require(
        found == unit,
        "--unit",
        unit,
        f"{found!r}, which is what {name} protects",
        f"pass --unit {found}, or another --mechanism",
    )
    return made


def _lines(found: ReleasePlan, noised: Mechanism, clients: int, budget: float, dimension: int) -> list[str]:
    often = "once" if found.releases == 1 else f"{found.releases} times"
    said = [
        f"Each client answers {often}, at epsilon {found.epsilon:.4g} each time.  That makes {found.rounds} rounds.",
        f"The noise of one answer is {found.per_release:.3g} times as long as the update in it.  Averaged over a "
        "round, it "
        f"is {found.per_round:.3g} times as long, and averaged over the whole run {found.noise_to_signal:.3g} times.",
        f"A model of this size bears noise of about {found.bearable:.3g} times the update, so it {found.verdict}"
        + (f", with a step of {found.step:.2g}." if found.verdict == "can learn" else " under this plan."),
    ]
    if found.verdict == "cannot learn":
        said += [f"What would help: {_helps(found)}."]
    if noised.guarantee.unit == "coordinate":
        whole = noised.guarantee.whole_update(budget, dimension)
        said += [f"Beware: the budget is for each single parameter.  For the whole update, the budget is {whole:.6g}."]
    return said


def _helps(found: ReleasePlan) -> str:
    ways = [
        f"{found.needed_clients} clients" if found.needed_clients else "",
        f"a budget of {found.needed_budget:g}" if found.needed_budget else "",
        f"{found.needed_dimension} parameters on good features" if found.needed_dimension else "",
    ]
    return "; or ".join([*filter(None, ways), "protecting each single record instead of all data of a client"])
