"""One round after the other: select, charge, train, bound and noise, aggregate, observe, record.

Reference: PAUSE, Alg. 1 and eq. (fl_update).  A round is a function of (state, round number), so a run that was resumed
equals one that was not, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from pausefl.errors import StateFileError, require
from pausefl.privacy import Gaussian, Mechanism, Schedule, SimulatedNoise
from pausefl.privacy.aggregation import Aggregation, Aggregator, weighted_sum
from pausefl.privacy.ledger.price import Price
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.privacy.signals import Signals
from pausefl.rewards.set_rewards import collisions
from pausefl.rng import stream
from pausefl.selector import Selector
from pausefl.selector.deadline import Deadline
from pausefl.selector.decision import Selection
from pausefl.sim.charges import Charges, SignalTerms
from pausefl.sim.closing import Closing, closed
from pausefl.sim.late_answers import LateAnswers
from pausefl.sim.learner import Learner, RecordNoise, Scores, Vector
from pausefl.sim.network import Network, Outcome
from pausefl.sim.signal_round import told_signals
from pausefl.system.state_file import arrays_under
from pausefl.types import BoolArray, ClientId, Epsilon, FloatArray, IntArray, Seconds

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """The members of a round: who arrived in time, who will be late and of use, and what each tells its signals for."""

    chosen: Selection
    rows: IntArray
    arrived: BoolArray
    kept: BoolArray
    place_out: IntArray  # of those that are still out: which of the late answers is theirs
    epsilons: Sequence[Epsilon | None]


class Simulation:
    """Federated training with a virtual clock.

    Without a learner only selection and clock run; without a ``mechanism`` updates are sent as they are.  The budget of
    each client is spread over its releases by the selector's schedule, and charged by the rule of the real ledger.
    Simulated noise is repeatable and therefore not private; the clients are simulated, too.

    With ``rehearsal`` all clients that are there do the work of a round on made-up data before the first one, at once.
    It costs time and no budget, and the selector knows their latencies from it.

    ``signals``: on which terms clients tell their loss or accuracy to a policy that wants to hear it.  Those that it
    asks tell before it picks, which takes time; otherwise members tell with their update.

    ``closing``: whether more clients are asked than are waited for, and when a round is closed.  Who is still out then
    has paid, and is no candidate until its answer arrives.  It is timed then, by its true latency, so being late is
    no advantage.  Its update is lost, or comes into use in that round with its weight divided by 1 + the rounds that
    it is late.
    """

    def __init__(
        self,
        selector: Selector,
        network: Network,
        *,
        learner: Learner | None = None,
        mechanism: Mechanism | None = None,
        aggregation: Aggregation | None = None,
        seed: int = 0,
        evaluate_every: int = 1,
        rehearsal: bool = False,
        signals: SignalTerms | None = None,
        closing: Closing | None = None,
    ) -> None:
        schedule, wants = selector.reward.schedule, bool(selector.policy.signals)
        fine = mechanism is None or isinstance(schedule, Schedule)
        require(fine, "schedule", schedule, "a Schedule where updates are noised", "pass schedule=… to the Selector")
        fine = mechanism is None or signals is not None or not wants
        require(fine, "signals", None, f"given, because {selector.policy.name!r} hears signals", "pass a SignalTerms")
        bare = SignalTerms(Signals(kind="bare"), None, schedule.budget)
        self._signals = (signals or bare) if wants else None
        self.selector, self.network, self._learner, self._mechanism = selector, network, learner, mechanism
        self._seed, self._evaluate_every, self._rehearsal = seed, evaluate_every, rehearsal
        self._charges = Charges(selector, mechanism, self._signals, trained=learner is not None)
        self._aggregator = Aggregator(aggregation or Aggregation())
        self._seconds = 0.0
        self.number = 0
        self._online = np.ones(len(selector.cohort), dtype=np.bool_)
        self.model: Vector = np.empty(0, dtype=np.float32) if learner is None else learner.initial()
        self._closing = closing = closing or Closing()
        quantile = closing.deadline_quantile
        self._deadline = None if quantile is None else Deadline(quantile, closing.deadline_slack)
        self._late = self._out(np.empty(0, dtype=np.int64), 0, np.empty(0), 0.0)

    def step(self) -> dict[str, Any]:
        """Play one round, score its model, and return its record."""
        record, _ = self._round(score=False)
        return self._scored(record)

    def play(self, rounds: int, pause_every: int = 1) -> Iterator[dict[str, Any]]:
        """Play on up to round number ``rounds``; yield a record per round, the last one always scored.

        A model is scored while the next round trains from it, on cores that would be idle; a mean of models, which no
        round trains from, is scored at once.  At every ``pause_every``-th record nothing runs ahead: ``state`` then
        belongs to the record just yielded.
        """
        waiting: dict[str, Any] | None = None
        while self.number < rounds:
            try:
                record, scores = self._round(score=waiting is not None)
            except Exception:
                if waiting is not None:
                    yield waiting  # what was played is not lost with what failed
                raise
            if waiting is not None:
                yield waiting | _said(scores.result() if scores is not None else None)
                waiting = None
            number = record["round"]
            due = number == rounds or number % self._evaluate_every == 0
            if due and number % pause_every and number != rounds and self._aggregator.mean is None:
                waiting = record
                if self._learner is not None:
                    self._learner.announce(self.model)
            else:
                yield self._scored(record) if due else record

    def _round(self, score: bool) -> tuple[dict[str, Any], Future[Scores] | None]:
        """Play a round; with ``score`` also score the model it starts from."""
        number = self.number + 1
        self._online = self.network.online(self._online, number)
        record: dict[str, Any] = {"round": number, "members": [], "latency": 0.0, "arrived": 0, "terms": None}
        if self._rehearsal and number == 1:
            record["rehearsal"] = self._rehearse()
        back = self._come_back(self._seconds)
        ready = self._online & self.selector.problem().solvent()
        ready[self._late.rows] = False  # they still work for an earlier round
        scores = None
        if ready.any():
            more, scores = self._play(ready, back, number, score)
            record |= more
        else:
            if score and self._learner is not None:
                scores = _ready(self._learner.evaluate(self.model))
            if len(self._late):  # nobody else can take part before the first of them is back
                before, self._seconds = self._seconds, float(self._late.arrival.min())
                back = back.joined(self._come_back(self._seconds))
                record["latency"] = self._seconds - before
            record |= self._aggregate(np.empty(0), [], np.empty((0, len(self.model)), np.float32), back, number)
        self.number = number
        return record | {"seconds": self._seconds} | self._charges.leakage(), scores

    def _play(
        self, ready: BoolArray, back: LateAnswers, number: int, score: bool
    ) -> tuple[dict[str, Any], Future[Scores] | None]:  # fmt: skip
        """Play a round with some of those who are ready; ``back`` are answers to earlier rounds."""
        selector, closing = self.selector, self._closing
        record: dict[str, Any] = {}
        size = closing.asked(selector.per_round) if closing.over_select > 1.0 else None
        there, asking = None if ready.all() else ready, 0.0
        if self._asks:
            asked, asking = self._ask(there, size, number)
            record |= {"signals": asked, "asking": asking}
        chances = selector.chances(there, allow_fewer=True, per_round=size)
        chosen = selector.select(there, allow_fewer=True, per_round=size)
        if chances is not None:
            record["chances"] = [chances[client] for client in chosen.members]
        rows = selector.cohort.rows(chosen.members)
        epsilons: list[Epsilon | None] = [None] * len(rows)
        if self._signals is not None and not self._asks:
            epsilons = self._charges.charge_signals(rows)
            record["signals"] = [k for k, e in zip(chosen.members, epsilons, strict=True) if e is not None]
        whole = self.network.play(rows, number)
        awaited = closing.awaited(selector.per_round, everybody=selector.policy.size == "all")
        deadline = None if self._deadline is None else self._deadline.seconds
        outcome, out = closed(whole, awaited, deadline, self._congestion(rows))
        start, latency = self._seconds + asking, outcome.latency
        self._seconds = start + outcome.seconds
        back = back.joined(self._come_back(self._seconds))
        late = self._out(rows[out], number, latency[out], start)
        kept = whole.arrived & out if closing.late == "use" else np.zeros_like(out)
        answers = _Answers(chosen, rows, outcome.arrived, kept, np.cumsum(out) - 1, epsilons)
        released, more, scores = self._learn(answers, late, back, number, score)
        self._late = self._late.joined(late)
        seen = ~np.isnan(latency) & ~out
        if self._deadline is not None:
            self._deadline.learn(latency[seen])
        selector.observe(
            {k: t if ok else None for k, t, ok in zip(chosen.members, latency.tolist(), seen, strict=True)},
            updates=released if selector.policy.learns else None,
            late=[k for k, still in zip(chosen.members, out, strict=True) if still],
        )
        record |= {"latencies": [_short(seconds) for seconds in latency.tolist()]}
        return record | _choice(chosen, outcome, asking) | more, scores

    def _congestion(self, rows: IntArray) -> Seconds:
        """Return how long a round with these members takes beyond the wait for answers."""
        clusters = self.network.clusters
        return 0.0 if clusters is None else self.network.congestion * collisions(clusters[rows])

    def _out(self, rows: IntArray, number: int, seconds: FloatArray, start: Seconds) -> LateAnswers:
        """Return clients that are still out when their round is closed."""
        dimension = len(self.model) if self._closing.late == "use" else 0
        return LateAnswers.out(rows, number, seconds, start, dimension, len(self.selector.policy.signals))

    def _come_back(self, clock: Seconds) -> LateAnswers:
        """Time the late answers that are there by now; return those that are of use."""
        due = self._late.arrival <= clock
        back, self._late = self._late.where(due), self._late.where(~due)
        if len(back):
            ids = self.selector.cohort.ids
            self.selector.expect(
                {ids[row]: t for row, t in zip(back.rows.tolist(), back.seconds.tolist(), strict=True)}
            )
            if self._deadline is not None:
                self._deadline.learn(back.seconds)
            self._hear(back.rows, back.told)
        return back.where(back.used)

    @property
    def _asks(self) -> bool:
        return self._signals is not None and self.selector.policy.asks

    def _ask(self, there: BoolArray | None, size: int | None, number: int) -> tuple[list[ClientId], Seconds]:
        """Let the clients that the policy wants to hear tell their signals; return who paid, and how long it took.

        Who has nothing left to tell with is not asked.  Who drops out in this round does not answer, but has paid.
        Nobody waits for those who straggle, as if the server knew who will be silent: it is kind to policies that ask.
        """
        signals, cohort = cast(SignalTerms, self._signals), self.selector.cohort
        rows = cohort.rows(self.selector.asked(there, allow_fewer=True, per_round=size))
        epsilons = self._charges.charge_signals(rows)
        paid = np.array([epsilon is not None for epsilon in epsilons], dtype=np.bool_)
        if not paid.any():
            return [], 0.0
        latency = self.network.play(rows, number).latency
        answers = paid & ~np.isnan(latency)
        told = [epsilon if answered else None for epsilon, answered in zip(epsilons, answers, strict=True)]
        self._hear(rows, self._told(rows, told, number))
        seconds = signals.seconds_share * float(latency[answers].max(initial=0.0))
        return [cohort.ids[row] for row in rows[paid].tolist()], seconds

    def _told(self, rows: IntArray, epsilons: Sequence[Epsilon | None], number: int) -> FloatArray:
        """Return what these clients tell of the model that the round starts from: a column per signal, NaN: nothing."""
        policy = self.selector.policy
        told = np.full((len(rows), len(policy.signals)), np.nan)
        telling = np.array([epsilon is not None for epsilon in epsilons], dtype=np.bool_)
        if self._signals is None or self._learner is None or not telling.any():
            return told
        found = told_signals(
            self._learner, self.model, rows[telling], [epsilon for epsilon in epsilons if epsilon is not None], number,
            names=policy.signals, settings=self._signals.settings,
            unit="update" if self._mechanism is None else self._mechanism.guarantee.unit, seed=self._seed,
            minibatch=bool(getattr(policy, "minibatch", False)),
        )  # fmt: skip
        told[telling] = np.column_stack([found[name] for name in policy.signals])
        return told

    def _hear(self, rows: IntArray, told: FloatArray) -> None:
        """Hand on what these clients tell."""
        ids = self.selector.cohort.ids
        for name, column in zip(self.selector.policy.signals, told.T, strict=True):
            known = zip(rows.tolist(), column.tolist(), strict=True)
            self.selector.hear({name: {ids[row]: value for row, value in known if not np.isnan(value)}})

    def _heard(self, count: int, places: IntArray, told: FloatArray) -> dict[str, Any]:
        """Return what the record says of the members' signals: what policies need that know their chances."""
        policy = self.selector.policy
        if not policy.signals or policy.asks or not policy.tells_chances:
            return {}
        columns = np.full((count, len(policy.signals)), np.nan)
        columns[places] = told
        named = zip(policy.signals, columns.T.tolist(), strict=True)
        return {"told": {name: [None if np.isnan(one) else one for one in column] for name, column in named}}

    def _rehearse(self) -> Seconds:
        """Time everybody who is there, and return how long it took; who does not answer stays unknown."""
        rows = np.flatnonzero(self._online)
        outcome = self.network.play(rows, 0)
        ids = self.selector.cohort.ids
        self.selector.expect(dict(zip((ids[row] for row in rows.tolist()), outcome.latency.tolist(), strict=True)))
        self._seconds += outcome.seconds
        return outcome.seconds

    def _scored(self, record: dict[str, Any]) -> dict[str, Any]:
        return record if self._learner is None else record | _said(self._learner.evaluate(self.scored))

    @property
    def scored(self) -> Vector:
        """The model that counts: the latest, or the mean of models where one is kept."""
        mean = self._aggregator.mean
        return self.model if mean is None else mean.astype(np.float32)

    def guarantee(self) -> str:
        """Say in one line what the leakage numbers cover."""
        return self._charges.guarantee(len(self.model))

    def client_accuracies(self) -> FloatArray:
        """Return the model's accuracy (percent) on each client's own data."""
        return np.empty(0) if self._learner is None else self._learner.client_accuracies(self.scored)

    def close(self) -> None:
        """End whatever runs in the background."""
        if self._learner is not None:
            self._learner.close()

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return everything that a later process needs to continue."""
        header, columns = self.selector.state()
        arrays: dict[str, npt.NDArray[Any]] = {"model": self.model, "online": self._online}
        if len(self._charges.tellings):
            arrays["tellings"] = self._charges.tellings
        arrays |= {f"late.{name}": array for name, array in self._late.state().items()}
        if self._deadline is not None:
            arrays |= {f"deadline.{name}": array for name, array in self._deadline.state().items()}
        arrays |= {f"selector.{name}": array for name, array in columns.items()}
        arrays |= {f"aggregator.{name}": array for name, array in self._aggregator.state().items()}
        if self._learner is not None:
            arrays |= {f"learner.{name}": array for name, array in self._learner.state().items()}
        return {"selector": header, "number": self.number, "clock": self._seconds}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from what ``state`` returned; the parts must be built from the same configuration."""
        self.selector.restore(header["selector"], arrays_under("selector", arrays))
        if self._learner is not None:
            self._learner.restore(arrays_under("learner", arrays))
        self._aggregator.restore(arrays_under("aggregator", arrays))
        self.model = _like(self.model, arrays["model"])
        self._online = _like(self._online, arrays["online"])
        if "tellings" in arrays:
            self._charges.tellings = _like(self._charges.tellings, arrays["tellings"])
        self._late = self._late.restored(arrays_under("late", arrays))
        if self._deadline is not None:
            self._deadline.restore(arrays_under("deadline", arrays))
        self.number, self._seconds = int(header["number"]), float(header["clock"])

    def _learn(
        self, answers: _Answers, late: LateAnswers, back: LateAnswers, number: int, score: bool
    ) -> tuple[dict[ClientId, Any], dict[str, Any], Future[Scores] | None]:
        """Hear signals, train, noise and aggregate.

        Return what the server received in time, by client; what the record says of it; and the old model's scores.
        """
        learner, rows, scores = self._learner, answers.rows, None
        coming = answers.arrived | answers.kept
        if learner is None:
            return {}, _unless_0("wasted", len(rows) - int(coming.sum())), None
        prices = self._charges.update_prices(rows)
        paid = np.array([price is not None for price in prices], dtype=np.bool_)
        places = np.flatnonzero(coming if self._mechanism is None else coming & paid)
        members, now = rows[places], answers.arrived[places]
        told = self._told(members, [answers.epsilons[place] for place in places.tolist()], number)
        self._hear(members[now], told[now])
        heard = self._heard(len(rows), places[now], told[now])
        updates, levels = np.empty((0, len(self.model)), np.float32), list[NoiseLevel | None]()
        if len(places):
            mine = [price for place in places.tolist() if (price := prices[place]) is not None]
            updates, levels, scores = self._trained(members, mine, number, score)
        elif score:
            scores = _ready(learner.evaluate(self.model))
        sent = np.asarray(np.isfinite(updates).all(axis=1))
        weights = _weights(answers.chosen, self.selector.cohort.sizes[members], places)
        for place in np.flatnonzero(sent & ~now).tolist():
            at = int(answers.place_out[places[place]])
            late.bring(at, updates[place], float(weights[place]), levels[place], told[place])
        use = sent & now
        counted = updates if use.all() else updates[use]  # a copy of all of them would take as long as their sum
        used = self._aggregate(weights[use], [levels[i] for i in np.flatnonzero(use)], counted, back, number)
        wasted = 0 if self._mechanism is None else int(paid.sum()) - int(sent.sum())
        received = {answers.chosen.members[places[i]]: updates[i] for i in np.flatnonzero(use)}
        return received, _unless_0("wasted", wasted) | used | heard, scores

    def _trained(
        self, members: IntArray, paid: list[Price], number: int, score: bool
    ) -> tuple[Vector, list[NoiseLevel | None], Future[Scores] | None]:
        """Return the members' noised updates, how loud they are, and the old model's scores."""
        learner, mechanism = cast(Learner, self._learner), self._mechanism
        records, scores = self._record_noise(paid), None
        protected = () if records is None else (records,)
        if score:
            updates, scores = learner.train_and_score(self.model, members, number, *protected)
        else:
            updates = learner.train(self.model, members, number, *protected)
        levels: list[NoiseLevel | None] = [None] * len(members)
        if mechanism is not None:
            for place in np.flatnonzero(np.isfinite(updates).all(axis=1)).tolist():
                client, alone = int(members[place]), paid[place].alone
                if records is not None:  # noise was added where the records were trained on
                    levels[place] = self._record_level(client, float(records.deviations[place]), updates.shape[1])
                    continue
                noise = SimulatedNoise(stream(self._seed, "noise", number, client))
                updates[place] = np.asarray(mechanism.release(updates[place], alone, noise).update)
                levels[place] = mechanism.noise_level(updates.shape[1], alone)
        return updates, levels, scores

    def _aggregate(
        self, plain: FloatArray, levels: list[NoiseLevel | None], updates: Vector, back: LateAnswers, number: int
    ) -> dict[str, Any]:  # fmt: skip
        """Move the model by the updates of the round and those that came back; return what the record says of these."""
        if len(back):
            plain, levels = np.concatenate([plain, back.weights(number)]), levels + back.levels()
            updates = np.concatenate([updates, back.updates])
        if len(updates):
            weights, step = self._aggregator.weigh(plain, levels)
            shares = (weights / weights.sum()).astype(np.float32)
            self.model = self.model + np.float32(step) * weighted_sum(shares, updates)
            self._aggregator.remember(self.model)
        return _unless_0("late", len(back))

    def _record_noise(self, prices: list[Price]) -> RecordNoise | None:
        """Return how members clip and noise the gradients of single records; None if that is not the unit."""
        mechanism, learner = self._mechanism, self._learner
        if learner is None or not isinstance(mechanism, Gaussian) or mechanism.unit != "record":
            return None
        deviations = np.array([mechanism.sigma(price.alone, learner.passes) for price in prices])
        return RecordNoise(mechanism.l2, deviations)

    def _record_level(self, client: int, deviation: float, dimension: int) -> NoiseLevel:
        """Return how loud the sum of a client's noised gradients is, in units of the clip and per unit of step."""
        learner, mechanism = cast(Learner, self._learner), cast(Gaussian, self._mechanism)
        steps, examples = learner.steps(client), float(self.selector.cohort.sizes[client])
        batch = examples * learner.passes / steps
        return NoiseLevel(steps * dimension * (deviation / batch) ** 2, (steps * mechanism.l2) ** 2)


