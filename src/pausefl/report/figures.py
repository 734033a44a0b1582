"""What a report shows: its sections, how each chart is read, and what is left out for want of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pausefl.report.charts.curves import Axes, curve_chart
from pausefl.report.charts.multiples import multiples_chart
from pausefl.report.series import Row, curve, latency_histogram, participation, ranked, staggered
from pausefl.runs.data import SMOOTH, RunData

Groups = Mapping[str, Sequence[RunData]]
SECONDS, ROUND = "time, seconds of the virtual clock", "round"
CLIENTS = "share of clients, %"
TERMS = {
    "speed": "speed: the slowest member's",
    "generalization": "generalization: little-used data",
    "privacy": "privacy: budget left",
    "clusters": "clusters: congestion",
    "phi": "a function of your own",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with the name of its files; ``draw`` takes width, title and (curves only) legend."""

    name: str
    title: str
    draw: Callable[..., Any]
    fluid: bool
    """Whether the page may ask for the width of its container, and for a chart without a legend."""


@dataclass(frozen=True, slots=True)
class Section:
    """Charts that are read in the same way."""

    name: str
    title: str
    reading: str
    figures: Sequence[Figure] = field(default_factory=tuple)
    columns: int = 2


def sections(groups: Groups, references: Groups | None = None) -> list[Section]:
    """Return everything there is to show of these runs; a section without charts says why in its sentence.

    ``references`` are curves of others, shown where accuracy and leakage are.
    """
    shown = {**groups, **(references or {})}
    budgets = {run.settings.privacy.budget for runs in groups.values() for run in runs if run.settings.privacy.enabled}
    first = [_accuracy(shown), _leakage(shown, budgets.pop() if len(budgets) == 1 else None)]
    return first + [make(groups) for make in (_picks, _latency, _budget, _fairness, _terms)]


def figures(groups: Groups, references: Groups | None = None) -> list[Figure]:
    """Return all charts of these runs."""
    return [figure for section in sections(groups, references) for figure in section.figures]


def _accuracy(groups: Groups) -> Section:
    found = _curves(groups, "accuracy", "accuracy", "Accuracy {over}", "test accuracy, %")
    reading = (
        f"Higher and further left is better. Accuracy is the mean of the last {SMOOTH} rounds; "
        "time is what the slowest member of each round took, added up."
    )
    return Section("accuracy", "Accuracy", reading if found else "These runs train no model.", found)


def _leakage(groups: Groups, limit: float | None) -> Section:
    found = []
    for x in ("seconds", "round"):
        for level, who in (
            ("max", "Most exposed client, {over}"),
            ("p90", "90th percentile, {over}"),
            ("median", "Median client, {over}"),
        ):
            found += _curves(
                groups, f"{level}_leakage", f"leakage-{level}", who, "epsilon spent so far",
                only=x, zero=True, limit=limit,
            )  # fmt: skip
    reading = (
        "Lower is better. Every pick of a client spends some of its epsilon, less each time, and never more than the "
        "budget in all; what one epsilon covers is said at the top."
    )
    if not any(run.config is not None and run.config.learning.enabled for runs in groups.values() for run in runs):
        reading += " Nothing was released here: this is what training would have spent."
    return Section("leakage", "Leakage", reading if found else "No run here bounds what it leaks.", found, columns=3)


def _budget(groups: Groups) -> Section:
    axes = Axes(f"{CLIENTS}, from the most to the least exposed", "epsilon left", zero=True)
    found = _ranked(groups, RunData.budget_left, "budget", "Budget left at the end", axes)
    reading = (
        "Each client's unspent epsilon after the last round, clients in order. A level line means that all "
        "clients paid alike; a line near 0 on the left means that some have next to nothing left to give."
    )
    return Section("budget", "Remaining budget", reading if found else "No run here has a budget.", found)


