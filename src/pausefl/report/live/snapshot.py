"""What the page is sent: one run as it stands now, in sentences, rows of lists and rows of charts."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from pausefl.report.live.pace import Pace
from pausefl.report.progress_report import progress_charts, rounds_text, slowest
from pausefl.report.report_files import vega_of
from pausefl.runs.progress.alarms import NEAR_END, Alarm, alarms
from pausefl.runs.progress.follower import Follower
from pausefl.runs.progress.progress import Progress

_LISTED = 8
"""How many clients a list on the page names."""
_SHOWN = 40
"""How many members of a round are named."""


def chart_specs(progress: Progress) -> dict[str, Any]:
    """Return the charts of a run as Vega, without rows, and what stands around them."""
    return {
        chart.name: {
            "title": chart.title, "reading": chart.reading, "nothing": chart.nothing,
            "spec": vega_of(chart.draw([], width="container")),
        }
        for chart in progress_charts(progress)
    }  # fmt: skip


def snapshot(follower: Follower, pace: Pace) -> dict[str, Any]:
    """Return everything that changes on the page; its size does not grow with the number of rounds."""
    progress = follower.progress
    if progress is None:
        return nothing_to_show(follower.fault)
    found = [Alarm("fault", follower.fault)] if follower.fault else []
    progress.settle()
    finished = progress.head.finished
    if pace.quiet and not finished:
        found.append(
            Alarm(
                "quiet", f"The run has written nothing for {duration(pace.since())}. Check whether it is still alive."
            )
        )
    found += alarms(progress) if progress.rounds else []
    shown: dict[str, Any] = _finite({
        "form": "few" if progress.lines else "many",
        "state": "finished" if finished else "running",
        "name": follower.path.name, "title": progress.head.title, "kind": progress.head.kind,
        "clients": progress.head.clients,
        "rounds": progress.rounds, "planned": progress.head.planned, "said": rounds_text(progress),
        "end": _end(progress, pace),
        "accuracy": round(float(progress.accuracy), 2), "best": round(float(progress.best_accuracy), 2),
        "pace": None if pace.per_round is None else duration(pace.per_round),
        "now": _now(follower, progress), "slow": _slow(progress), "budgets": _budgets(progress),
        "alarms": [asdict(alarm) | {"clients": alarm.clients[:_SHOWN]} for alarm in found],
        "charts": {chart.name: _columns(chart.rows(progress)) for chart in progress_charts(progress)},
    })  # fmt: skip
    return shown


def nothing_to_show(fault: str) -> dict[str, Any]:
    """Return what the page is sent where it can show no run; ``fault`` says why, and is empty before there is one."""
    return {"form": "", "alarms": [asdict(Alarm("fault", fault))] if fault else [], "state": "waiting"}


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> [duration(seconds) for seconds in (0.25, 42.0, 150.0, 4000.0, 200000.0)]
    ['0.25 s', '42 s', '3 min', '1 h 7 min', '2 d 7 h']
    """
    if seconds < 10.0:
        return f"{seconds:.2g} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = math.ceil(seconds / 60.0)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def _end(progress: Progress, pace: Pace) -> str:
    if progress.head.finished:
        return "finished"
    left = pace.remaining(progress.head.planned)
    if left is not None:
        return f"about {duration(left)} left"
    return "the number of rounds is not known" if progress.head.planned is None else "the time left is not known yet"


def _now(follower: Follower, progress: Progress) -> dict[str, Any]:
    """Return the round under way, or else the latest one, with what is known of each member."""
    if follower.now is not None:
        number, names = follower.now
        return {"round": number, "under_way": True, "members": [{"name": name} for name in names[:_SHOWN]],
                "more": max(0, len(names) - _SHOWN)}  # fmt: skip
    last = progress.last
    if last is None:
        return {"round": 0, "under_way": False, "members": [], "more": 0}
    members = [
        {"name": name, "seconds": last.seconds.get(name), "fault": last.faults.get(name, "")}
        for name in last.members[:_SHOWN]
    ]
    return {"round": last.number, "under_way": False, "members": members, "more": max(0, len(last.members) - _SHOWN)}


def _slow(progress: Progress) -> list[dict[str, Any]]:
    clients = progress.clients
    return [
        {"name": clients.names[row], "seconds": float(clients.recent[row]), "asked": int(clients.asked[row]),
         "answered": int(clients.answered[row])}
        for row in slowest(progress, _LISTED)
    ]  # fmt: skip


def _budgets(progress: Progress) -> list[dict[str, Any]]:
    """Return the clients with the least budget left."""
    if not progress.head.bounded:
        return []
    clients = progress.clients
    left = clients.left[: len(clients)]
    known = np.flatnonzero(~np.isnan(left))
    rows = known[np.argsort(left[known], kind="stable")][:_LISTED].tolist()
    return [{"name": clients.names[row], "left": float(left[row]), "near": bool(left[row] < NEAR_END)} for row in rows]


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return rows as columns, which are half as long to send, with five digits."""
    return {name: [_short(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _finite(value: Any) -> Any:
    """Return what JSON can say: in place of NaN and infinity, at any depth, there is nothing."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
