"""One run over its rounds, simulated or in Flower, as sections of a page: how each chart is read, and its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pausefl.report import progress_charts as draw
from pausefl.report.report_files import NOTHING, Figure, Report, ReportSection, Table
from pausefl.report.series import Row
from pausefl.runs.progress.alarms import NEAR_END
from pausefl.runs.progress.progress import QUANTILES, Progress
from pausefl.types import FloatArray

SLOWEST = 20
"""How many clients the chart of latencies shows."""


@dataclass(frozen=True, slots=True)
class ProgressChart:
    """A chart of a run, what it is called, how it is read, and where its rows come from."""

    name: str
    title: str
    caption: str
    reading: str
    draw: Callable[..., Any]
    rows: Callable[[Progress], list[Row]]
    nothing: str


def progress_charts(progress: Progress) -> tuple[ProgressChart, ...]:
    """Return the six charts of a run; those of clients depend on whether there are few enough for a line each."""
    few, clock = progress.lines, ", on the virtual clock" if progress.head.kind == "simulator" else ""
    return (
        ProgressChart(
            "run-accuracy", "Accuracy", "Accuracy over rounds", "Higher is better.",
            draw.accuracy_chart, accuracy_rows, "No accuracy was measured.",
        ),
        ProgressChart(
            "run-seconds", "Time per round", "Seconds of each round",
            f"This is how long each round took{clock}. Where a point stands for several rounds, the line is their "
            "mean, "
            "and the shade reaches up to the longest of them.",
            draw.seconds_chart, seconds_rows, "No round was timed.",
        ),
        ProgressChart(
            "run-budgets", "Budget left", "Budget of each client over rounds" if few else "Budgets over rounds",
            ("Each line is a client. " if few else "The lines are the clients with the least, the median and the most "
            "budget left. ")
            + "Every update that a client sends costs some of its budget. Points are red below "
            f"{100 * NEAR_END:g} %.",
            draw.budget_chart, budget_rows, "This run has no budget.",
        ),
        ProgressChart(
            "run-latency", "How long clients take", "Answers of each client",
            f"These are at most the {SLOWEST} slowest clients, the slowest first. The dot is the mean. The bar reaches "
            "from the fastest answer to the slowest. The red stroke shows the latest answers.",
            draw.latency_chart, latency_rows, "No client has answered yet.",
        ),
        ProgressChart(
            "run-faults", "What went wrong", "Requests without a useful answer",
            "The bars count the requests of a round that had no answer, came too late, or were refused by the client.",
            draw.faults_chart, fault_rows, "Nothing has gone wrong. Every client that was asked has answered.",
        ),
        ProgressChart(
            "run-picks", "Who took part when", "Rounds of each client" if few else "Clients that took part",
            "A darker field means that the client took part in more of these rounds." if few
            else "The line shows how many of the clients have taken part at least once.",
            draw.picks_chart if few else draw.reach_chart, pick_rows if few else reach_rows, "No round was played.",
        ),
    )  # fmt: skip


def accuracy_rows(progress: Progress) -> list[Row]:
    """Return the mean accuracy of every point that has one."""
    points = progress.points
    return [
        {"x": end, "y": total / count}
        for end, total, count in zip(points.ends.tolist(), points["scores"], points["scored"], strict=True)
        if count
    ]


def seconds_rows(progress: Progress) -> list[Row]:
    """Return mean and longest time of the rounds of every point."""
    points = progress.points
    columns = zip(points.ends.tolist(), points["took"] / points["rounds"], points["longest"], strict=True)
    return [{"x": end, "y": mean, "longest": longest} for end, mean, longest in columns] if progress.clock else []


def budget_rows(progress: Progress) -> list[Row]:
    """Return the share of its budget (percent) that each client had, or with many clients some of them."""
    if not progress.head.bounded:
        return []
    points, clients = progress.points, progress.clients
    said = {"least": "the client with the least left", "middle": "the median client",
            "most": "the client with the most left"}  # fmt: skip
    columns = (
        {clients.names[row]: f"left {row}" for row in clients.ordered().tolist()}
        if progress.lines
        else {said[name]: name for name in QUANTILES}
    )
    return [
        {"x": end, "y": 100.0 * share, "client": name, "near": int(share < NEAR_END)}
        for name, column in columns.items()
        for end, share in zip(points.ends.tolist(), points[column].tolist(), strict=True)
        if not math.isnan(share)
    ]


def latency_rows(progress: Progress) -> list[Row]:
    """Return the answers of the slowest clients, the slowest first."""
    clients = progress.clients
    return [
        {"client": clients.names[row], "place": place, "low": float(clients.fastest[row]),
         "y": float(clients.total[row] / clients.answered[row]), "recent": float(clients.recent[row]),
         "high": float(clients.slowest[row])}
        for place, row in enumerate(slowest(progress, SLOWEST))
    ]  # fmt: skip


def slowest(progress: Progress, count: int) -> list[int]:
    """Return the rows of the clients that have been slowest of late."""
    recent = progress.clients.recent[: len(progress.clients)]
    known = np.flatnonzero(~np.isnan(recent))
    return [int(row) for row in known[np.argsort(-recent[known], kind="stable")][:count]]


def fault_rows(progress: Progress) -> list[Row]:
    """Return what went wrong per round, for every point and kind; nothing if nothing did."""
    points = progress.points
    columns = {kind: points[kind] for kind in draw.FAULTS}
    if not any(column.any() for column in columns.values()):
        return []
    rows: list[Row] = []
    below = np.zeros(len(points))
    for kind, column in columns.items():
        above = below + column / points["rounds"]
        rows += [
            {"x": start - 0.5, "x2": end + 0.5, "kind": kind, "low": low, "high": high, "y": high - low}
            for start, end, low, high in zip(*_spans(progress), below.tolist(), above.tolist(), strict=True)
        ]
        below = above
    return rows


def pick_rows(progress: Progress) -> list[Row]:
    """Return in how many rounds (percent) of every point each client took part."""
    points, clients = progress.points, progress.clients
    rows: list[Row] = []
    for place, row in enumerate(clients.ordered().tolist()):
        share: FloatArray = 100.0 * points[f"picks {row}"] / points["rounds"]
        rows += [
            {"x": start - 0.5, "x2": end + 0.5, "client": clients.names[row], "place": place, "y": y}
            for start, end, y in zip(*_spans(progress), share.tolist(), strict=True)
        ]
    return rows


def reach_rows(progress: Progress) -> list[Row]:
    """Return how many of the clients (percent) had taken part by the end of every point."""
    points = progress.points
    return [{"x": end, "y": seen} for end, seen in zip(points.ends.tolist(), points["seen"].tolist(), strict=True)]


def _spans(progress: Progress) -> tuple[list[int], list[int]]:
    ends = progress.points.ends.tolist()
    return [1, *(end + 1 for end in ends[:-1])][: len(ends)], ends


def progress_sections(progress: Progress, skip: Sequence[str] = ()) -> list[ReportSection]:
    """Return a section per chart; one without rows says why in its sentence."""
    sections = []
    for chart in progress_charts(progress):
        rows = chart.rows(progress)
        figure = Figure(chart.name, chart.caption, partial(_drawn, chart, rows), fluid=True)
        if chart.name not in skip:
            sections.append(
                ReportSection(
                    chart.name, chart.title, chart.reading if rows else chart.nothing, [figure] if rows else []
                )
            )
    return sections


def _drawn(chart: ProgressChart, rows: list[Row], *, legend: bool = True, **more: Any) -> Any:
    """Draw a chart; its colours are not those of policies, so the page's legend is none of its own."""
    return chart.draw(rows, **more)


