"""Schedules as callers give them, one for all or one per client: checked, extended by a join, and kept in a state."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pausefl.errors import InvalidValueError, StateFileError, shown
from pausefl.privacy import Geometric
from pausefl.privacy.schedule import describe_schedule, described_schedule
from pausefl.rewards.schedule_table import ScheduleTable, checked_schedule
from pausefl.selector.cohort import Cohort
from pausefl.types import BudgetSchedule, ClientId

Schedules = BudgetSchedule | Mapping[ClientId, BudgetSchedule]
"""One schedule for all clients, or the schedule of each of them by id."""


def schedule_table(schedule: Schedules | None, ids: Sequence[ClientId]) -> ScheduleTable:
    """Return which client has which schedule; a mapping must name them all."""
    if not isinstance(schedule, Mapping):
        schedule = Geometric(40.0, 0.04) if schedule is None else schedule
        checked_schedule(schedule)
        return ScheduleTable((schedule,))
    missing = next((client for client in ids if client not in schedule), None)
    if missing is not None:
        raise InvalidValueError(
            f"schedule has none for client {shown(missing)}, but must have one for every client; add it"
        )
    return ScheduleTable.of(_checked(schedule, ids))


def joined(
    table: ScheduleTable, cohort: Cohort, sizes: Mapping[ClientId, float], given: Mapping[ClientId, BudgetSchedule]
) -> ScheduleTable:
    """Return the table with those that join; a client that is known keeps its schedule, since a budget is for life."""
    if not isinstance(given, Mapping):
        raise InvalidValueError(
            f"schedules are a {type(given).__name__}, but must be a mapping; pass {{client: schedule}}"
        )
    stranger = next((client for client in given if client not in sizes), None)
    if stranger is not None:
        raise InvalidValueError(f"schedules name client {shown(stranger)}, but must name those that join; add its size")
    for client, schedule in zip(given, _checked(given, list(given)), strict=True):
        row = cohort.find(client)
        known = schedule if row is None else table.schedule_of(row)
        if schedule != known and stored_schedule(schedule) != stored_schedule(known):
            raise InvalidValueError(
                f"schedule of client {shown(client)} is {shown(schedule)}, but must stay {shown(known)}; pass the "
                "same schedule, because a budget is for life"
            )
    newcomers = [client for client in sizes if cohort.find(client) is None]
    missing = next((client for client in newcomers if client not in given), None)
    if missing is not None and table.only is None:
        raise InvalidValueError(
            f"schedules have none for client {shown(missing)}, but must have one for every newcomer, because the "
            "schedules of the others differ; add one for it"
        )
    return table.grown([given.get(client, table.schedules[0]) for client in newcomers], len(cohort))


def stored_schedule(schedule: BudgetSchedule) -> dict[str, Any]:
    """Return one of our schedules as its kind and numbers; one of the user's own as what it spends."""
    ours = describe_schedule(schedule)
    if ours is not None:
        return ours
    limit = plain(schedule.limit)
    counts = [2**k for k in range(13) if limit is None or 2**k <= limit] + ([] if limit is None else [limit])
    # Nine digits: the last ones may differ between two machines.
    spent = {str(n): float(f"{float(schedule.spent(np.array([n]))[0]):.9g}") for n in counts}
    budget = float(f"{float(schedule.budget):.9g}")
    return {"own": type(schedule).__name__, "budget": budget, "limit": limit, "spent": spent}


def stored_schedules(table: ScheduleTable) -> dict[str, Any]:
    """Return what the header of a state says of schedules; where there are several, a column says whose they are."""
    if table.only is not None:
        return {"schedule": stored_schedule(table.only)}
    return {"schedule": None, "schedules": [stored_schedule(schedule) for schedule in table.schedules]}


def loaded_schedules(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any], ids: Sequence[ClientId]
) -> Schedules:
    """Return the schedules of a state file; those of the user's own must be passed again."""
    if "schedules" not in header:
        stored = header["schedule"]
        if stored is None or "own" in stored:
            raise StateFileError(f"{path} was saved with a schedule of your own; pass it again as schedule=…")
        return described_schedule(stored)
    column = arrays["schedule_of"]
    own = np.flatnonzero(np.array(["own" in stored for stored in header["schedules"]])[column])
    if len(own):
        raise StateFileError(
            f"{path} was saved with a schedule of your own for client {shown(ids[own[0]])}; pass the schedules of all "
            "clients again as schedule={client: schedule}"
        )
    schedules = [described_schedule(stored) for stored in header["schedules"]]
    return {client: schedules[number] for client, number in zip(ids, column.tolist(), strict=True)}


def first_difference(
    mine: tuple[Mapping[str, Any], Mapping[str, Any]], stored: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> tuple[int, Any, Any] | None:
    """Return the row of the first client whose schedule is another than in the stored state, and the two schedules."""
    different: dict[str, Any] = {}
    columns = []
    for header, arrays in (mine, stored):
        # Older files keep None for a schedule of the user's own.
        each = header.get("schedules") or [header["schedule"] or "one of your own"]
        texts = [json.dumps(schedule, sort_keys=True) for schedule in each]
        different |= dict(zip(texts, each, strict=True))
        number_of = {text: number for number, text in enumerate(different)}
        of_all = np.zeros(len(arrays["sizes"]), dtype=np.int64)
        columns.append(np.array([number_of[text] for text in texts])[arrays.get("schedule_of", of_all)])
    other = np.flatnonzero(columns[0] != columns[1])
    if not len(other):
        return None
    found = list(different.values())
    here, there = (found[column[other[0]]] for column in columns)
    return int(other[0]), here, there


def plain(value: Any) -> Any:
    """Return a numpy number as a Python one, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def _checked(schedules: Mapping[ClientId, BudgetSchedule], ids: Sequence[ClientId]) -> list[BudgetSchedule]:
    found = [schedules[client] for client in ids]
    seen: set[int] = set()
    for client, schedule in zip(ids, found, strict=True):
        if id(schedule) not in seen:
            checked_schedule(schedule, f"schedule of client {shown(client)}")
            seen.add(id(schedule))
    return found
