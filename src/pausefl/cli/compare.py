"""``pausefl compare``: policies side by side.

``run``, ``study`` and ``demo`` end with the same table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import click
import typer
from rich.table import Table

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson, Folders, Percent, terminal
from pausefl.errors import ConfigError

if TYPE_CHECKING:
    from pausefl.report.paired_differences import PairedDifference
    from pausefl.report.policy_summary import Groups, PolicySummary
    from pausefl.runs.run_data import RunData

_FALL, _SPENT = 15.0, 0.8
"""Points of accuracy lost since the best round, and the share of a budget spent, that are worth a word."""


@app.command(rich_help_panel=TRAINING)
def compare(
    folders: Folders,
    target: Annotated[
        list[float] | None,
        typer.Option(
            click_type=Percent(), help="Measure the time to this accuracy (percent). You can repeat this option."
        ),
    ] = None,
    form: Annotated[
        Literal["table", "csv", "latex", "json"] | None,
        typer.Option(
            "--format",
            click_type=click.Choice(["table", "csv", "latex", "json"]),
            help="How to print the result. The default is a table for the terminal.",
        ),
    ] = None,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired", help="Also compare all policies with one of them, seed by seed, with intervals and tests."
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(help="The policy that --paired compares with. The default is the first one in the table."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the accuracy, time and leakage of each policy, one line per policy.

    Accuracies, the clock and the share of fast clients are means over the policy's seeds ± the standard deviation. The
    time to a target is the median, and the leakage is the largest. With --paired, CSV has one line for each policy and
    measure instead.
    """
    from pausefl.report.policy_summary import by_policy, summarise
    from pausefl.runs.read_folder import read_runs

    if as_json and form not in (None, "json"):
        raise ConfigError(f"--format is {form!r}, but --json asks for json; leave one of them out")
    if against is not None and not paired:
        raise ConfigError(f"--against is {against!r}, but has no effect without --paired; add --paired")
    form = "json" if as_json else form or "table"
    runs = read_runs(folders)
    groups = by_policy(runs)
    policies = summarise(groups, target)
    differences = _differences(groups, policies, against) if paired else None
    if form == "table":
        show_runs(runs, target)
        if differences:
            _show_differences(differences)
    else:
        typer.echo(_printed(form, policies, target, differences), nl=False)


def _differences(groups: Groups, policies: Sequence[PolicySummary], against: str | None) -> list[PairedDifference]:
    """Compare all policies with one of them; refuse if there is nothing to compare."""
    from pausefl.report.paired_differences import paired_differences

    reference = against or policies[0].name
    found = paired_differences(groups, reference, list(policies[0].time_to))
    if not found:
        raise ConfigError(
            f"--paired finds no policy that shares a seed with {reference}; pass folders of several policies with the "
            "same seeds"
        )
    return found


def _printed(
    form: Literal["csv", "latex", "json"],
    policies: Sequence[PolicySummary],
    targets: Sequence[float] | None,
    differences: Sequence[PairedDifference] | None,
) -> str:
    """Return what another program reads."""
    from pausefl.report.table_formats import paired_csv, paired_latex, summary_csv, summary_latex

    if form == "csv":
        return summary_csv(policies) if differences is None else paired_csv(differences)
    if form == "latex":
        return summary_latex(policies, targets) + ("" if differences is None else "\n" + paired_latex(differences))
    lines = [asdict(policy) for policy in policies]
    whole = lines if differences is None else {"policies": lines, "paired": [asdict(line) for line in differences]}
    return json.dumps(whole, indent=1) + "\n"


def show_runs(runs: Sequence[RunData], targets: Sequence[float] | None = None) -> None:
    """Print runs, a line per policy."""
    from pausefl.report.policy_summary import at_a_glance, by_policy, cell, summarise
    from pausefl.report.run_report import guarantees
    from pausefl.report.time_to_target import EXPLAINED

    groups = by_policy(runs)
    policies = summarise(groups, targets)
    out = terminal()
    head = ["policy", "seeds", "rounds", "clock s", "final %", "best %", "max leak", "fast half %"]
    rows = [at_a_glance(p, "-") for p in policies]
    if any(p.wasted for p in policies):
        head.append("wasted %")
        rows = [[*row, cell(p.wasted, "-")] for row, p in zip(rows, policies, strict=True)]
    out.print(_table(head, rows))
    shown = list(policies[0].time_to)[-max(1, (out.width - 20) // 20) :]
    if shown:
        times = [[p.name, *(str(p.time_to[target]) for target in shown)] for p in policies]
        out.print(_table(["policy", *(f"s to {target:g} %" for target in shown)], times))
    out.print(
        "final %: mean of the last ten rounds. max leak: largest epsilon spent by a client. fast half %: share of "
        "picks that went to the faster half of the clients. ±: deviation over seeds."
    )
    if shown and any(p.seeds > 1 for p in policies):
        out.print(EXPLAINED)
    if any(p.wasted for p in policies):
        out.print("wasted %: the share of releases that clients paid for and nobody used.")
    for p in policies:
        budget = groups[p.name][0].settings.privacy.budget
        spent = (p.max_leakage or 0.0) > _SPENT * budget
        if spent and p.accuracy and p.best_accuracy and p.best_accuracy.mean - p.accuracy.mean > _FALL:
            out.print(
                f"{p.name} fell from {p.best_accuracy.mean:.1f} to {p.accuracy.mean:.1f} %. A client has spent "
                f"{p.max_leakage:.1f} of its budget of {budget:g}, and late releases are mostly noise. "
                "Stop earlier, or allow a larger budget."
            )
    said = guarantees(groups)
    for who, text in said:
        typer.echo(f"guarantee: {text}" if len(said) == 1 else f"guarantee of {who}: {text}")


def _show_differences(differences: Sequence[PairedDifference]) -> None:
    from pausefl.report.paired_differences import METHOD
    from pausefl.report.table_formats import PAIRED, paired_cells

    out = terminal()
    out.print(f"\nDifferences from {differences[0].reference}, seed by seed:")
    out.print(_table(PAIRED, [paired_cells(line) for line in differences]))
    out.print(METHOD)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from pausefl.report.table_formats import TEXTS

    table = Table()
    for name in head:
        table.add_column(name, justify="left" if name in TEXTS else "right", no_wrap=name != "policy", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
