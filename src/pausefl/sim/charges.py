"""What clients pay in a run: the price of the next update or signal, what has leaked, and what that covers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pausefl.errors import BudgetExceededError, require
from pausefl.privacy import Mechanism, Schedule
from pausefl.privacy.ledger.price import Price, leaked, release_price, releases_within_limit, signal_price
from pausefl.privacy.signals import Signals
from pausefl.selector import Selector
from pausefl.types import Epsilon, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class SignalTerms:
    """On which terms signals are told in a run: how, from which part of the budget for life, and for how much time.

    ``schedule`` is None where nothing is charged: bare signals, or a run without privacy.  To be asked for signals and
    to answer takes ``seconds_share`` of the time that the client would take to train in that round.
    """

    settings: Signals
    schedule: Schedule | None
    budget: Epsilon
    seconds_share: float = 0.1

    def __post_init__(self) -> None:
        fine = (self.schedule is None) == (self.settings.kind == "bare")
        require(
            fine,
            "signals.kind",
            self.settings.kind,
            "'bare' without a schedule, and another kind with one",
            "pass a schedule, or None",
        )


class Charges:
    """The accounts of all clients, kept by the rule of the real ledger.

    Updates are paid by the selector's schedule, signals by that of their ``terms``; both come from one budget.  Members
    are charged whether they answer or not: observing a round counts every one of them.
    """

    def __init__(
        self, selector: Selector, mechanism: Mechanism | None, terms: SignalTerms | None, *, trained: bool
    ) -> None:  # fmt: skip
        self._selector, self.mechanism, self._terms, self._trained = selector, mechanism, terms, trained
        self._schedule = cast(Schedule, selector.reward.schedule)
        charged = terms is not None and terms.schedule is not None
        self.budget = terms.budget if terms is not None and charged else self._schedule.budget
        self._signals = terms.schedule if terms is not None else None
        self._numbers = max(1, len(selector.policy.signals))
        self.tellings: IntArray = np.zeros(len(selector.cohort) if charged else 0, dtype=np.int64)

    def update_prices(self, rows: IntArray) -> list[Price | None]:
        """Return what each client's next update costs; None if it refuses: budget or delta is used up.

        Those that have released as often pay the same, so each price is worked out once.
        """
        columns = [self._selector.cohort.picks[rows].tolist()]
        if len(self.tellings):
            columns.append(self.tellings[rows].tolist())
        known: dict[tuple[int, ...], Price | None] = {}
        pasts = list(zip(*columns, strict=True))
        for client, past in zip(rows.tolist(), pasts, strict=True):
            if past not in known:
                known[past] = self._update_price(client)
        return [known[past] for past in pasts]

    def _update_price(self, client: int) -> Price | None:
        mechanism, before = self.mechanism, int(self._selector.cohort.picks[client])
        if mechanism is None:
            return None
        deltas, rho = self._past(client, before)
        whole = None if self._signals is None else self.budget
        try:
            return release_price(self._schedule, before + 1, mechanism, deltas, rho, client, whole=whole)
        except BudgetExceededError:
            return None

    def charge_signals(self, rows: IntArray) -> list[Epsilon | None]:
        """Charge these clients for telling their signals once; return the epsilon of each signal, None if it is over.

        Where nobody pays, it is infinite.
        """
        return [self._charge_signal(client) for client in rows.tolist()]

    def _charge_signal(self, client: int) -> Epsilon | None:
        if self._signals is None:
            return float("inf")
        deltas, rho = self._past(client, int(self._selector.cohort.picks[client]))
        play = int(self.tellings[client]) + 1
        try:
            price = signal_price(
                self._signals, play, self.mechanism, deltas, rho, client, whole=self.budget, numbers=self._numbers
            )
        except BudgetExceededError:
            return None
        self.tellings[client] = play
        return price.alone

    def _past(self, client: int, picks: int) -> tuple[list[float], float]:
        """Return the deltas of a client's releases so far, and what they cost in rho."""
        mechanism = self.mechanism
        if mechanism is None:
            return [], 0.0
        delta = mechanism.guarantee.delta
        if mechanism.composition == "sum":
            return [delta] * picks, 0.0
        spent = float(self._schedule.spent(picks))
        told = 0
        if self._signals is not None:
            told = int(self.tellings[client])
            spent += float(self._signals.spent(told))
        return [delta] * min(picks + told, 1), leaked(mechanism, self.budget, spent)[1]

    def leakage(self) -> dict[str, Any]:
        """Return what the clients have leaked, for the record of a round: the most, and quantiles over clients."""
        mechanism = self.mechanism
        if mechanism is None and self._trained:
            return {"max_leakage": None}  # without bound
        if mechanism is None and self._signals is None:  # without training only this is asked for
            spent = self._schedule.spent(self._selector.cohort.picks.max(keepdims=True))
            return {"max_leakage": leaked(None, self.budget, float(spent[0]))[0]}
        most, median, high = (leaked(mechanism, self.budget, float(part))[0] for part in self._spent())
        if mechanism is None:
            return {"max_leakage": most}
        leakage = {"max_leakage": most, "median_leakage": median, "p90_leakage": high}
        delta = mechanism.guarantee.delta
        if delta:
            leakage["max_delta"] = self._most_releases(delta) * delta if mechanism.composition == "sum" else delta
        return leakage

    def _spent(self) -> FloatArray:
        """Return the most, the median and the 0.9-quantile of what schedules say is spent."""
        picks = self._selector.cohort.picks
        if self._signals is None:
            levels = np.quantile(picks, [0.5, 0.9], method="nearest").astype(np.int64)
            return self._schedule.spent(np.array([picks.max(), *levels]))
        spent = self._schedule.spent(picks) + self._signals.spent(self.tellings)
        return np.array([spent.max(), *np.quantile(spent, [0.5, 0.9], method="nearest")])

    def guarantee(self, dimension: int) -> str:
        """Say in one line what the leakage numbers cover."""
        if not self._trained:
            return "no training: nothing was released; leakage counts what the picks would have spent"
        if self.mechanism is None:
            return "no privacy: updates were sent as they are"
        guarantee = self.mechanism.guarantee
        said = replace(guarantee, delta=0.0).sentence(self.budget, dimension)
        slack = ""
        if guarantee.delta and self.mechanism.composition == "zcdp":
            slack = f"; delta = {guarantee.delta:g} for life, by zCDP"
        elif guarantee.delta:
            made = self._most_releases(guarantee.delta)
            ended = ", and its limit allows no more" if made < int(self._selector.cohort.picks.max()) else ""
            slack = f"; delta = {made * guarantee.delta:g} after {made} releases{ended}"
        told = "" if self._terms is None else f"; {self._terms.settings.sentence(self._most_tellings)}"
        return f"{said}{slack}{told}; simulated noise, not private"

    @property
    def _most_tellings(self) -> int:
        return 0 if self._signals is None else self._signals.limit or 0

    def _most_releases(self, delta: float) -> int:
        """Return how many releases the client picked most often has made; the limit on delta ends them."""
        return min(int(self._selector.cohort.picks.max()), releases_within_limit(delta))
