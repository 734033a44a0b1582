"""The wrapper strategy: PAUSE chooses the nodes, any Flower strategy does the rest.

Reference: PAUSE, Alg. 1; Flower 1.41's ``Strategy.start``, whose loop this one follows.
"""

from __future__ import annotations

import math
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
from pausefl.flower.protocol import RECORD, records_in, request_record
from pausefl.flower.server import replies as answers
from pausefl.flower.server.checkpoint import Checkpoints
from pausefl.flower.server.clients_and_nodes import AvailableClients, Names, Newcomers
from pausefl.flower.server.evaluation import Evaluation
from pausefl.flower.server.inner_strategy import in_types_of, least_round, weight_key
from pausefl.flower.server.late_replies import Late, LateReplies, LateReply
from pausefl.flower.server.model_steps import flat_model, shaped, stepped
from pausefl.flower.server.rehearsal import rehearse as time_all
from pausefl.flower.server.timed_grid import ChosenGrid, Exchange, TimedGrid
from pausefl.flower.server.training_rounds import Plan, PlayedRound, RunState, play
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy.aggregation import Aggregation, Aggregator, Rule
from pausefl.selection.policy_contract import SIGNALS
from pausefl.selector import Selector
from pausefl.selector.deadline import Deadline
from pausefl.types import ClientId, Epsilon, FloatArray, Seconds

_UNPAID = ("unready", "bad-request", "not-allowed")
"""Refusals for which no client was charged."""
_LATE = "late"
"""What is wrong with a client that was not waited for, because enough others had answered."""


