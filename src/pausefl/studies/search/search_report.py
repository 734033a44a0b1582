"""The report of a search: its Pareto front as points, what each key does, all trials as lines, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from pausefl.report.charts import Axes
from pausefl.report.policy_looks import STANDINGS
from pausefl.report.policy_summary import epsilon_text
from pausefl.report.report_files import NOTHING, Figure, Report, ReportSection, Table
from pausefl.report.trial_charts import parallel_chart, point_chart
from pausefl.studies.search.aim import Aim, Found, Quantity, objectives, pareto_front
from pausefl.studies.search.search import SearchResult, TrialResult
from pausefl.studies.search.space import Listed, Range, Space, Value

BEST, FRONT, BEHIND, MISSED, STOPPED = STANDINGS
_MOST_ROWS = 50

_READ_FRONT = (
    "Each point is a trial. A trial is on the front if no other one is at least as good in everything and better in "
    "something. The dashed line is the front of the two numbers of its chart alone. Point at a trial to see its values."
)
_READ_KEYS = (
    "Each point is a trial: the value that it had, and what came of it. Other keys differ between the points, too."
)
_READ_LINES = (
    "Each line is a trial. It crosses every axis at its value: the smallest value of each axis is at the bottom, the "
    "largest at the top."
)


def search_report(result: SearchResult, space: Space, title: str) -> Report:
    """Return the report of a search in which at least one trial was played."""
    standing = standings(result)
    shown = [trial for trial in result.trials if trial.found is not None]
    places = list(STANDINGS)
    shown.sort(key=lambda trial: places.index(standing[trial.number]), reverse=True)  # the best are drawn last, on top
    names = [name for name in places if name in standing.values()]
    sections = [
        *_fronts(result, standing, shown, names),
        *_keys(result, space, standing, shown, names),
        *_lines(result, space, standing, shown, names),
        ReportSection("trials", "The trials", _reading(result), table=_table(result, standing)),
    ]
    ended = f"{len(result.finished)} of {len(result.trials)} trials played to their end"
    best = [] if result.best is None else [f"best: trial {result.best.number} ({_said(result, result.best)})"]
    footer = "Numbers are means over the seeds of a trial; leakage is the most that any client spent in any seed."
    return Report(title, names, sections, [f"aim: {result.aim}", *best, ended], footer=footer)


def standings(result: SearchResult) -> dict[int, str]:
    """Return where each trial that was played stands, by its number."""
    front = {trial.number for trial in result.front}
    best = None if result.best is None else result.best.number
    told = {}
    for trial in result.trials:
        if trial.found is not None:
            met = result.aim.is_met(trial.found)
            ended = BEST if trial.number == best else FRONT if trial.number in front else BEHIND if met else MISSED
            told[trial.number] = STOPPED if trial.state == "stopped early" else ended
    return told


def columns(aim: Aim) -> dict[str, str]:
    """Return the titles of a trial's numbers, in the order of ``numbers``."""
    clock = "clock, s" if aim.reach is None else f"s to {aim.reach:g} %"
    return {"seconds": clock, "leakage": "max leak", "accuracy": "final %", "rounds": "rounds"}


def numbers(found: Found | None, nothing: str) -> list[str]:
    """Return the numbers of a trial as cells."""
    if found is None:
        return [nothing] * 4
    return [
        nothing if found.seconds is None else f"{found.seconds:.1f}",
        "no bound" if found.leakage is None else epsilon_text(found.leakage),
        nothing if found.accuracy is None else f"{found.accuracy:.1f}",
        str(found.rounds),
    ]


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return keys without their sections where they are told apart all the same.

    >>> short_keys(["selection.alpha", "privacy.width"])
    {'selection.alpha': 'alpha', 'privacy.width': 'width'}
    """
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)}


def value_text(value: Value) -> str:
    """Return a value for a table; the whole number is in the run's file."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _reading(result: SearchResult) -> str:
    if result.best is None:
        return f"No trial has met the aim: {result.aim}."
    kept = "best.toml has the settings of the best trial, and the folder front those of each one on the front."
    return f"The aim was: {result.aim}. {kept}"


def _table(result: SearchResult, standing: dict[int, str]) -> Table:
    places = list(STANDINGS)
    played = sorted((t for t in result.trials if t.found), key=lambda t: (places.index(standing[t.number]), t.number))
    short = short_keys(result.keys)
    head = ["result", "trial", *short.values(), *columns(result.aim).values(), "stopped because of"]
    rows = [
        [standing[t.number], str(t.number), *(value_text(t.values[key]) for key in result.keys),
         *numbers(t.found, NOTHING), t.why or NOTHING]
        for t in played[:_MOST_ROWS]
    ]  # fmt: skip
    kept = [i for i in range(len(head)) if any(row[i] != NOTHING for row in rows)]
    more = f"The first {_MOST_ROWS} of {len(played)} trials are shown." if len(played) > _MOST_ROWS else ""
    return Table([head[i] for i in kept], [[row[i] for i in kept] for row in rows], reading=more)


def _number(found: Found, name: Quantity) -> float | None:
    return {"seconds": found.seconds, "leakage": found.leakage, "accuracy": found.accuracy}[name]


def _axis(aim: Aim, name: Quantity) -> str:
    clock = "seconds" if aim.reach is None else f"seconds to {aim.reach:g} %"
    return {"seconds": clock, "leakage": "largest leakage", "accuracy": "final accuracy, %"}[name]


