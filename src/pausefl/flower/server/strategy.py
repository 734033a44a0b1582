"""The wrapper strategy: PAUSE chooses the nodes, any Flower strategy does the rest.

Reference: PAUSE, Alg. 1; Flower 1.41's ``Strategy.start``, whose loop this one follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING
from pathlib import Path
from typing import Literal
from uuid import uuid4

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from pausefl.errors import (
    InvalidValueError,
    OutOfOrderError,
    is_finite,
    require,
)
from pausefl.flower.protocol import RECORD, Request
from pausefl.flower.server.grid import ChosenGrid, Exchange, TimedGrid, check_poll
from pausefl.flower.server.history import Played
from pausefl.flower.server.inner import least_evaluation, least_round, weight_key
from pausefl.flower.server.latency import Latency, check_latency, latencies
from pausefl.flower.server.loop import Plan, Progress, play
from pausefl.flower.server.outcome import Outcome, read_outcome, settle, settle_evaluation
from pausefl.flower.server.pool import Pool
from pausefl.flower.server.precision import in_precision_of
from pausefl.flower.server.resume import Keeper
from pausefl.flower.server.roster import Names, check_names
from pausefl.selector import Selector
from pausefl.selector.round import Selection
from pausefl.types import ClientId, Epsilon, Seconds

_UNPAID = ("unready", "bad-request", "not-allowed")
"""Refusals for which no client was charged."""


class PauseStrategy(Strategy):
    """Wraps any Flower strategy: it sees, in each round, only the nodes that the selector chose.

    ``latency``: see :data:`~pausefl.flower.server.latency.Latency`.  ``names``: how nodes are recognised, see
    :mod:`~pausefl.flower.server.roster`.  ``fewer``: with fewer candidates than the selector wants, an ``"error"``
    after ``wait`` seconds, or a ``"smaller"`` round.  ``checkpoint``: a file, written after each round; if it is there,
    ``start`` goes on from it.  ``epsilon``, ``clip``: asks clients to stay below; they only get stricter by it.

    Law: a node that was not chosen is not asked to train.  A client that did not answer in time, failed or refused
    counts as no answer; one whose budget is gone is not a candidate again.  When too few have budget left for a round,
    the run ends.
    """

    def __init__(
        self,
        inner: Strategy,
        selector: Selector,
        *,
        latency: Latency = "round-trip",
        names: Names = "hello",
        fewer: Literal["error", "smaller"] = "error",
        wait: Seconds = 60.0,
        poll: Seconds = 0.1,
        checkpoint: str | os.PathLike[str] | None = None,
        epsilon: Epsilon | None = None,
        clip: float | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(selector, Selector):
            raise InvalidValueError(
                f"selector is a {type(selector).__name__}, but must be a pausefl.Selector; pass one"
            )
        require(fewer in ("error", "smaller"), "fewer", fewer, "'error' or 'smaller'", "choose one")
        require(is_finite(wait) and wait >= 0.0, "wait", wait, "a number of seconds from 0", "60 is the default")
        check_latency(latency, len(selector.cohort))
        check_names(names)
        check_poll(poll)
        least = least_round(inner, selector.per_round)
        self._inner, self._selector, self._latency, self._names = inner, selector, latency, names
        self._fewer, self._poll, self._seed = fewer, poll, seed
        self._pool = Pool(selector, names, selector.per_round if fewer == "error" else least, wait)
        self._keeper = Keeper(None if checkpoint is None else Path(checkpoint), selector, inner)
        self._wish = Request("check", 0, epsilon=epsilon, clip=clip)
        self._history: list[Played] = []
        self._run = ""
        self._repeated: int | None = None
        self._chosen: dict[int, ClientId] = {}
        self._model = ArrayRecord()
        self._key = "arrays"
        self._exchange: Exchange | None = None

    @property
    def history(self) -> tuple[Played, ...]:
        """Who was picked in each round, why, and what came of it."""
        return tuple(self._history)

    @property
    def exhausted(self) -> frozenset[ClientId]:
        """The clients whose budget is gone."""
        return frozenset(self._pool.exhausted)

    def summary(self) -> None:
        """Log who chooses and by what measure, the latest round, and the inner strategy."""
        kind = self._latency if isinstance(self._latency, str) else type(self._latency).__name__
        log(INFO, "\t├──> PAUSE: %r", self._selector)
        log(INFO, "\t│\t├── latency: %s, names: %s, too few nodes: %s", kind, self._names, self._fewer)
        log(INFO, "\t│\t├── checkpoint: %s", self._keeper.path or "none")
        if self._history:
            log(INFO, "\t│\t├── %s", self._history[-1].line())
        log(INFO, "\t│\t└── budget gone: %s", ", ".join(sorted(map(str, self._pool.exhausted))) or "nobody's")
        self._inner.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the nodes, and let the inner strategy write their messages."""
        if not isinstance(grid, TimedGrid) or not self._pool.opened:
            raise OutOfOrderError("PauseStrategy must be started itself: call its start, put other strategies inside")
        check_latency(self._latency, len(self._selector.cohort))  # clients may have joined
        ready = self._pool.ready(grid, server_round)
        if not ready:
            return []
        chosen = self._selector.select(ready, allow_fewer=self._fewer == "smaller")
        self._chosen = {self._pool.here[client]: client for client in chosen.members}
        self._model = arrays
        view = ChosenGrid(grid, list(self._chosen))
        messages = list(self._inner.configure_train(server_round, arrays, config, view))
        asked = sorted(message.metadata.dst_node_id for message in messages)
        if asked != sorted(self._chosen):
            raise OutOfOrderError(
                f"the inner strategy asks {len(asked)} nodes, but {len(self._chosen)} were chosen; "
                "it must send one message to each node that its grid shows"
            )
        self._key = next((key for message in messages for key in message.content.array_records), self._key)
        request = Request(self._run, server_round, epsilon=self._wish.epsilon, clip=self._wish.clip).record()
        for content in {id(message.content): message.content for message in messages}.values():
            content[RECORD] = request
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Learn from who answered when, and let the inner strategy aggregate what is sound."""
        chosen, exchange = self._selector.pending, self._exchange
        if chosen is None or exchange is None:
            raise OutOfOrderError("aggregate_train was called with no open round; call start")
        weight = weight_key(self._inner)
        outcome = read_outcome(exchange, self._chosen, self._model, weight, by_note=self._names == "hello")
        # Only the round in which an earlier server died can have been answered before.
        replayed = outcome.replayed if server_round == self._repeated else ()
        seconds = latencies(
            self._latency, server_round, self._selector.cohort, self._seed, outcome.measured, outcome.reported, replayed
        )
        updates = outcome.updates(self._model) if self._selector.policy.learns else None
        cohort = self._selector.cohort
        unpaid = [client for client, why in outcome.refused.items() if why in _UNPAID]
        before = dict(zip(unpaid, cohort.releases[cohort.rows(unpaid)].tolist(), strict=True))
        self._selector.observe(seconds, updates)
        self._pool.exhausted |= outcome.exhausted()
        self._selector.report(before)
        self._pool.learn(outcome.releases, outcome.sound)
        self._pool.doubt(outcome.doubted)
        self._exchange = None
        self._note(server_round, chosen, seconds, outcome)
        settle(outcome, self._key, weight, chosen.weights)
        arrays, metrics = self._inner.aggregate_train(server_round, [*outcome.sound.values(), *outcome.errors])
        if arrays is not None:
            arrays = in_precision_of(self._model, arrays)
        return arrays, MetricRecord({**(metrics or {}), **self._history[-1].metrics()})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the inner strategy evaluate on the nodes that are there, if they are enough for it."""
        if getattr(self._inner, "fraction_evaluate", 1.0) == 0.0:
            return []
        needed = least_evaluation(self._inner)
        if len(self._pool.here) < needed:
            log(WARNING, "pausefl: %s nodes are there, evaluation wants %s: left out", len(self._pool.here), needed)
            return []
        view = ChosenGrid(grid, list(self._pool.here.values()))
        return self._inner.configure_evaluate(server_round, arrays, config, view)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the inner strategy average what all of them told."""
        settled = settle_evaluation(replies, weight_key(self._inner))
        return self._inner.aggregate_evaluate(server_round, settled)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Play up to ``num_rounds`` rounds, from the checkpoint if there is one; return Flower's result."""
        plan = Plan(num_rounds, timeout, train_config or ConfigRecord(), evaluate_config or ConfigRecord(), evaluate_fn)
        timed = TimedGrid(grid, poll=self._poll)
        with self._keeper.held():
            begun = self._begin(grid, initial_arrays)
            self.summary()
            return play(self, timed, begun, plan)

    def exchange(self, grid: TimedGrid, messages: Iterable[Message], timeout: Seconds) -> Iterable[Message]:
        """Send a round's messages and time the replies."""
        self._exchange = grid.exchange(messages, timeout)
        return self._exchange.replies

    def over(self) -> str | None:
        """Say why no round can be played any more, for want of budget; None while one can."""
        return self._pool.over()

    def save(self, progress: Progress) -> None:
        """Write the checkpoint, if there is to be one."""
        played = self._history[-1] if progress.round else None
        self._keeper.save(self._run, progress, self._pool.exhausted, played)

    def _begin(self, grid: Grid, initial: ArrayRecord) -> Progress:
        found = self._keeper.resume(initial)
        if found is None:
            # Not Flower's id alone: a second start in one run is not a repetition of the first.
            self._run, progress = f"flwr-{grid.run.run_id}-{uuid4().hex[:12]}", Progress.fresh(initial)
            self.save(progress)  # the run keeps its name even if it dies in its first round
        else:
            self._run, progress, self._history = found.run, found.progress, list(found.history)
            self._pool.exhausted = set(found.exhausted)
        self._repeated = None if found is None else progress.round + 1
        self._pool.open(self._run)
        return progress

    def _note(self, number: int, chosen: Selection, seconds: Mapping[ClientId, Seconds], outcome: Outcome) -> None:
        cohort = self._selector.cohort
        spent = self._selector.spent()
        played = Played(
            number,
            chosen.members,
            {name: value if is_finite(value) else None for name, value in chosen.terms.items()},
            {str(client): taken for client, taken in seconds.items()},
            {str(client): why for client, why in outcome.refused.items()},
            {str(client): float(spent[row]) for client, row in zip(chosen, cohort.rows(chosen).tolist(), strict=True)},
        )
        self._history.append(played)
        log(INFO, "pausefl: %s", played.line())
        if not outcome.sound:
            log(WARNING, "pausefl: round %s: no reply could be used: %s", number, outcome.faults())
