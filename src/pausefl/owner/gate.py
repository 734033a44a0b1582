"""The gate: the only way by which anything of an owner's data leaves.  It charges, then trains, then releases.

Reference: PAUSE, Theorem 3, with the server as the adversary.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from pausefl.errors import (
    AlreadyReservedError,
    BudgetExceededError,
    ConfigError,
    LedgerError,
    PauseError,
    is_finite,
    require,
)
from pausefl.owner.kept_replies import ReplyStore
from pausefl.owner.model_update import check_model, difference, digest, released
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import SECONDS, WEIGHT, Refused, Reply, TrainingRequest, refusing
from pausefl.privacy import Layers, SecureNoise, SqliteLedger
from pausefl.privacy.mechanisms.tensor_rules import Tensor

Numbers: TypeAlias = Mapping[str, object]
"""What an app calls its metrics."""
Train: TypeAlias = Callable[[], tuple[Mapping[str, Tensor], Numbers]]
"""Trains, and returns all tensors of the model, changed, and the app's numbers."""


class Gate:
    """One owner's ledger and kept replies, for the length of one message.

    Law: a training request is charged in the ledger, durably, before the data is touched; a release name is charged
    once, and asked for again it gives the stored bytes or a refusal.  Arrays leave only through the mechanism, other
    numbers only if the owner allows them by name, and of an error only its kind.  Once the data was touched, every
    answer is a release: a training that fails sends the noise of an unchanged model, because whether it fails may
    depend on the data, and a refusal would tell that without noise.  The reason is written to ``log`` alone.
    """

    __slots__ = ("_ledger", "_log", "_owner", "_store")

    def __init__(self, owner: Owner, log: logging.Logger | None = None) -> None:
        self._owner, self._log = owner, log or logging.getLogger("pausefl")
        self._store = ReplyStore(owner.ledger.with_name(f"{owner.ledger.name}-replies"), owner.keep)
        with refusing("unready", PauseError):
            self._open(owner)

    def _open(self, owner: Owner) -> None:
        if self._store and not owner.ledger.exists():
            raise ConfigError(f"ledger {owner.ledger} is gone, but its replies are there; restore it from a backup")
        newest = self._store.newest(owner.name)  # before the ledger is read: another process may be at work
        if not owner.ledger.exists():
            with suppress(LedgerError):  # another process may be faster; if it was not, opening says what is wrong
                SqliteLedger.create(owner.ledger)
        self._ledger = SqliteLedger(owner.ledger)
        known = list(self._ledger.checked_releases())
        if newest > self.releases:
            raise ConfigError(
                f"ledger {owner.ledger} has {self.releases} releases of {owner.name!r}, but replies tell of more; it "
                "is an old copy: restore the newest"
            )
        if known and owner.name not in known and not owner.many:
            raise ConfigError(
                f"name is {owner.name!r}, but ledger {owner.ledger} belongs to {known[0]!r}; data keeps its name"
            )

    @property
    def releases(self) -> int:
        """How many releases of this data were charged in all."""
        return self._ledger.checked_releases().get(self._owner.name, 0)

    def train(self, request: TrainingRequest, model: Mapping[str, Tensor], train: Train) -> Reply:
        """Charge, train and release; or return once more what left for this request."""
        owner, noise = self._owner, SecureNoise()
        with refusing("bad-request", Exception):
            layers = Layers.of(model, batch_norm=owner.batch_norm)
            check_model(model, layers)
            mechanism, wish, least = owner.mechanism, request.epsilon, owner.mechanism.least_epsilon
            fine = wish is None or wish >= least
            require(fine, "epsilon", wish, f"at least {least:g} for {mechanism.name}", "ask for less noise")
            require(request.round >= 1, "round", request.round, "1 or more", "count rounds from 1")
            # A copy: training may write into the tensors it was given.
            model = {name: np.array(tensor) for name, tensor in model.items()}
            dimension = sum(model[name].size for name in layers.released())
            asked = digest(model)
        with refusing("unready", OSError):
            self._store.prepare()
        try:
            # On zeros: a noise source that cannot be used shows before it costs any budget.
            mechanism.release(np.zeros(2), max(1.0, mechanism.least_epsilon), noise)
            charge = self._ledger.reserve(
                owner.name, request.release, owner.schedule, mechanism=mechanism, noise=noise, dimension=dimension
            )
        except AlreadyReservedError as error:
            kept = self._store.load(owner.name, request.release, asked)
            if kept is None:
                raise Refused("repeated", str(error), self.releases) from error
            # Under today's list, and with today's count of releases.
            told = kept.seconds if SECONDS in owner.allow else None
            return replace(kept, numbers=self._allowed(kept.numbers), releases=self.releases, seconds=told)
        except BudgetExceededError as error:
            raise Refused("exhausted", str(error), self.releases) from error
        except PauseError as error:
            raise Refused("unready", str(error)) from error
        start = time.monotonic()
        update, numbers = self._trained(train, model, layers)
        seconds = time.monotonic() - start
        # Errors here, a full disk say, do not depend on the data.
        with refusing("failed", Exception, releases=charge.play):
            epsilon = min(charge.epsilon, wish or charge.epsilon)
            arrays = released(model, update, layers, mechanism, epsilon, noise, request.clip)
            # Two digits, so that the number itself does not tell more of the data than the time that the server sees.
            told = float(f"{max(seconds, 1e-3):.2g}") if SECONDS in owner.allow else None
            reply = Reply(arrays, numbers, charge.play, told)
            self._store.store(owner.name, request.release, asked, reply)
        return reply

    def measure(self, kind: str, ask: Callable[[], Numbers]) -> dict[str, int | float]:
        """Answer a message of another kind, if the owner allows that: with the allowed numbers, and without noise."""
        if kind not in self._owner.messages:
            raise Refused("not-allowed", f"the owner allows no {kind!r} messages")
        try:
            return self._allowed(ask())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._log.error("pausefl: the app failed; its error stays here", exc_info=error)
            raise Refused("failed", "the app raised an exception") from error

    def _trained(
        self, train: Train, model: Mapping[str, Tensor], layers: Layers
    ) -> tuple[dict[str, Tensor], dict[str, int | float]]:
        """Return what training changed, and its allowed numbers; no change at all if it failed, whatever happened."""
        try:
            tensors, told = train()
            update, numbers = difference(model, tensors, layers), self._allowed(told)
            require(numbers[WEIGHT] > 0, WEIGHT, numbers[WEIGHT], "above 0", "count the examples")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._log.error("pausefl: training failed; an unchanged model is noised and sent instead", exc_info=error)
            return difference(model, model, layers), {WEIGHT: 1}
        return update, numbers

    def _allowed(self, numbers: Numbers) -> dict[str, int | float]:
        """Return the numbers that the owner lets out: single finite ones, under the names on the list."""
        allowed = {
            name: value
            for name, value in numbers.items()
            if name in self._owner.allow and name != SECONDS and isinstance(value, (int, float)) and is_finite(value)
        }
        return {WEIGHT: 1, **allowed}
