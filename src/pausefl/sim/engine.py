"""One round after the other: select, charge, train, bound and noise, aggregate, observe, record.

Reference: PAUSE, Alg. 1 and eq. (fl_update).  A round is a function of (state, round number), so a run that was resumed
equals one that was not, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.privacy import Mechanism, SimulatedNoise
from pausefl.privacy.schedule import Schedule
from pausefl.problem import Selection
from pausefl.rng import stream
from pausefl.selector import Selector
from pausefl.sim.clock import VirtualClock
from pausefl.sim.learner import Learner, Scores, Vector
from pausefl.sim.network import Network, Outcome
from pausefl.types import ClientId, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PrivacyPlan:
    """How updates are bounded and noised, and how each client's budget is spread over its releases."""

    mechanism: Mechanism
    schedule: Schedule


class Simulation:
    """Federated training with a virtual clock.

    Without a learner only selection and clock run; without a privacy plan updates are sent as they are.  Simulated
    noise is repeatable and therefore not private; the clients are simulated, too.
    """

    def __init__(
        self,
        selector: Selector,
        network: Network,
        *,
        learner: Learner | None = None,
        privacy: PrivacyPlan | None = None,
        seed: int = 0,
        evaluate_every: int = 1,
    ) -> None:
        self._selector, self._network, self._learner, self._privacy = selector, network, learner, privacy
        self._seed, self._evaluate_every = seed, evaluate_every
        self._clock = VirtualClock()
        self._number = 0
        self._online = np.ones(len(selector.cohort), dtype=np.bool_)
        self.model: Vector = np.empty(0, dtype=np.float32) if learner is None else learner.initial()
        aside = learner is not None and learner.scores_aside
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="score") if aside else None

    @property
    def number(self) -> int:
        """How many rounds have been played."""
        return self._number

    @property
    def selector(self) -> Selector:
        """Who decides."""
        return self._selector

    def step(self) -> dict[str, Any]:
        """Play one round, score its model, and return its record."""
        return self._finished(self._round(), self._scored(always=True))

    def play(self, rounds: int, pause_every: int = 1) -> Iterator[dict[str, Any]]:
        """Play on up to round number ``rounds``; yield a record per round, the last one always scored.

        Where the learner allows it, a model is scored on another core while the next round is played already.  At every
        ``pause_every``-th record nothing runs ahead: ``state`` then belongs to the record just yielded.
        """
        waiting: tuple[dict[str, Any], Future[Scores] | None] | None = None
        while self._number < rounds:
            record = self._round()
            number = record["round"]
            scores = self._scored(always=number == rounds)
            if waiting is not None:
                yield self._finished(*waiting)
            waiting = record, scores
            if number % pause_every == 0 or number == rounds:
                yield self._finished(*waiting)
                waiting = None

    def _round(self) -> dict[str, Any]:
        number = self._number + 1
        self._online = self._network.online(self._online, number)
        record: dict[str, Any] = {"round": number, "members": []}
        if self._online.any():
            chosen = self._selector.select(None if self._online.all() else self._online, allow_fewer=True)
            rows = self._selector.cohort.rows(chosen.members)
            outcome = self._network.play(rows, number)
            released = self._learn(chosen, rows, outcome, number)
            latency = outcome.latency.tolist()
            self._selector.observe(
                {k: None if np.isnan(t) else t for k, t in zip(chosen.members, latency, strict=True)},
                updates=released if self._selector.policy.learns else None,
            )
            self._clock.advance(outcome.seconds)
            record |= _choice(chosen, outcome)
        self._number = number
        return record | {"seconds": self._clock.now} | self._leakage()

    def _scored(self, always: bool) -> Future[Scores] | None:
        if self._learner is None or not (always or self._number % self._evaluate_every == 0):
            return None
        if self._aside is not None:
            return self._aside.submit(self._learner.evaluate, self.model)
        scores: Future[Scores] = Future()
        scores.set_result(self._learner.evaluate(self.model))
        return scores

    def _finished(self, record: dict[str, Any], scores: Future[Scores] | None) -> dict[str, Any]:
        if scores is None:
            return record
        found = scores.result()
        return record | {"accuracy": found.accuracy, "loss": found.loss}

    def guarantee(self) -> str:
        """Say in one line what the leakage numbers cover."""
        if self._learner is None:
            return "no training: nothing was released"
        if self._privacy is None:
            return "no privacy: updates were sent as they are"
        budget = self._privacy.schedule.budget
        return self._privacy.mechanism.guarantee.sentence(budget, len(self.model)) + "; simulated noise, not private"

    def client_accuracies(self) -> FloatArray:
        """Return the model's accuracy (percent) on each client's own data."""
        return np.empty(0) if self._learner is None else self._learner.client_accuracies(self.model)

    def close(self) -> None:
        """End whatever runs in the background."""
        if self._aside is not None:
            self._aside.shutdown(cancel_futures=True)
        if self._learner is not None:
            self._learner.close()

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return everything that a later process needs to continue."""
        header, columns = self._selector.state()
        arrays: dict[str, npt.NDArray[Any]] = {"model": self.model, "online": self._online}
        arrays |= {f"selector.{name}": array for name, array in columns.items()}
        if self._learner is not None:
            arrays |= {f"learner.{name}": array for name, array in self._learner.state().items()}
        return {"selector": header, "number": self._number, "clock": self._clock.now}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from what ``state`` returned; the parts must be built from the same configuration."""
        self._selector.restore(header["selector"], _under("selector", arrays))
        if self._learner is not None:
            self._learner.restore(_under("learner", arrays))
        self.model, self._online = np.array(arrays["model"]), np.array(arrays["online"])
        self._number, self._clock = int(header["number"]), VirtualClock(float(header["clock"]))

    def _learn(self, chosen: Selection, rows: IntArray, outcome: Outcome, number: int) -> dict[ClientId, Any]:
        """Train, noise and aggregate; return what the server received, by client."""
        learner = self._learner
        places = np.flatnonzero(outcome.arrived)
        if learner is None or not len(places):
            return {}
        members = rows[places]
        updates = learner.train(self.model, members, number)
        sent = np.ones(len(members), dtype=np.bool_)
        if self._privacy is not None:
            for place, (client, update) in enumerate(zip(members.tolist(), updates, strict=True)):
                # Charged whether it arrives or not: observing the round counts the release of every member.
                epsilon = self._privacy.schedule.epsilon(int(self._selector.cohort.picks[client]) + 1)
                sent[place] = epsilon >= self._privacy.mechanism.least_epsilon  # else the client refuses
                if sent[place]:
                    noise = SimulatedNoise(stream(self._seed, "noise", number, client))
                    updates[place] = np.asarray(self._privacy.mechanism.release(update, epsilon, noise).update)
        if sent.any():
            weights = _weights(chosen, self._selector.cohort.sizes[members], places)[sent]
            self.model = self.model + (weights / weights.sum()).astype(np.float32) @ updates[sent]
        return {chosen.members[place]: update for place, update, ok in zip(places, updates, sent, strict=True) if ok}

    def _leakage(self) -> dict[str, float | None]:
        picks = self._selector.cohort.picks
        levels = np.quantile(picks, [0.5, 0.9], method="nearest").astype(np.int64)
        spent = self._selector.reward.schedule.spent(np.array([picks.max(), *levels]))
        if self._privacy is None:
            return {"max_leakage": None if self._learner is not None else float(spent[0])}  # None: without bound
        return {"max_leakage": float(spent[0]), "median_leakage": float(spent[1]), "p90_leakage": float(spent[2])}


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


def _under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
