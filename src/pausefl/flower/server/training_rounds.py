"""A training run: its state after each round, and the rounds one after the other, as Flower plays them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import Result
from flwr.supercore import log

from pausefl.types import ClientId, Seconds

if TYPE_CHECKING:
    from pausefl.flower.server.strategy import PauseStrategy
    from pausefl.flower.server.timed_grid import TimedGrid

_METRICS = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")
_LEAST_TTL: Seconds = 300.0
"""Requests expire with their round: no client pays for one that nobody waits for.  Clocks may differ by this much."""


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """One round: who was asked, what each term of the reward said for them, how long each took, who refused and why.

    ``seconds`` holds those that answered; a speed of None is unbounded: somebody in the round was never tried before.
    ``spent`` is the selector's estimate, by the schedule that it was given: see ``Selector.spent``.  ``took``: after
    how many seconds the round closed; None in files of earlier versions.  ``late``: who had not answered by then, and
    was not waited for any longer.  ``used``: late replies of earlier rounds that went into this one, and their weights.
    ``wasted``: late replies that did not, with the rounds they belong to; their clients have paid for them.
    """

    round: int
    members: tuple[ClientId, ...]
    terms: Mapping[str, float | None]
    seconds: Mapping[str, Seconds]
    refused: Mapping[str, str]
    spent: Mapping[str, float]
    took: Seconds | None = field(default=None, compare=False)
    late: tuple[str, ...] = ()
    used: Mapping[str, float] = field(default_factory=dict)
    wasted: tuple[tuple[str, int], ...] = ()

    def line(self) -> str:
        """Say it in one line."""
        terms = ", ".join(f"{name} {'unbounded' if v is None else format(v, '.3g')}" for name, v in self.terms.items())
        took = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
        refused = "".join(f"; {name} {why}" for name, why in self.refused.items())
        picked = ", ".join(str(member) for member in self.members)
        late = f"; not waited for: {', '.join(self.late)}" if self.late else ""
        used = "".join(f"; {name} came late and counts {weight:.2g}" for name, weight in self.used.items())
        wasted = "".join(f"; {name} spent budget for nothing in round {number}" for name, number in self.wasted)
        said = f"round {self.round}: picked {picked} ({terms}); answered: {took or 'nobody'}"
        return f"{said}{refused}{late}{used}{wasted}"

    def metrics(self) -> MetricRecord:
        """Return the numbers as Flower keeps them; names are in ``line`` and in the strategy's history."""
        values = {f"pausefl-{name}": math.inf if v is None else v for name, v in self.terms.items()}
        return MetricRecord(
            {
                "pausefl-picked": len(self.members),
                "pausefl-answered": len(self.seconds),
                "pausefl-latency": max(self.seconds.values(), default=0.0),
                "pausefl-most-spent": max(self.spent.values(), default=0.0),
                "pausefl-late": len(self.late),
                "pausefl-wasted": len(self.wasted),
                **values,
            }
        )