class PauseStrategy(Strategy):
    """Wraps any Flower strategy, which then sees in each round only the nodes that the selector chose.

    Args:
        inner: The strategy that makes messages and averages replies, for example ``FedAvg()``.  Its own sampling must
            be off.
        selector: Decides who takes part.
        latency: How the time of a client is measured, see :data:`~pausefl.flower.server.replies.Latency`.
        names: How the server recognises nodes, see :mod:`~pausefl.flower.server.clients_and_nodes`.
        newcomers: What happens to nodes that the selector does not know: ``"ignore"`` leaves them alone, and ``"join"``
            makes them clients from then on.
        fewer: What happens if there are fewer candidates than the selector wants after ``wait`` seconds.  ``"error"``
            ends the run, and ``"smaller"`` plays a smaller round.
        wait: For how many seconds the server waits for nodes.
        poll: How many seconds pass between two looks for replies.  Measured latencies are not more exact than this.
        checkpoint: A file that is written after each round.  If it exists, ``start`` continues from it.
        epsilon: Asks clients to use at most this epsilon per release.  Clients ignore a value above their own.
        clip: Asks clients to use at most this clip.  Clients ignore a value above their own.
        aggregation: With ``"matched"`` the noise of the replies sets the weights by which the inner strategy averages,
            and how far the model moves towards what it returns, see :class:`~pausefl.privacy.aggregation.Aggregation`.
            An inner strategy that does not weigh replies gets the step only.
        step: How far the model moves towards what the inner strategy returns.
        average: If it is above 0, a mean of the models is evaluated and returned.  Clients still train from the latest
            model.
        rehearse: Whether the server asks all clients at once to work on made-up data before the first round of a run.
            Then the selector knows how fast they are.  A resumed run does not rehearse again.
        over_select: How many nodes are asked, as a multiple of what the selector picks per round, rounded up.
        close_after: The round closes after this many sound answers.  None means the selector's number if more nodes are
            asked, and otherwise all of them.
        deadline: Seconds after which a round closes in any case, or a :class:`~pausefl.selector.deadline.Deadline` that
            learns them.  It is never more than the ``timeout`` of ``start``.
        late: What happens to replies that come after their round has closed.  The server looks for them in the next
            rounds.  With ``"use"`` the update of a sound reply is added to the current model and averaged with weight
            1/(1 + rounds late).  With ``"waste"`` the reply is only counted.  Its client has paid for it in both cases.
        seed: Decides the latencies that a model of ``latency`` draws.

    The first answer of a node includes the start of its processes, so its latency is provisional.  It counts until
    there is another one.

    Law: a node that was not chosen is not asked to train.  A client that did not answer in time, failed or refused
    counts as no answer.  A client whose budget is gone is never a candidate again.  When too few clients have budget
    left for a round, the run ends.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = PauseStrategy(FedAvg(fraction_evaluate=0.0), Selector({"a": 120, "b": 300, "c": 80}, per_round=2))
    >>> strategy.history  # strategy.start(grid, arrays, num_rounds=50) plays rounds
    ()
    """

    def __init__(
        self,
        inner: Strategy,
        selector: Selector,
        *,
        latency: answers.Latency = "round-trip",
        names: Names = "hello",
        newcomers: Newcomers = "ignore",
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
        over_select: float = 1.0,
        close_after: int | None = None,
        deadline: Seconds | Deadline | None = None,
        late: Late = "waste",
        seed: int = 0,
    ) -> None:
        if not isinstance(selector, Selector):
            raise InvalidValueError(
                f"selector is a {type(selector).__name__}, but must be a pausefl.Selector; pass PauseStrategy(inner, "
                "selector)"
            )
        told = sorted(selector.policy.needs & frozenset(SIGNALS))
        if told:
            raise InvalidValueError(
                f"policy is {selector.policy.name!r}, which needs the {' and '.join(told)} of each client, but the "
                "clients of a Flower run do not tell it; use a policy that needs no signal, such as 'pause'"
            )
        require(fewer in ("error", "smaller"), "fewer", fewer, "'error' or 'smaller'", "'smaller' plays smaller rounds")
        require(is_finite(wait) and wait >= 0.0, "wait", wait, "a number of seconds from 0", "60 is the default")
        answers.check_latency(latency, len(selector.cohort))
        require(
            names in get_args(Names), "names", names, f"one of {', '.join(get_args(Names))}", "'hello' is the default"
        )
        require(
            newcomers in get_args(Newcomers),
            "newcomers",
            newcomers,
            "'ignore' or 'join'",
            "'join' lets new nodes take part",
        )
        if newcomers == "join":
            fixed_list = "left out where newcomers join, because it is for a fixed list of clients"
            require(isinstance(latency, str), "latency", type(latency).__name__, "'round-trip' where newcomers join",
                    "a model has a column for each client of a fixed list")  # fmt: skip
            # Refused here, since a node that connects in mid-run would end it.
            alike = selector.reward.budgets.table.only is not None
            require(
                alike,
                "schedule",
                "one per client",
                "the same for all where newcomers join",
                "pass one schedule for all",
            )
            clustered = selector.problem().clusters is not None
            require(not clustered, "clusters", "one per client", fixed_list, "leave out clusters or newcomers")
        require(is_finite(poll) and poll > 0.0, "poll", poll, "a number of seconds above 0", "0.1 is the default")
        require(is_finite(over_select) and over_select >= 1.0, "over_select", over_select, "a number from 1",
                "1.3 asks for 30 % more")  # fmt: skip
        whole = isinstance(close_after, int) and not isinstance(close_after, bool) and close_after >= 1
        require(close_after is None or whole, "close_after", close_after, "a whole number from 1", "None waits for all")
        fixed = deadline is None or isinstance(deadline, Deadline) or (is_finite(deadline) and deadline > 0.0)
        require(
            fixed,
            "deadline",
            deadline,
            "seconds above 0 or a Deadline",
            "for example Deadline(quantile=0.9, slack=2.0)",
        )
        require(late in get_args(Late), "late", late, "'waste' or 'use'", "'use' adds a late update to the next round")
        least = least_round(inner, selector.per_round)
        self._inner, self._selector, self._latency, self._names = inner, selector, latency, names
        self._fewer, self._poll, self._seed, self._rehearses = fewer, poll, seed, rehearse
        needed = selector.per_round if fewer == "error" else least
        self._candidates = partial(AvailableClients, selector, names, newcomers, needed, wait)
        self._aggregator = Aggregator(Aggregation(aggregation, step, average))
        path = None if checkpoint is None else Path(checkpoint)
        # An exact product, if it is one: 1.1 times 10 are 11, whatever rounding makes of it.
        self._asked = math.ceil(round(over_select * selector.per_round, 9))
        self._close_after = selector.per_round if close_after is None and over_select > 1.0 else close_after
        self._deadline, self._use_late = deadline, late == "use"
        self._late, self._lost = LateReplies(), list[tuple[ClientId, int]]()
        self._checkpoints = Checkpoints(
            path,
            selector,
            inner,
            self._aggregator,
            deadline if isinstance(deadline, Deadline) else None,
            open_list=newcomers == "join",
        )
        self._wish = TrainingRequest("wish", 0, epsilon=epsilon, clip=clip)
        self._state = RunState()
        self._available = self._candidates(self._state)
        self._evaluation = Evaluation(inner)
        self._told_unprotected = False
        self._timed: TimedGrid | None = None
        self._repeated: int | None = None
        self._chosen: dict[int, ClientId] = {}
        self._key = "arrays"
        self._exchange: Exchange | None = None
        self._limit: Seconds | None = None

    @property
    def history(self) -> tuple[PlayedRound, ...]:
        """Who was picked in each round, why, and what came of it."""
        return tuple(self._state.history)

    @property
    def exhausted(self) -> frozenset[ClientId]:
        """The clients whose budget is gone."""
        return frozenset(self._state.exhausted)

    def summary(self) -> None:
        """Log the selector and how latency is measured, the latest round, and the inner strategy."""
        kind = self._latency if isinstance(self._latency, str) else type(self._latency).__name__
        log(INFO, "\t├──> PAUSE: %r", self._selector)
        log(INFO, "\t│\t├── latency: %s, names: %s, too few nodes: %s", kind, self._names, self._fewer)
        if self._close_after is not None or self._deadline is not None:
            close = f"after {self._close_after} answers" if self._close_after else "when all have answered"
            limit = "none" if self._deadline is None else self._deadline
            log(INFO, "\t│\t├── asks %s nodes, closes %s, deadline: %s", self._asked, close, limit)
        log(INFO, "\t│\t├── checkpoint: %s", self._checkpoints.path or "none")
        if self._state.history:
            log(INFO, "\t│\t├── %s", self._state.history[-1].line())
        log(INFO, "\t│\t└── budget is spent: %s", ", ".join(sorted(map(str, self._state.exhausted))) or "nobody's")
        self._inner.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the nodes, and let the inner strategy write their messages."""
        if self._timed is None or self._timed.grid is not grid:
            raise OutOfOrderError(
                "PauseStrategy must be the outer strategy; call its own start, and put other strategies inside it"
            )
        answers.check_latency(self._latency, len(self._selector.cohort))  # clients may have joined
        ready = self._available.ready(self._timed, server_round)
        if not ready:
            return []
        chosen = self._selector.select(ready, allow_fewer=self._fewer == "smaller")
        if len(ready) > self._selector.per_round < self._asked:
            chosen = self._selector.select(ready, allow_fewer=True, per_round=self._asked)
        self._chosen = {self._available.here[client]: client for client in chosen.members}
        view = ChosenGrid(grid, list(self._chosen))
        messages = list(self._inner.configure_train(server_round, arrays, config, view))
        asked = sorted(message.metadata.dst_node_id for message in messages)
        if asked != sorted(self._chosen):
            raise OutOfOrderError(
                f"the inner strategy asks {len(asked)} nodes, but {len(self._chosen)} were chosen; "
                "it must send one message to each node that its grid shows"
            )
        self._key = next((key for message in messages for key in records_in(message.content, ArrayRecord)), self._key)
        request = request_record(replace(self._wish, run=self._state.name, round=server_round))
        for content in {id(message.content): message.content for message in messages}.values():
            content[RECORD] = request
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Learn how long each client took, and let the inner strategy aggregate the sound replies."""
        chosen, exchange, model = self._selector.pending, self._exchange, self._state.model
        if chosen is None or exchange is None:
            raise OutOfOrderError("aggregate_train was called with no open round; call start instead")
        weight = weight_key(self._inner)
        verdicts = self._judge(exchange, model, weight)
        sound = [one for one in verdicts if not one.fault]
        seconds = self._seconds(server_round, sound)
        self._learn(verdicts, seconds, answers.flat_updates(sound, model) if self._selector.policy.learns else None)
        came = self._hear_late(exchange, server_round, weight)
        used = [one for one in came if self._use_late and not one.verdict.fault]
        self._late.remember(exchange, self._chosen, server_round, model)
        spent = self._selector.spent()[self._selector.cohort.rows(chosen)].tolist()
        wasted = [*self._lost, *((one.verdict.client, server_round - one.staleness) for one in came if one not in used)]
        closed = exchange.early or self._cut(exchange)
        played = PlayedRound(
            server_round,
            chosen.members,
            {name: value if is_finite(value) else None for name, value in chosen.terms.items()},
            {str(client): taken for client, taken in seconds.items()},
            {str(one.client): one.fault for one in verdicts if one.fault and one.fault != _LATE},
            {str(client): leaked for client, leaked in zip(chosen, spent, strict=True)},
            exchange.took,
            tuple(str(self._chosen[node]) for node in exchange.waiting.values()) if closed else (),
            {str(one.verdict.client): one.weight for one in used},
            tuple((str(client), number) for client, number in wasted),
        )
        self._exchange, self._lost, self._state.open = None, [], self._late.open
        self._state.history.append(played)
        log(INFO, "pausefl: %s", played.line())
        self._warn_of_unprotected(sound)
        if not sound:
            log(WARNING, "pausefl: round %s: no reply could be used: %s", server_round, answers.faults(verdicts))
        # Where replies are not weighed, the update itself is made smaller.
        added = [one.rebased(model, 1.0 if weight else one.weight) for one in used]
        step = self._settle([*sound, *added], weight, chosen.weights, [one.weight for one in used])
        kept = [one.reply for one in (*verdicts, *added) if one.reply is not None]
        arrays, metrics = self._inner.aggregate_train(server_round, kept)
        if arrays is not None:
            arrays = stepped(model, in_types_of(model, arrays), step)
            if self._aggregator.settings.average > 0.0:
                self._aggregator.remember(flat_model(arrays))
        return arrays, MetricRecord({**(metrics or {}), **played.metrics()})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the inner strategy evaluate on the nodes that are there, if they are enough for it."""
        asked = self._evaluation.asked(self._available.here.values())
        return self._inner.configure_evaluate(server_round, arrays, config, ChosenGrid(grid, asked)) if asked else []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the inner strategy average the answers."""
        settled = answers.settle_evaluation(self._evaluation.answered(replies), weight_key(self._inner))
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
        """Play up to ``num_rounds`` rounds, from the checkpoint if there is one; return Flower's result.

        Args:
            grid: Flower's connection to the nodes.
            initial_arrays: The model before the first round.  A checkpoint has its own.
            num_rounds: After how many rounds the run ends, those of the checkpoint included.
            timeout: For how many seconds to wait for the replies of a round, unless a deadline ends it before.
            train_config: Sent to the clients with every request to train.
            evaluate_config: Sent to the clients with every request to evaluate.
            evaluate_fn: Evaluates the model on the server, given the number of the round and the model.
        """
        plan = Plan(num_rounds, timeout, train_config or ConfigRecord(), evaluate_config or ConfigRecord(), evaluate_fn)
        self._timed = TimedGrid(grid, poll=self._poll)
        with self._checkpoints.held():
            self._begin(grid, initial_arrays, num_rounds)
            self.summary()
            return play(self, self._timed, self._state, plan)

    @property
    def scored(self) -> ArrayRecord:
        """The model that is evaluated, and returned in the end: the latest, or the mean of models with ``average``."""
        model, mean = self._state.model, self._aggregator.mean
        return model if mean is None else shaped(mean, model)

    def rehearse(self, grid: TimedGrid, plan: Plan) -> None:
        """Time all clients that are there, if ``rehearse`` is set and the run is new, and tell the selector."""
        if not self._rehearses or self._repeated is not None:
            return
        nodes = {client: self._available.here[client] for client in self._available.ready(grid, 1, everybody=True)}
        taken = time_all(grid, nodes, self._inner, self._state.model, plan, by_name=self._names == "hello")
        measured = isinstance(self._latency, str)
        self._selector.expect(
            answers.latencies(self._latency, 0, self._selector.cohort, self._seed, taken, {}), provisional=measured
        )
        self._state.warm |= {nodes[client] for client in taken}
        self.save()

    def exchange(self, grid: TimedGrid, messages: Iterable[Message], timeout: Seconds) -> Iterable[Message]:
        """Send a round's messages and time the replies, until it closes; collect late ones of earlier rounds."""
        limit = self._deadline.seconds if isinstance(self._deadline, Deadline) else self._deadline
        self._limit = None if limit is None or limit >= timeout else limit
        enough = None if self._close_after is None else self._enough(self._close_after)
        self._checkpoints.announce(self._state.rounds + 1, list(self._chosen.values()))
        self._exchange = grid.exchange(
            messages, timeout if self._limit is None else self._limit, enough=enough, late=self._late.ids
        )
        return self._exchange.replies

    def end(self) -> None:
        """Log which replies nobody will fetch any more, and forget them."""
        if self._late.open:
            who = ", ".join(f"{client} (round {number})" for client, number in self._late.open[:20])
            log(
                WARNING,
                "pausefl: the run ends before these clients answered, so they may have spent budget for nothing: %s",
                who,
            )
        self._late.forget()
        self._state.open = []

    def end_early(self) -> None:
        """Note in the checkpoint that no further round will come, for people who watch."""
        self._state.ended = True
        self._checkpoints.write(self._state)

    def over(self) -> str | None:
        """Say why too little budget is left for another round; None while it is enough."""
        return self._available.over()

    def save(self) -> None:
        """Write the checkpoint, if ``checkpoint`` names a file."""
        self._checkpoints.save(self._state)

    def _begin(self, grid: Grid, initial: ArrayRecord, rounds: int | None = None) -> None:
        found = self._checkpoints.resume(initial)
        self._repeated = None if found is None else found.rounds + 1
        if found is None:
            # Not Flower's id alone: a second start in one run is not a repetition of the first.
            name, before = f"flwr-{grid.run.run_id}-{uuid4().hex[:12]}", self._state
            found = RunState(name, 0, Result(arrays=initial), before.history, before.exhausted, planned=rounds)
            self._aggregator.restore({})
            self._checkpoints.save(found)  # the run keeps its name even if it dies in its first round
        found.planned, found.ended = rounds, False
        self._state, self._available = found, self._candidates(found)
        self._evaluation, self._told_unprotected = Evaluation(self._inner), False
        self._late.forget()
        self._lost, found.open = found.open, []  # replies to another process's requests cannot be fetched

    def _seconds(self, number: int, sound: list[answers.Verdict]) -> dict[ClientId, Seconds]:
        measured = {one.client: one.seconds for one in sound}
        reported = {one.client: one.reported for one in sound if one.reported is not None}
        # Only the round in which an earlier server died can have been answered before.
        replayed = {one.client for one in sound if one.replayed and number == self._repeated}
        return answers.latencies(self._latency, number, self._selector.cohort, self._seed, measured, reported, replayed)

    def _enough(self, count: int) -> Callable[[Mapping[int, Message]], bool]:
        """Return a function that says whether so many of the replies so far are sound; it judges each only once."""
        weight, sound = weight_key(self._inner), dict[int, bool]()

        def enough(replies: Mapping[int, Message]) -> bool:
            new = {node: reply for node, reply in replies.items() if node not in sound}
            found = Exchange(list(new.values()), new, dict.fromkeys(new, 1.0))
            chosen = {node: self._chosen[node] for node in new}
            verdicts = answers.judge(found, chosen, self._state.model, weight, by_note=self._names == "hello")
            sound.update(zip(new, (not one.fault for one in verdicts), strict=True))
            return sum(sound.values()) >= count

        return enough

    def _warn_of_unprotected(self, sound: Sequence[answers.Verdict]) -> None:
        """Say once in a run that updates come without noise, unless nothing asks for privacy."""
        wished = self._wish.epsilon is not None or self._wish.clip is not None
        bare = sum(one.releases is None for one in sound)
        if self._told_unprotected or not bare or (self._names == "node" and not wished):
            return
        self._told_unprotected = True
        log(WARNING, "pausefl: %s of %s replies came without pausefl's mod, so these updates are NOT private; %s", bare,
            len(sound), "if you want privacy, write ClientApp(mods=[PrivateUpdate()]) in the app")  # fmt: skip

    def _cut(self, exchange: Exchange) -> bool:
        """Say whether a round closed at its deadline, and not at the timeout."""
        return bool(exchange.waiting) and not exchange.early and self._limit is not None

    def _judge(self, exchange: Exchange, model: ArrayRecord, weight: str | None) -> list[answers.Verdict]:
        verdicts = answers.judge(exchange, self._chosen, model, weight, by_note=self._names == "hello")
        if not exchange.early:
            return verdicts
        # Nobody waited for these: they are slower than others, and need not be gone.
        waiting = {self._chosen[node] for node in exchange.waiting.values()}
        return [answers.Verdict(one.client, _LATE) if one.client in waiting else one for one in verdicts]

    def _hear_late(self, exchange: Exchange, number: int, weight: str | None) -> list[LateReply]:
        """Judge the replies to earlier rounds, and take over what their clients say: they have paid."""
        came = self._late.judge(exchange.late, number, weight, by_note=self._names == "hello")
        if not came:
            return []
        cohort = self._selector.cohort
        # One that has left meanwhile is nobody's candidate.
        here = [one for one in came if (row := cohort.find(one.verdict.client)) is not None and cohort.present[row]]
        for cold in (True, False):
            fresh = [one.verdict for one in here if not one.verdict.fault and self._is_cold(one.node) is cold]
            self._selector.expect(self._seconds(number, fresh), provisional=cold)
        self._state.warm |= {one.node for one in here if not one.verdict.fault}
        # Whoever has been asked again may have said more in a later reply; then it counts no fewer releases here.
        counted = cohort.releases[cohort.rows([one.verdict.client for one in here])].tolist()
        news = [(one.verdict.releases or 0) > count or not self._asked_again(one)
                for one, count in zip(here, counted, strict=True)]  # fmt: skip
        self._take_notes([one.verdict for one, new in zip(here, news, strict=True) if new])
        return [one for one in came if one.verdict.fault not in (*_UNPAID, "exhausted", "repeated", "no answer")]

    def _asked_again(self, late: LateReply) -> bool:
        rounds = [played.members for played in self._state.history[len(self._state.history) + 1 - late.staleness :]]
        return any(late.verdict.client in members for members in (*rounds, self._chosen.values()))

    def _is_cold(self, node: int) -> bool:
        """Say whether the next latency of a node includes the start of its processes."""
        return isinstance(self._latency, str) and node not in self._state.warm

    def _settle(
        self,
        sound: list[answers.Verdict],
        weight: str | None,
        own: Mapping[ClientId, float] | None,
        discounts: Sequence[float] = (),
    ) -> float:
        """Make the replies ones that the inner strategy can average by their weights; return the step to take.

        The last of them are late, and weigh less by these ``discounts``.
        """
        if own is not None and discounts:  # one that was not drawn in this round weighs as much as the mean
            own = dict.fromkeys((one.client for one in sound), sum(own.values()) / len(own)) | dict(own)
        weights: Sequence[int | float] = answers.plain_weights(sound, weight, own)
        in_time = len(sound) - len(discounts)
        weights = [*weights[:in_time], *(w * d for w, d in zip(weights[in_time:], discounts, strict=True))]
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
        cold = {client for node, client in self._chosen.items() if self._is_cold(node)}
        late = {one.client for one in verdicts if one.fault == _LATE}
        self._selector.observe(seconds, updates, provisional=cold, late=late)
        self._state.warm |= {node for node, client in self._chosen.items() if client in seconds}
        if isinstance(self._deadline, Deadline):
            missed = sum(one.fault == "no answer" for one in verdicts)
            self._deadline.learn((one.seconds for one in verdicts if not one.fault), missed)
        if before:
            self._selector.report(before)
        self._take_notes(verdicts)
        self._available.doubt(one.client for one in verdicts if one.doubted)

    def _take_notes(self, verdicts: list[answers.Verdict]) -> None:
        """Take over what clients say of themselves in their replies."""
        self._state.exhausted |= {one.client for one in verdicts if one.fault == "exhausted"}
        told = {one.client: one.releases for one in verdicts if one.releases is not None}
        left = {one.client: one.left for one in verdicts if one.left is not None}
        self._available.learn(told, [one.client for one in verdicts if not one.fault], left)
        noise = {one.client: one.next_noise for one in verdicts if one.next_noise is not None}
        if noise:
            self._selector.report(noise=noise)