def _ready(scores: Scores) -> Future[Scores]:
    future: Future[Scores] = Future()
    future.set_result(scores)
    return future


def _said(scores: Scores | None) -> dict[str, Any]:
    if scores is None:
        return {}
    return {"accuracy": scores.accuracy, "loss": scores.loss if np.isfinite(scores.loss) else None}


def _unless_0(name: str, count: int) -> dict[str, Any]:
    return {name: count} if count else {}


def _short(seconds: Seconds) -> Seconds | None:
    """Return a latency with six significant digits, which keeps records small; None without an answer."""
    return None if np.isnan(seconds) else float(f"{seconds:.6g}")


def _choice(chosen: Selection, outcome: Outcome, asking: Seconds) -> dict[str, Any]:
    speed = chosen.terms["speed"]
    return {
        "members": list(chosen.members),
        "latency": asking + outcome.seconds,
        "arrived": int(outcome.arrived.sum()),
        "terms": {**chosen.terms, "speed": speed if np.isfinite(speed) else None},
    }


def _weights(chosen: Selection, sizes: FloatArray, places: IntArray) -> FloatArray:
    """PAUSE, eq. (fl_update): by data size; policies that draw with replacement bring their own weights."""
    if chosen.weights is None:
        return sizes
    return np.array([chosen.weights[chosen.members[place]] for place in places.tolist()])


def _like(mine: npt.NDArray[_Number], stored: npt.NDArray[Any]) -> npt.NDArray[_Number]:
    """Return a stored array that takes the place of this one; no checkpoint of the same run has another form."""
    if (stored.shape, stored.dtype) != (mine.shape, mine.dtype):
        raise StateFileError(f"the stored array has shape {stored.shape}, but must have {mine.shape}; use another copy")
    return np.array(stored)