def _said(result: SearchResult, trial: TrialResult) -> str:
    short = short_keys(result.keys)
    return ", ".join(f"{short[key]}={value_text(trial.values[key])}" for key in result.keys)


def _points(
    result: SearchResult, shown: Sequence[TrialResult], standing: dict[int, str], x: Quantity, y: Quantity
) -> list[dict[str, Any]]:
    rows = []
    for trial in shown:
        across, up = (_number(trial.found, name) if trial.found else None for name in (x, y))
        if across is not None and up is not None:
            rows.append({"run": standing[trial.number], "x": across, "y": up, "trial": str(trial.number),
                         "said": _said(result, trial), "edge": 0})  # fmt: skip
    counted = [row for row in rows if row["run"] in (BEST, FRONT, BEHIND)]
    found = [trial.found for row in counted for trial in shown if str(trial.number) == row["trial"] and trial.found]
    for place in pareto_front([objectives(one, (x, y)) for one in found]):
        counted[place]["edge"] = 1
    return rows


def _fronts(
    result: SearchResult, standing: dict[int, str], shown: Sequence[TrialResult], names: Sequence[str]
) -> list[ReportSection]:
    pairs: list[tuple[Quantity, Quantity]] = [("seconds", "accuracy"), ("leakage", "accuracy"), ("seconds", "leakage")]
    figures = []
    for x, y in pairs:
        rows = _points(result, shown, standing, x, y)
        if rows and x in result.quantities and y in result.quantities:
            axes = Axes(_axis(result.aim, x), _axis(result.aim, y))
            figures.append(_figure(f"front-{x}-{y}", f"{axes.y.capitalize()} against {axes.x}", rows, names, axes))
    if not figures:
        return []
    return [ReportSection("front", "Pareto front", _READ_FRONT, figures, columns=min(3, max(2, len(figures))))]


def _keys(
    result: SearchResult, space: Space, standing: dict[int, str], shown: Sequence[TrialResult], names: Sequence[str]
) -> list[ReportSection]:
    """Return a chart per key, of the number that the aim is about."""
    wanted: Quantity = "accuracy" if result.aim.kind != "seconds" and "accuracy" in result.quantities else "seconds"
    figures = []
    for place, choices in enumerate(space):
        rows = [
            {"run": standing[t.number], "x": _drawn(choices, t.values[choices.key]), "y": up, "trial": str(t.number),
             "said": _said(result, t), "edge": 0}
            for t in shown
            if t.found and t.state == "finished" and (up := _number(t.found, wanted)) is not None
        ]  # fmt: skip
        if rows:
            log = isinstance(choices, Range) and choices.log
            axes = Axes(choices.key, _axis(result.aim, wanted), x_scale="log" if log else "linear")
            if isinstance(choices, Listed) and isinstance(rows[0]["x"], str):
                rows.sort(key=lambda row: choices.values.index(row["x"]))
            figures.append(_figure(f"key-{place}", choices.key, rows, names, axes))
    return [ReportSection("keys", "What each key does", _READ_KEYS, figures)] if figures else []


def _drawn(choices: Listed | Range, value: Value) -> Value:
    """Return where a value is drawn: a list of words has a place for each."""
    if isinstance(choices, Range):
        return float(value)
    return str(value)


def _lines(
    result: SearchResult, space: Space, standing: dict[int, str], shown: Sequence[TrialResult], names: Sequence[str]
) -> list[ReportSection]:
    """Return all trials as lines across the keys and the numbers."""
    if len(space) < 2 or len(shown) < 2:
        return []
    short = short_keys(result.keys)
    rows: list[dict[str, Any]] = []
    axes = []
    for choices in space:
        axes.append(short[choices.key])
        for trial in shown:
            value = trial.values[choices.key]
            rows.append(_crossing(standing, trial, axes[-1], _place(choices, value), value_text(value)))
    for name in result.quantities:
        every = {t.number: n for t in shown if t.found and (n := _number(t.found, name)) is not None}
        if every:
            axes.append(_axis(result.aim, name))
            low, high = min(every.values()), max(every.values())
            for trial in shown:
                if trial.number in every:
                    number = every[trial.number]
                    at = (number - low) / (high - low) if high > low else 0.5
                    rows.append(_crossing(standing, trial, axes[-1], at, f"{number:.4g}"))
    draw = partial(parallel_chart, rows, list(names), axes)
    figure = Figure("lines", "All trials", draw, fluid=True)
    return [ReportSection("lines", "Keys and results together", _READ_LINES, [figure], columns=1)]


def _crossing(standing: dict[int, str], trial: TrialResult, axis: str, at: float, text: str) -> dict[str, Any]:
    return {"run": standing[trial.number], "trial": str(trial.number), "axis": axis, "at": at, "text": text}


def _place(choices: Listed | Range, value: Value) -> float:
    """Return where on its axis a value lies, from 0 to 1."""
    if isinstance(choices, Listed):
        return choices.values.index(str(value)) / max(1, len(choices.values) - 1)
    low, high, at = (math.log(v) if choices.log else v for v in (choices.low, choices.high, float(value)))
    return (at - low) / (high - low)


def _figure(name: str, title: str, rows: Sequence[Any], names: Sequence[str], axes: Axes) -> Figure:
    return Figure(name, title, partial(point_chart, rows, list(names), axes), fluid=True)