@dataclass(slots=True, eq=False)
class RunState:
    """Where a run stands: name, complete rounds, Flower's result with the model, history, and whose budget is gone.

    ``name`` names the run's releases: a server that died in mid-round asks again under the same names, and clients that
    had answered send the same bytes instead of paying twice.  ``warm`` are the nodes that have answered before: the
    first answer of a process is slower than the others.  ``open`` are clients that were not waited for, and the rounds
    in which they were asked.  ``planned`` is the number of rounds that the caller of ``start`` asked for; ``ended``
    says that the run has ended with fewer, for want of budget.
    """

    name: str = ""
    rounds: int = 0
    result: Result = field(default_factory=Result)
    history: list[PlayedRound] = field(default_factory=list)
    exhausted: set[ClientId] = field(default_factory=set)
    warm: set[int] = field(default_factory=set)
    open: list[tuple[ClientId, int]] = field(default_factory=list)
    planned: int | None = None
    ended: bool = False

    @property
    def model(self) -> ArrayRecord:
        """The model after the complete rounds."""
        return self.result.arrays

    def latest_round(self) -> dict[str, Any]:
        """Return history and metrics of the latest round ready for JSON, which knows no infinity.

        With the first round's go those of round 0: before the first round only the server evaluates, and that is
        repeated if the first round is.
        """
        metrics = {
            name: {
                str(number): {key: _plain(value) for key, value in record.items()}
                for number in ((0, 1) if self.rounds == 1 else (self.rounds,))
                if (record := getattr(self.result, name).get(number)) is not None
            }
            for name in _METRICS
        }
        latest = self.history[-1]
        played = {one.name: getattr(latest, one.name) for one in fields(latest)}
        return {"played": played, "metrics": metrics}

    def add_round(self, entry: Mapping[str, Any]) -> None:
        """Take up what ``latest_round`` returned, as it comes back from a file."""
        played = entry["played"]
        wasted = tuple((client, number) for client, number in played.get("wasted", ()))
        tuples = {"members": tuple(played["members"]), "late": tuple(played.get("late", ())), "wasted": wasted}
        self.history.append(PlayedRound(**{**played, **tuples}))
        for name in _METRICS:
            kept: dict[int, MetricRecord] = getattr(self.result, name)
            for number, values in entry["metrics"].get(name, {}).items():
                kept[int(number)] = MetricRecord({key: _number(value) for key, value in values.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the caller of ``start`` asked for."""

    rounds: int
    timeout: Seconds
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate: Callable[[int, ArrayRecord], MetricRecord | None] | None

    @property
    def ttl(self) -> Seconds:
        """After how long a request expires."""
        return max(self.timeout, _LEAST_TTL)


def play(strategy: PauseStrategy, grid: TimedGrid, state: RunState, plan: Plan) -> Result:
    """Play on from ``state``, which is saved after each round; end early when too few clients have budget left."""
    result, start = state.result, time.monotonic()
    if state.rounds == 0:
        strategy.rehearse(grid, plan)
        _evaluate(plan, 0, strategy.scored, result)
    while state.rounds < plan.rounds and strategy.over() is None:
        number = state.rounds + 1
        log(INFO, "")
        log(INFO, "[ROUND %s/%s]", number, plan.rounds)
        messages = list(strategy.configure_train(number, state.model, plan.train_config, grid.grid))
        if not messages and strategy.over() is not None:
            break  # as the clients said when they were asked who they are
        replies = strategy.exchange(grid, _expiring(messages, plan), plan.timeout)
        arrays, metrics = strategy.aggregate_train(number, replies)
        if arrays is not None:
            result.arrays = arrays
        if metrics is not None:
            result.train_metrics_clientapp[number] = metrics
        scored = strategy.scored
        asked = list(strategy.configure_evaluate(number, scored, plan.evaluate_config, grid.grid))
        if asked:
            answered = grid.exchange(_expiring(asked, plan), plan.timeout).replies
            metrics = strategy.aggregate_evaluate(number, answered)
            if metrics is not None:
                result.evaluate_metrics_clientapp[number] = metrics
        _evaluate(plan, number, scored, result)
        state.rounds = number
        strategy.save()
    if state.rounds < plan.rounds:
        strategy.end_early()
    strategy.end()
    if state.rounds < plan.rounds:
        log(WARNING, "pausefl: %s, so the run ends after round %s and returns its model", strategy.over(), state.rounds)
    log(INFO, "pausefl: %s rounds, %.1f s", state.rounds, time.monotonic() - start)
    return replace(result, arrays=strategy.scored)


def _expiring(messages: Iterable[Message], plan: Plan) -> list[Message]:
    listed = list(messages)
    for message in listed:
        message.metadata.ttl = min(message.metadata.ttl, plan.ttl)
    return listed


def _evaluate(plan: Plan, number: int, model: ArrayRecord, result: Result) -> None:
    found = None if plan.evaluate is None else plan.evaluate(number, model)
    if found is not None:
        log(INFO, "\t└──> round %s: %s", number, found)
        result.evaluate_metrics_serverapp[number] = found


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(one) for one in value]
    return float(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    # NumPy's floats are floats, but their repr is not a number's.
    return repr(float(value)) if isinstance(value, (float, np.floating)) else int(value)