def _picks(groups: Groups) -> Section:
    found = []
    for name, title, by, x in (
        (
            "picks-speed",
            "Who took part, by speed",
            RunData.expected_latency,
            "clients, from the fastest (0 %) to the slowest (100 %)",
        ),
        (
            "picks-size",
            "Who took part, by amount of data",
            RunData.sizes,
            "clients, from the least data (0 %) to the most (100 %)",
        ),
    ):
        rows = _joined(groups, [participation(runs, by) for runs in groups.values()])
        draw = partial(multiples_chart, rows, list(groups), x, "took part in % of rounds", "average client")
        found += [Figure(name, title, draw, False)] if rows else []
    reading = (
        "In how many rounds (percent) clients took part. Bars above the dotted average on the left: this policy "
        "favours fast clients, or those with little data. Every panel has its own scale."
    )
    return Section("picks", "Who took part", reading if found else "Nothing here tells the clients apart.", found)


def _latency(groups: Groups) -> Section:
    rows = latency_histogram(groups)
    draw = partial(multiples_chart, rows, list(groups), "round latency, s", "% of rounds", "median", across="x")
    found = [Figure("latency", "How long a round takes", draw, False)] if rows else []
    reading = "The share of rounds (percent) that took so long; the dotted line is the median. Left is faster."
    return Section("latency", "Round latency", reading if found else "No round has been played.", found)


def _terms(groups: Groups) -> Section:
    present = {term for runs in groups.values() for r in runs[0].records for term in r.get("terms") or {}}
    found = []
    for term in [*TERMS, *sorted(present - set(TERMS))]:
        if term in present:
            found += _curves(
                groups, f"terms.{term}", f"term-{term}", TERMS.get(term, term).capitalize(),
                "contribution to the reward", only="round",
            )  # fmt: skip
    reading = (
        f"What each term of the reward gave to the chosen set, mean of {SMOOTH} rounds. PAUSE maximises their sum, and "
        "SA-PAUSE nearly; the others do not look at it, and show what that costs."
    )
    return Section("terms", "What drove the choice", reading if found else "No round has a reward.", found, columns=3)


def _fairness(groups: Groups) -> Section:
    axes = Axes(f"{CLIENTS}, from the worst to the best served", "accuracy on own data, %")
    found = _ranked(groups, RunData.client_accuracy, "fairness", "Accuracy per client", axes)
    reading = (
        "The final model's accuracy on each client's own data, clients in order. High and level is fair; a line that "
        "starts low on the left leaves some clients behind."
    )
    return Section(
        "fairness", "Fairness", reading if found else "No finished run knows its clients' accuracies.", found
    )


def _curves(
    groups: Groups, y: str, name: str, title: str, axis: str, only: str | None = None, zero: bool = False,
    limit: float | None = None,
) -> list[Figure]:  # fmt: skip
    found = []
    for x, words, over in (("seconds", SECONDS, "over time"), ("round", ROUND, "over rounds")):
        rows = [] if only not in (None, x) else _joined(groups, [curve(runs, x, y) for runs in groups.values()])
        if rows:
            wide = not zero and max(abs(row["y"]) for row in rows) > 50 and y.startswith("terms")
            axes = Axes(words, axis, zero, "symlog" if wide else "linear", limit)
            draw = partial(curve_chart, staggered(_parted(rows)), list(groups), axes)
            found.append(Figure(f"{name}-{x}", title.replace("{over}", over), draw, True))
    return found


def _ranked(groups: Groups, of: Callable[[RunData], Any], name: str, title: str, axes: Axes) -> list[Figure]:
    rows = _joined(groups, [ranked(runs, of) for runs in groups.values()])
    return (
        [Figure(name, title, partial(curve_chart, staggered(_parted(rows)), list(groups), axes), True)] if rows else []
    )


def _joined(groups: Groups, parts: Sequence[Sequence[Row]]) -> list[Row]:
    """Join the rows of all policies; with one seed each, a range over seeds says nothing."""
    rows = [row for part in parts for row in part]
    if any(len(runs) > 1 for runs in groups.values()):
        return rows
    return [{key: value for key, value in row.items() if key not in ("low", "high")} for row in rows]


def _parted(rows: Sequence[Row]) -> list[list[Row]]:
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["run"], []).append(row)
    return list(parts.values())
