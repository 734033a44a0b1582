"""One round after the other: select, charge, train, bound and noise, aggregate, observe, record.

Reference: PAUSE, Alg. 1 and eq. (fl_update).  A round is a function of (state, round number), so a run that was resumed
equals one that was not, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pausefl.errors import BudgetExceededError, require
from pausefl.privacy import Gaussian, Mechanism, Schedule, SimulatedNoise
from pausefl.privacy.aggregation import Aggregation, Aggregator
from pausefl.privacy.ledger.price import Price, leaked, release_price, releases_within_limit
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.rng import stream
from pausefl.selector import Selector
from pausefl.selector.decision import Selection
from pausefl.sim.learner import Learner, RecordNoise, Scores, Vector
from pausefl.sim.network import Network, Outcome
from pausefl.system.state_file import arrays_under
from pausefl.types import ClientId, FloatArray, IntArray, Seconds


class Simulation:
    """Federated training with a virtual clock.

    Without a learner only selection and clock run; without a ``mechanism`` updates are sent as they are.  The budget of
    each client is spread over its releases by the selector's schedule, and charged by the rule of the real ledger.
    Simulated noise is repeatable and therefore not private; the clients are simulated, too.

    With ``rehearsal`` all clients that are there do the work of a round on made-up data before the first one, at once.
    It costs time and no budget, and the selector knows their latencies from it.
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
    ) -> None:
        schedule = selector.reward.schedule
        fine = mechanism is None or isinstance(schedule, Schedule)
        require(fine, "schedule", schedule, "a Schedule where updates are noised", "pass the selector one")
        self.selector, self.network, self._learner, self._mechanism = selector, network, learner, mechanism
        self._seed, self._evaluate_every, self._rehearsal = seed, evaluate_every, rehearsal
        self._aggregator = Aggregator(aggregation or Aggregation())
        self._seconds = 0.0
        self.number = 0
        self._online = np.ones(len(selector.cohort), dtype=np.bool_)
        self.model: Vector = np.empty(0, dtype=np.float32) if learner is None else learner.initial()

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
        ready = self._online & self.selector.problem().solvent()
        scores = None
        if ready.any():
            chosen = self.selector.select(None if ready.all() else ready, allow_fewer=True)
            rows = self.selector.cohort.rows(chosen.members)
            outcome = self.network.play(rows, number)
            released, scores = self._learn(chosen, rows, outcome, number, score)
            latency = outcome.latency.tolist()
            self.selector.observe(
                {k: None if np.isnan(t) else t for k, t in zip(chosen.members, latency, strict=True)},
                updates=released if self.selector.policy.learns else None,
            )
            self._seconds += outcome.seconds
            record |= _choice(chosen, outcome)
        elif score and self._learner is not None:
            scores = _ready(self._learner.evaluate(self.model))
        self.number = number
        return record | {"seconds": self._seconds} | self._leakage(), scores

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
        if self._learner is None:
            return "no training: nothing was released; leakage counts what the picks would have spent"
        if self._mechanism is None:
            return "no privacy: updates were sent as they are"
        guarantee = self._mechanism.guarantee
        said = replace(guarantee, delta=0.0).sentence(self.selector.reward.schedule.budget, len(self.model))
        slack = ""
        if guarantee.delta and self._mechanism.composition == "zcdp":
            slack = f"; delta = {guarantee.delta:g} for life, by zCDP"
        elif guarantee.delta:
            made = self._most_releases(guarantee.delta)
            ended = ", and its limit allows no more" if made < int(self.selector.cohort.picks.max()) else ""
            slack = f"; delta = {made * guarantee.delta:g} after {made} releases{ended}"
        return f"{said}{slack}; simulated noise, not private"

    def _most_releases(self, delta: float) -> int:
        """Return how many releases the client picked most often has made; the limit on delta ends them."""
        return min(int(self.selector.cohort.picks.max()), releases_within_limit(delta))

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
        self.model, self._online = np.array(arrays["model"]), np.array(arrays["online"])
        self.number, self._seconds = int(header["number"]), float(header["clock"])

    def _learn(
        self, chosen: Selection, rows: IntArray, outcome: Outcome, number: int, score: bool
    ) -> tuple[dict[ClientId, Any], Future[Scores] | None]:
        """Train, noise and aggregate; return what the server received, by client, and the old model's scores."""
        learner = self._learner
        if learner is None:
            return {}, None
        places = np.flatnonzero(outcome.arrived)
        mechanism, prices = self._mechanism, self._prices(rows[places])
        if mechanism is not None:
            places = places[[price is not None for price in prices]]
        if not len(places):
            return {}, _ready(learner.evaluate(self.model)) if score else None
        members, paid = rows[places], [price for price in prices if price is not None]
        records, scores = self._record_noise(paid), None
        protected = () if records is None else (records,)
        if score:
            updates, scores = learner.train_and_score(self.model, members, number, *protected)
        else:
            updates = learner.train(self.model, members, number, *protected)
        sent = np.asarray(np.isfinite(updates).all(axis=1))
        levels: list[NoiseLevel | None] = [None] * len(members)
        if mechanism is not None:
            for place in np.flatnonzero(sent).tolist():
                client, alone = int(members[place]), paid[place].alone
                if records is not None:  # noise was added where the records were trained on
                    levels[place] = self._record_level(client, float(records.deviations[place]), updates.shape[1])
                    continue
                noise = SimulatedNoise(stream(self._seed, "noise", number, client))
                updates[place] = np.asarray(mechanism.release(updates[place], alone, noise).update)
                levels[place] = mechanism.noise_level(updates.shape[1], alone)
        if sent.any():
            plain = _weights(chosen, self.selector.cohort.sizes[members], places)[sent]
            weights, step = self._aggregator.weigh(plain, [levels[place] for place in np.flatnonzero(sent)])
            shares = (weights / weights.sum()).astype(np.float32)
            self.model = self.model + np.float32(step) * (shares @ updates[sent])
            self._aggregator.remember(self.model)
        received = zip(places, updates, sent, strict=True)
        return {chosen.members[place]: update for place, update, ok in received if ok}, scores

    def _prices(self, members: IntArray) -> list[Price | None]:
        """Return what each member's release costs, and None for those that refuse: budget or delta is used up.

        They are charged in either case, as are members that never arrive: observing the round counts every one of them.
        """
        return [self._price(client) for client in members.tolist()]

    def _price(self, client: int) -> Price | None:
        mechanism, before = self._mechanism, int(self.selector.cohort.picks[client])
        if mechanism is None:
            return None
        schedule = cast(Schedule, self.selector.reward.schedule)
        summed = mechanism.composition == "sum"
        deltas = [mechanism.guarantee.delta] * (before if summed else min(before, 1))
        _, rho = leaked(mechanism, schedule.budget, float(schedule.spent(before)))
        try:
            return release_price(schedule, before + 1, mechanism, deltas, rho, client)
        except BudgetExceededError:
            return None

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

    def _leakage(self) -> dict[str, Any]:
        picks = self.selector.cohort.picks
        levels = np.quantile(picks, [0.5, 0.9], method="nearest").astype(np.int64)
        schedule, mechanism = self.selector.reward.schedule, self._mechanism
        spent = schedule.spent(np.array([picks.max(), *levels]))
        most, median, high = (leaked(mechanism, schedule.budget, part)[0] for part in spent)
        if mechanism is None:
            return {"max_leakage": None if self._learner is not None else most}  # None: without bound
        leakage = {"max_leakage": most, "median_leakage": median, "p90_leakage": high}
        delta = mechanism.guarantee.delta
        if delta:
            leakage["max_delta"] = self._most_releases(delta) * delta if mechanism.composition == "sum" else delta
        return leakage


def _ready(scores: Scores) -> Future[Scores]:
    future: Future[Scores] = Future()
    future.set_result(scores)
    return future


def _said(scores: Scores | None) -> dict[str, Any]:
    if scores is None:
        return {}
    return {"accuracy": scores.accuracy, "loss": scores.loss if np.isfinite(scores.loss) else None}


def _choice(chosen: Selection, outcome: Outcome) -> dict[str, Any]:
    speed = chosen.terms["speed"]
    return {
        "members": list(chosen.members),
        "latency": outcome.seconds,
        "arrived": int(outcome.arrived.sum()),
        "terms": {**chosen.terms, "speed": speed if np.isfinite(speed) else None},
    }


def _weights(chosen: Selection, sizes: FloatArray, places: IntArray) -> FloatArray:
    """PAUSE, eq. (fl_update): by data size; policies that draw with replacement bring their own weights."""
    if chosen.weights is None:
        return sizes
    return np.array([chosen.weights[chosen.members[place]] for place in places.tolist()])