def progress_report(progress: Progress, title: str) -> Report:
    """Return the report of one Flower run."""
    head, clients = progress.head, progress.clients
    left, wrong = progress.left(), [int(progress.points[kind].sum()) for kind in draw.FAULTS]
    row = [
        head.title, rounds_text(progress), _number(progress.accuracy), _number(progress.best_accuracy),
        _number(progress.clock), str(int(clients.asked.sum())), *map(str, wrong),
        _number(100.0 * float(left.min())) if len(left) else NOTHING,
    ]  # fmt: skip
    columns = ("policy", "rounds", "accuracy, %", "best, %", "training, s", "requests", "no answer", "late", "refused",
               "least budget left, %")  # fmt: skip
    glance = ReportSection(
        "glance", "At a glance",
        "The numbers are those after the last round. Accuracy is the mean score of the last ten rounds. Requests are "
        "counted over all rounds.",
        table=Table(columns, [row]),
    )  # fmt: skip
    return Report(
        title, [head.title], [glance, *progress_sections(progress)],
        [f"{head.kind} run", f"{head.clients:,} clients", rounds_text(progress) + " rounds"],
        [("Budgets", "what is left is the server's estimate. Only a client's own ledger knows what was spent")],
        footer="If there are many rounds, one point stands for several of them.",
    )  # fmt: skip


def rounds_text(progress: Progress) -> str:
    """Say how many rounds were played, and of how many if that is known and they are not all.

    >>> from pausefl.runs.progress.round_facts import RunHead
    >>> rounds_text(Progress(RunHead(kind="Flower", title="pause", clients=3, planned=12)))
    '0 of 12'
    """
    planned = progress.head.planned
    return f"{progress.rounds:,}" + ("" if planned in (None, progress.rounds) else f" of {planned:,}")


def _number(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.1f}"
