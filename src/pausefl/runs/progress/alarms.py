"""What a person should look at while a run goes on: silent clients, budgets near their end, accuracy that falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pausefl.runs.progress.progress import Progress
from pausefl.runs.progress.round_facts import LATE, NO_ANSWER

NEAR_END = 0.1
"""The share of a budget below which it is near its end."""
_FALL = 2.0
"""Percentage points below its best by which accuracy has fallen."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing to look at: which kind, who it is about, and a sentence."""

    kind: Literal["silent", "refused", "budget", "falling", "quiet", "fault"]
    text: str
    clients: tuple[str, ...] = ()


def alarms(progress: Progress) -> list[Alarm]:
    """Return what needs a look now; an alarm goes when its cause does.

    A client is silent until it answers again.  Accuracy falls if the mean of the latest scores is two percentage points
    below the best such mean.
    """
    found = [_silent(progress), _refused(progress), *_budgets(progress)]
    return [alarm for alarm in found if alarm is not None]


def _silent(progress: Progress) -> Alarm | None:
    clients = progress.clients
    rows = np.flatnonzero(clients.silent[: len(clients)])
    if not len(rows):
        return None
    rows = rows[np.argsort(-clients.silent[rows], kind="stable")]
    names = tuple(clients.names[row] for row in rows.tolist())
    times = int(clients.silent[rows[0]])
    if len(names) == 1:
        last = int(clients.last_asked[rows[0]])
        said = f"Client {names[0]} did not answer in round {last:,}, when it was last asked"
        return Alarm(
            "silent", said + (f". It has now been silent {times} times in a row." if times > 1 else "."), names
        )
    return Alarm("silent", f"{len(names):,} clients did not answer when they were last asked: {_listed(names)}.", names)


def _refused(progress: Progress) -> Alarm | None:
    faults = {} if progress.last is None else progress.last.faults
    found = {name: why for name, why in faults.items() if why not in (NO_ANSWER, LATE)}
    if not found:
        return None
    said = _listed([f"{name} ({why})" for name, why in found.items()])
    return Alarm("refused", f"These clients refused in the latest round: {said}.", tuple(found))


def _budgets(progress: Progress) -> list[Alarm]:
    clients = progress.clients
    if not progress.head.bounded:
        return []
    left = clients.left[: len(clients)]
    rows = np.flatnonzero(left < NEAR_END)
    if not len(rows):
        return []
    rows = rows[np.argsort(left[rows], kind="stable")]
    names = tuple(clients.names[row] for row in rows.tolist())
    said = _listed(
        [f"{clients.names[row]} ({100.0 * left[row]:.0f} %)" for row in rows[: _NAMED + 1].tolist()], len(rows)
    )
    noun = "client has" if len(names) == 1 else "clients have"
    found = [
        Alarm("budget", f"{len(names):,} {noun} less than {100 * NEAR_END:g} % of the budget left: {said}.", names)
    ]
    fall = progress.best_accuracy - progress.accuracy
    if fall > _FALL:
        found.append(
            Alarm(
                "falling",
                f"Accuracy is {progress.accuracy:.1f} %, which is {fall:.1f} points below its best, and budgets are "
                "nearly spent. Updates may have become too noisy. Consider ending the run.",
            )
        )
    return found


def _listed(names: Sequence[str], count: int | None = None) -> str:
    """Return some names, and how many more there are."""
    more = (len(names) if count is None else count) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
