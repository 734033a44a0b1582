"""The charts of training runs: their sections, how each chart is read, and what is left out because data is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from pausefl.report.charts import Axes, bar_chart
from pausefl.report.policy_summary import Groups
from pausefl.report.report_files import Figure, ReportSection, curve_figure
from pausefl.report.series import Row, curve, latency_histogram, participation, ranked
from pausefl.runs.run_data import SMOOTH, RunData

_X = {"seconds": ("time, seconds of the virtual clock", "over time"), "round": ("round", "over rounds")}
_CLIENTS = "share of clients, %"
_TERMS = {
    "speed": "speed: the slowest member's",
    "generalization": "generalization: little-used data",
    "privacy": "privacy: budget left",
    "clusters": "clusters: congestion",
    "phi": "a function of your own",
}


def run_sections(groups: Groups, references: Groups) -> list[ReportSection]:
    """Return everything there is to show of these runs; a section without charts says why in its sentence.

    ``references`` are curves of others, shown where accuracy and leakage are.
    """
    shown = {**groups, **references}
    budgets = {run.settings.privacy.budget for runs in groups.values() for run in runs if run.settings.privacy.enabled}
    first = [_accuracy(shown), _leakage(shown, budgets.pop() if len(budgets) == 1 else None)]
    return first + [make(groups) for make in (_picks, _latency, _budget, _fairness, _terms)]


def _accuracy(groups: Groups) -> ReportSection:
    found = [
        figure for x in _X for figure in _curve(groups, x, "accuracy", "accuracy", "Accuracy {}", "test accuracy, %")
    ]
    reading = (
        f"Higher and further left is better. Accuracy is the mean of the last {SMOOTH} rounds. "
        "Time adds up what the slowest member of each round took."
    )
    return ReportSection("accuracy", "Accuracy", reading if found else "These runs train no model.", found)


def _leakage(groups: Groups, limit: float | None) -> ReportSection:
    who = {"max": "Most exposed client, {}", "p90": "90th percentile, {}", "median": "Median client, {}"}
    found = [
        figure
        for x in _X
        for level, title in who.items()
        for figure in _curve(
            groups, x, f"{level}_leakage", f"leakage-{level}", title, "epsilon spent so far", zero=True, limit=limit
        )
    ]
    reading = (
        "Lower is better. Every pick of a client spends some of its epsilon, each time a little less. All picks "
        "together "
        "never spend more than the budget. The top of the page says what one epsilon covers."
    )
    if not any(run.config is not None and run.config.learning.enabled for runs in groups.values() for run in runs):
        reading += " Nothing was released here. This is what training would have spent."
    return ReportSection(
        "leakage", "Leakage", reading if found else "No run here bounds what it leaks.", found, columns=3
    )


def _picks(groups: Groups) -> ReportSection:
    found = []
    for name, words, by, x in (
        ("speed", "speed", RunData.expected_latency, "clients, from the fastest (0 %) to the slowest (100 %)"),
        ("size", "amount of data", RunData.sizes, "clients, from the least data (0 %) to the most (100 %)"),
    ):
        rows = [row for line in _lines(groups, partial(participation, by=by)).values() for row in line]
        if rows:
            draw = partial(bar_chart, rows, list(groups), x, "took part in % of rounds", "average client")
            found.append(Figure(f"picks-{name}", f"Who took part, by {words}", draw, fluid=False))
    reading = (
        "The bars show in how many rounds (percent) clients took part. If the bars on the left are above the dotted "
        "average, the policy favours fast clients, or clients with little data. Every panel has its own scale."
    )
    return ReportSection(
        "picks",
        "Who took part",
        reading if found else "These runs do not say how fast their clients are, or how much data they have.",
        found,
    )


def _latency(groups: Groups) -> ReportSection:
    rows = latency_histogram(groups)
    draw = partial(bar_chart, rows, list(groups), "round latency, s", "% of rounds", "median", across="x")
    found = [Figure("latency", "How long a round takes", draw, fluid=False)] if rows else []
    reading = (
        "The bars show the share of rounds (percent) that took so long. The dotted line is the median. Left is faster."
    )
    return ReportSection("latency", "Round latency", reading if found else "No round has been played.", found)


def _budget(groups: Groups) -> ReportSection:
    axes = Axes(f"{_CLIENTS}, from the most to the least exposed", "epsilon left", zero=True)
    lines = _lines(groups, partial(ranked, of=RunData.budget_left))
    found = [curve_figure("budget", "Budget left at the end", lines, axes)] if lines else []
    reading = (
        "The curve shows the unspent epsilon of each client after the last round, with the clients in order. A level "
        "line "
        "means that all clients paid the same. A line near 0 on the left means that some clients have almost nothing "
        "left."
    )
    return ReportSection("budget", "Remaining budget", reading if found else "No run here has a budget.", found)


def _fairness(groups: Groups) -> ReportSection:
    axes = Axes(f"{_CLIENTS}, from the worst to the best served", "accuracy on own data, %")
    lines = _lines(groups, partial(ranked, of=RunData.client_accuracy))
    found = [curve_figure("fairness", "Accuracy per client", lines, axes)] if lines else []
    reading = (
        "The curve shows the accuracy of the final model on each client's own data, with the clients in order. A high "
        "and "
        "level line is fair. If a line starts low on the left, the model is bad for some clients."
    )
    nothing = "No finished run knows its clients' accuracies."
    return ReportSection("fairness", "Fairness", reading if found else nothing, found)


def _terms(groups: Groups) -> ReportSection:
    present = {term for runs in groups.values() for record in runs[0].records for term in record.get("terms") or {}}
    found = [
        figure
        for term in [*_TERMS, *sorted(present - set(_TERMS))]
        for figure in _curve(
            groups, "round", f"terms.{term}", f"term-{term}", _TERMS.get(term, term).capitalize(),
            "contribution to the reward",
        )
        if term in present
    ]  # fmt: skip
    reading = (
        f"The curves show what each term of the reward gave to the chosen set, as the mean of {SMOOTH} rounds. PAUSE "
        "maximises the sum of the terms, and SA-PAUSE nearly does. The others ignore the sum, and show what that costs."
    )
    return ReportSection(
        "terms", "What drove the choice", reading if found else "No round has a reward.", found, columns=3
    )


def _curve(
    groups: Groups, x: str, y: str, name: str, title: str, axis: str, *, zero: bool = False, limit: float | None = None
) -> list[Figure]:
    """Return the chart of y against x, if any run has such numbers."""
    lines = _lines(groups, partial(curve, x=x, y=y))
    if not lines:
        return []
    words, over = _X[x]
    wide = y.startswith("terms") and max(abs(row["y"]) for line in lines.values() for row in line) > 50
    scale: Literal["symlog", "linear"] = "symlog" if wide else "linear"
    return [curve_figure(f"{name}-{x}", title.format(over), lines, Axes(words, axis, zero, scale, limit))]


def _lines(groups: Groups, rows_of: Callable[[Sequence[RunData]], list[Row]]) -> dict[str, list[Row]]:
    """Return the rows of every policy, or nothing if nobody has any; with one seed each, a range says nothing."""
    lines = {name: rows_of(runs) for name, runs in groups.items()}
    if all(len(runs) == 1 for runs in groups.values()):
        lines = {
            name: [{key: value for key, value in row.items() if key not in ("low", "high")} for row in line]
            for name, line in lines.items()
        }
    return lines if any(lines.values()) else {}
