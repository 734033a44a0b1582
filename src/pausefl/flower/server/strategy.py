"""The wrapper strategy: PAUSE chooses the nodes, any Flower strategy does the rest.

Reference: PAUSE, Alg. 1; Flower 1.41's ``Strategy.start``, whose loop this one follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from logging import INFO, WARNING
from pathlib import Path
from typing import Literal, get_args
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from pausefl.errors import InvalidValueError, OutOfOrderError, is_finite, require
from pausefl.flower.protocol import RECORD, request_record
from pausefl.flower.server import replies as answers
from pausefl.flower.server.checkpoint import Checkpoints
from pausefl.flower.server.clients_and_nodes import AvailableClients, Names
from pausefl.flower.server.inner_strategy import in_types_of, least_evaluation, least_round, weight_key
from pausefl.flower.server.model_steps import flat_model, shaped, stepped
from pausefl.flower.server.rehearsal import rehearse as time_all
from pausefl.flower.server.timed_grid import ChosenGrid, Exchange, TimedGrid
from pausefl.flower.server.training_rounds import Plan, PlayedRound, RunState, play
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy.aggregation import Aggregation, Aggregator, Rule
from pausefl.selector import Selector
from pausefl.types import ClientId, Epsilon, FloatArray, Seconds

_UNPAID = ("unready", "bad-request", "not-allowed")
"""Refusals for which no client was charged."""


class PauseStrategy(Strategy):
    """Wraps any Flower strategy: it sees, in each round, only the nodes that the selector chose.

    ``latency``: see :data:`~pausefl.flower.server.replies.Latency`.  ``names``: how nodes are recognised, see
    :mod:`~pausefl.flower.server.clients_and_nodes`.  ``fewer``: with fewer candidates than the selector wants, an
    ``"error"`` after ``wait`` seconds, or a ``"smaller"`` round.  ``checkpoint``: a file, written after each round;
    if it is there, ``start`` goes on from it.  ``epsilon``, ``clip``: asks clients to use at most these; it can make
    them stricter, and never less strict.  ``aggregation``, ``step``, ``average``: what the server makes of the updates,
    see :class:`~pausefl.privacy.aggregation.Aggregation`; with ``"matched"`` the replies' noise sets the weights by
    which the inner strategy averages, and how far the model moves towards what it returns.  An inner strategy that
    does not weigh replies gets the step only.  ``rehearse``: before the first round of a run, but not after a
    resume, all clients at once are asked to work on made-up data, so that the selector knows how fast they are.

    Law: a node that was not chosen is not asked to train.  A client that did not answer in time, failed or refused
    counts as no answer; one whose budget is gone is not a candidate again.  When too few have budget left for a round,
    the run ends.
    """

    def __init__(
        self,
        inner: Strategy,
        selector: Selector,
        *,
        latency: answers.Latency = "round-trip",
        names: Names = "hello",
        fewer: Literal["error", "smaller"] = "error",
        wait: Seconds = 60.0,
        poll: Seconds = 0.1,
        checkpoint: str | os.PathLike[str] | None = None,
        epsilon: Epsilon | None = None,
        clip: float | None = None,
        aggregation: Rule = "plain",
        step: float = 1.0,
        average: float = 0.0,
        rehearse: bool = False,
        seed: int = 0,
    ) -> None:
        if not isinstance(selector, Selector):
            raise InvalidValueError(
                f"selector is a {type(selector).__name__}, but must be a pausefl.Selector; pass one"
            )
        require(fewer in ("error", "smaller"), "fewer", fewer, "'error' or 'smaller'", "choose one")
        require(is_finite(wait) and wait >= 0.0, "wait", wait, "a number of seconds from 0", "60 is the default")
        answers.check_latency(latency, len(selector.cohort))
        require(names in get_args(Names), "names", names, f"one of {', '.join(get_args(Names))}", "choose one")
        require(is_finite(poll) and poll > 0.0, "poll", poll, "a number of seconds above 0", "0.1 is the default")
        least = least_round(inner, selector.per_round)
        self._inner, self._selector, self._latency, self._names = inner, selector, latency, names
        self._fewer, self._poll, self._seed, self._rehearses = fewer, poll, seed, rehearse
        needed = selector.per_round if fewer == "error" else least
        self._candidates = partial(AvailableClients, selector, names, needed, wait)
        self._aggregator = Aggregator(Aggregation(aggregation, step, average))
        path = None if checkpoint is None else Path(checkpoint)
        self._checkpoints = Checkpoints(path, selector, inner, self._aggregator)
        self._wish = TrainingRequest("wish", 0, epsilon=epsilon, clip=clip)
        self._state = RunState()
        self._available = self._candidates(self._state)
        self._timed: TimedGrid | None = None
        self._repeated: int | None = None
        self._chosen: dict[int, ClientId] = {}
        self._key = "arrays"
        self._exchange: Exchange | None = None

    @property
    def history(self) -> tuple[PlayedRound, ...]:
        """Who was picked in each round, why, and what came of it."""
        return tuple(self._state.history)

    @property
    def exhausted(self) -> frozenset[ClientId]:
        """The clients whose budget is gone."""
        return frozenset(self._state.exhausted)

    def summary(self) -> None:
        """Log who chooses and by what measure, the latest round, and the inner strategy."""
        kind = self._latency if isinstance(self._latency, str) else type(self._latency).__name__
        log(INFO, "\t├──> PAUSE: %r", self._selector)
        log(INFO, "\t│\t├── latency: %s, names: %s, too few nodes: %s", kind, self._names, self._fewer)
        log(INFO, "\t│\t├── checkpoint: %s", self._checkpoints.path or "none")
        if self._state.history:
            log(INFO, "\t│\t├── %s", self._state.history[-1].line())
        log(INFO, "\t│\t└── budget gone: %s", ", ".join(sorted(map(str, self._state.exhausted))) or "nobody's")
        self._inner.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the nodes, and let the inner strategy write their messages."""
        if self._timed is None or self._timed.grid is not grid:
            raise OutOfOrderError("PauseStrategy must be started itself: call its start, put other strategies inside")
        answers.check_latency(self._latency, len(self._selector.cohort))  # clients may have joined
        ready = self._available.ready(self._timed, server_round)
        if not ready:
            return []
        chosen = self._selector.select(ready, allow_fewer=self._fewer == "smaller")
        self._chosen = {self._available.here[client]: client for client in chosen.members}
        view = ChosenGrid(grid, list(self._chosen))
        messages = list(self._inner.configure_train(server_round, arrays, config, view))
        asked = sorted(message.metadata.dst_node_id for message in messages)
        if asked != sorted(self._chosen):
            raise OutOfOrderError(
                f"the inner strategy asks {len(asked)} nodes, but {len(self._chosen)} were chosen; "
                "it must send one message to each node that its grid shows"
            )
        self._key = next((key for message in messages for key in message.content.array_records), self._key)
        request = request_record(replace(self._wish, run=self._state.name, round=server_round))
        for content in {id(message.content): message.content for message in messages}.values():
            content[RECORD] = request
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Learn from who answered when, and let the inner strategy aggregate what is sound."""
        chosen, exchange, model = self._selector.pending, self._exchange, self._state.model
        if chosen is None or exchange is None:
            raise OutOfOrderError("aggregate_train was called with no open round; call start")
        weight = weight_key(self._inner)
        verdicts = answers.judge(exchange, self._chosen, model, weight, by_note=self._names == "hello")
        sound = [one for one in verdicts if not one.fault]
        seconds = self._seconds(server_round, sound)
        self._learn(verdicts, seconds, answers.flat_updates(sound, model) if self._selector.policy.learns else None)
        self._exchange = None
        spent = self._selector.spent()[self._selector.cohort.rows(chosen)].tolist()
        played = PlayedRound(
            server_round,
            chosen.members,
            {name: value if is_finite(value) else None for name, value in chosen.terms.items()},
            {str(client): taken for client, taken in seconds.items()},
            {str(one.client): one.fault for one in verdicts if one.fault},
            {str(client): leaked for client, leaked in zip(chosen, spent, strict=True)},
        )
        self._state.history.append(played)
        log(INFO, "pausefl: %s", played.line())
        if not sound:
            log(WARNING, "pausefl: round %s: no reply could be used: %s", server_round, answers.faults(verdicts))
        step = self._settle(sound, weight, chosen.weights)
        kept = [one.reply for one in verdicts if one.reply is not None]
        arrays, metrics = self._inner.aggregate_train(server_round, kept)
        if arrays is not None:
            arrays = stepped(model, in_types_of(model, arrays), step)
            self._aggregator.remember(flat_model(arrays))
        return arrays, MetricRecord({**(metrics or {}), **played.metrics()})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the inner strategy evaluate on the nodes that are there, if they are enough for it."""
        if getattr(self._inner, "fraction_evaluate", 1.0) == 0.0:
            return []
        here, needed = list(self._available.here.values()), least_evaluation(self._inner)
        if len(here) < needed:
            log(WARNING, "pausefl: %s nodes are there, evaluation wants %s: left out", len(here), needed)
            return []
        return self._inner.configure_evaluate(server_round, arrays, config, ChosenGrid(grid, here))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the inner strategy average what all of them told."""
        settled = answers.settle_evaluation(replies, weight_key(self._inner))
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
        self._timed = TimedGrid(grid, poll=self._poll)
        with self._checkpoints.held():
            self._begin(grid, initial_arrays)
            self.summary()
            return play(self, self._timed, self._state, plan)

    @property
    def scored(self) -> ArrayRecord:
        """The model that is evaluated, and returned in the end: the latest, or the mean of models with ``average``."""
        model, mean = self._state.model, self._aggregator.mean
        return model if mean is None else shaped(mean, model)

    def rehearse(self, grid: TimedGrid, plan: Plan) -> None:
        """Time everybody who is there, if that was asked for and the run is new, and tell the selector."""
        if not self._rehearses or self._repeated is not None:
            return
        nodes = {client: self._available.here[client] for client in self._available.ready(grid, 1, everybody=True)}
        taken = time_all(grid, nodes, self._inner, self._state.model, plan, by_name=self._names == "hello")
        self._selector.expect(answers.latencies(self._latency, 0, self._selector.cohort, self._seed, taken, {}))
        self.save()

    def exchange(self, grid: TimedGrid, messages: Iterable[Message], timeout: Seconds) -> Iterable[Message]:
        """Send a round's messages and time the replies."""
        self._exchange = grid.exchange(messages, timeout)
        return self._exchange.replies

    def over(self) -> str | None:
        """Say why no round can be played any more, for want of budget; None while one can."""
        return self._available.over()

    def save(self) -> None:
        """Write the checkpoint, if there is to be one."""
        self._checkpoints.save(self._state)

    def _begin(self, grid: Grid, initial: ArrayRecord) -> None:
        found = self._checkpoints.resume(initial)
        self._repeated = None if found is None else found.rounds + 1
        if found is None:
            # Not Flower's id alone: a second start in one run is not a repetition of the first.
            name, before = f"flwr-{grid.run.run_id}-{uuid4().hex[:12]}", self._state
            found = RunState(name, 0, Result(arrays=initial), before.history, before.exhausted)
            self._aggregator.restore({})
            self._checkpoints.save(found)  # the run keeps its name even if it dies in its first round
        self._state, self._available = found, self._candidates(found)

    def _seconds(self, number: int, sound: list[answers.Verdict]) -> dict[ClientId, Seconds]:
        measured = {one.client: one.seconds for one in sound}
        reported = {one.client: one.reported for one in sound if one.reported is not None}
        # Only the round in which an earlier server died can have been answered before.
        replayed = {one.client for one in sound if one.replayed and number == self._repeated}
        return answers.latencies(self._latency, number, self._selector.cohort, self._seed, measured, reported, replayed)

    def _settle(self, sound: list[answers.Verdict], weight: str | None, own: Mapping[ClientId, float] | None) -> float:
        """Make the replies ones that the inner strategy can average by their weights; return the step to take."""
        weights: Sequence[int | float] = answers.plain_weights(sound, weight, own)
        step = 1.0
        if sound:
            matched, step = self._aggregator.weigh(np.array(weights, dtype=np.float64), answers.believed_levels(sound))
            weights = matched.tolist() if self._aggregator.settings.rule == "matched" else weights
        answers.settle(sound, self._key, weight, weights)
        return step

    def _learn(
        self,
        verdicts: list[answers.Verdict],
        seconds: dict[ClientId, Seconds],
        updates: dict[ClientId, FloatArray] | None,
    ) -> None:
        """Tell the selector how the round went, and note whose budget is gone and who must say hello again."""
        cohort = self._selector.cohort
        unpaid = [one.client for one in verdicts if one.fault in _UNPAID]
        before = dict(zip(unpaid, cohort.releases[cohort.rows(unpaid)].tolist(), strict=True))
        self._selector.observe(seconds, updates)
        self._selector.report(before)
        self._state.exhausted |= {one.client for one in verdicts if one.fault == "exhausted"}
        told = {one.client: one.releases for one in verdicts if one.releases is not None}
        left = {one.client: one.left for one in verdicts if one.left is not None}
        self._available.learn(told, [one.client for one in verdicts if not one.fault], left)
        self._selector.report(noise={one.client: one.next_noise for one in verdicts if one.next_noise is not None})
        self._available.doubt(one.client for one in verdicts if one.doubted)
