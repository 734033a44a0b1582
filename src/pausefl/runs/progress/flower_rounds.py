"""The rounds of a Flower run as facts, from its checkpoint and the journal beside it; Flower need not be installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.privacy.schedule import described_schedule
from pausefl.rewards.budgets import Budgets
from pausefl.rewards.schedule_table import ScheduleTable
from pausefl.runs.progress.round_facts import LATE, RoundFacts, RunHead
from pausefl.runs.progress.simulated_rounds import NAMED
from pausefl.system.printable_text import printable

COLUMNS = ("sizes", "releases", "told_left", "told_at", "schedule_of")
"""The columns of the selector, in a checkpoint, that budgets follow from."""
_SCORES = ("evaluate_metrics_serverapp", "evaluate_metrics_clientapp")


def flower_head(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> RunHead:
    """Return what a checkpoint's header and these columns of its selector say of the run."""
    names, planned = _names(header, columns), header.get("planned")
    finished = header.get("ended", False) or (planned is not None and header["round"] >= planned)
    return RunHead(
        kind="Flower", title=printable(str(header["selector"]["policy"])), clients=len(names),
        names=tuple(names) if len(names) <= NAMED else (),
        planned=planned, finished=finished,
        left=_left(header["selector"], columns, names), exhausted=frozenset(map(str, header["exhausted"])),
    )  # fmt: skip


def flower_budgets(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """Return the budget of every client, by name; those that nobody can tell are left out."""
    selector, names = header["selector"], _names(header, columns)
    each = selector.get("schedules") or [selector["schedule"]]
    of_all = columns.get("schedule_of", np.zeros(len(names), dtype=np.int64)).tolist()
    budgets = [(stored or {}).get("budget") for stored in each]
    return {name: budgets[number] for name, number in zip(names, of_all, strict=True) if budgets[number]}


def flower_facts(entry: Mapping[str, Any], budgets: Mapping[str, float]) -> RoundFacts:
    """Return what a line of the journal says."""
    played = entry["played"]
    number, members = int(played["round"]), tuple(map(str, played["members"]))
    spent = {name: epsilon for name, epsilon in played["spent"].items() if name in budgets}
    return RoundFacts(
        number=number, members=members, seconds=dict(played["seconds"]),
        faults={**dict.fromkeys(map(str, played.get("late", ())), LATE), **played["refused"]},
        took=played.get("took"), accuracy=_accuracy(entry["metrics"], number),
        left={name: min(1.0, max(0.0, 1.0 - epsilon / budgets[name])) for name, epsilon in spent.items()},
    )  # fmt: skip


def _names(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    ids = header["selector"]["ids"]
    return [str(client) for client in (range(len(columns["sizes"])) if ids is None else ids)]


def _left(selector: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]], names: list[str]) -> dict[str, float]:
    """Return the server's estimate of what each client has left, as the selector works it out."""
    each = selector.get("schedules") or [selector["schedule"]]
    if any(stored is None or "own" in stored for stored in each):
        return {}  # only the user's own code knows such a schedule; the journal still says what was spent
    table = ScheduleTable(tuple(map(described_schedule, each)), columns.get("schedule_of"))
    budgets = Budgets(table)
    budgets.restore(columns)
    return dict(zip(names, budgets.left(np.array(columns["releases"])).tolist(), strict=True))


def _accuracy(metrics: Mapping[str, Any], number: int) -> float | None:
    """Return the accuracy of a round in percent: the server's own, or else the mean of the clients'.

    Flower apps report it as a share, under a name of their choice that says ``acc``.  A number that is no share and no
    percentage is left out: a client may have claimed it.
    """
    for where in _SCORES:
        for name, value in metrics.get(where, {}).get(str(number), {}).items():
            if "acc" in name.lower() and not isinstance(value, list) and 0.0 <= float(value) <= 100.0:
                return float(value) * (100.0 if float(value) <= 1.0 else 1.0)
    return None
