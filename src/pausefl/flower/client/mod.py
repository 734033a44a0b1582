"""The client's mod: charge, train, bound and noise; nothing else of the app's leaves.

Reference: PAUSE, Theorem 3, with the server as the adversary.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from copy import deepcopy
from logging import ERROR, WARNING

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.supercore import log

from pausefl.errors import (
    AlreadyReservedError,
    BudgetExceededError,
    ConfigError,
    InvalidValueError,
    PauseError,
    is_finite,
    require,
)
from pausefl.flower.arrays import arrays_in, record_of
from pausefl.flower.protocol import RECORD, SECONDS, WEIGHT, Note, Refused, Request
from pausefl.owner.kept_replies import Reply, ReplyStore
from pausefl.owner.owner_file import Owner, find_owner, read_owner
from pausefl.owner.update import check_model, difference, digest, no_difference, released
from pausefl.privacy import Layers, Mechanism, SecureNoise, SqliteLedger
from pausefl.privacy.mechanisms.layers import Tensor
from pausefl.types import Epsilon

App = Callable[[Message, Context], Message]


class PrivateUpdate:
    """A Flower mod that lets out noised updates under the owner's budget, and nothing else.

    Put it first: ``ClientApp(mods=[PrivateUpdate()])``.  The owner's file is the one that the SuperNode's configuration
    names (``pausefl-owner``), else the environment (``PAUSEFL_OWNER``), else ``owner``.

    Law: a training request is charged in the ledger, durably, before the app sees it; a release name is charged once,
    and asked for again it gives the stored bytes or a refusal.  Arrays leave only through the mechanism, other
    numbers only if the owner allows them by name, and of an error only its kind.  Once the data was touched, every
    answer is a release: a training that fails sends the noise of an unchanged model, because whether it fails may
    depend on the data, and a refusal would tell that without noise.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: str | os.PathLike[str] | None = None) -> None:
        self._owner = owner

    def __call__(self, msg: Message, context: Context, call_next: App) -> Message:
        """Answer one message."""
        try:
            content = self._answer(msg, context, call_next)
        except Refused as why:
            log(WARNING, "pausefl: %s", why)
            return Message(why.refusal.error(), reply_to=msg)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # Flower would send the exception's text to the server, and it may quote the data.
            log(ERROR, "pausefl: nothing was sent", exc_info=error)
            return Message(Refused("failed", "").refusal.error(), reply_to=msg)
        return Message(content, reply_to=msg)

    def _answer(self, msg: Message, context: Context, app: App) -> RecordDict:
        try:
            owner = read_owner(find_owner(context.node_config, self._owner), context.node_config)
            client = _Client(owner)
        except PauseError as error:
            raise Refused("unready", str(error)) from error
        kind = msg.metadata.message_type.partition(".")[0]
        if kind != "train":
            if kind not in owner.messages:
                raise Refused("not-allowed", f"the owner allows no {kind!r} messages")
            numbers = {WEIGHT: 1, **_allowed(_asked(app, msg, context), owner)}
            return RecordDict({"metrics": MetricRecord(dict(numbers))})
        try:
            request = Request.of(msg)
        except InvalidValueError as error:
            raise Refused("bad-request", str(error)) from error
        if request.hello:
            return RecordDict({RECORD: Note(owner.name, client.releases()).record()})
        return client.train(request, msg, context, app)


class _Client:
    """One owner's ledger and replies, for the length of a message."""

    __slots__ = ("_ledger", "_owner", "_store")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._store = ReplyStore(owner.ledger.with_name(f"{owner.ledger.name}-replies"), owner.keep)
        if self._store and not owner.ledger.exists():
            raise ConfigError(f"ledger {owner.ledger} is gone, but its replies are there; restore it from a backup")
        self._ledger = SqliteLedger(owner.ledger)
        known, count = self._ledger.subjects(), self.releases()
        if self._store.newest(owner.name) > count:
            raise ConfigError(
                f"ledger {owner.ledger} has {count} releases of {owner.name!r}, but replies tell of more; it is an old "
                "copy: restore the newest"
            )
        if known and owner.name not in known and not owner.many:
            raise ConfigError(
                f"name is {owner.name!r}, but ledger {owner.ledger} belongs to {known[0]!r}; data keeps its name"
            )

    def releases(self) -> int:
        """Return how many releases were charged in all."""
        return len(self._ledger.charges(self._owner.name))

    def train(self, request: Request, msg: Message, context: Context, app: App) -> RecordDict:
        """Charge, train and release; or send once more what was sent for this request."""
        owner, noise = self._owner, SecureNoise()
        try:
            key, model = arrays_in(msg.content)
            require(key not in (RECORD, "metrics"), "array record", key, "another name", "call it 'arrays'")
            layers = Layers.of(model, batch_norm=owner.batch_norm)
            check_model(model, layers)
            mechanism = owner.stricter(request.clip)
            _check_cap(request.epsilon, mechanism)
            require(request.round >= 1, "round", request.round, "1 or more", "count rounds from 1")
        except Exception as error:
            # Also what Flower makes of arrays that are none: the request is at fault, and nothing was charged.
            raise Refused("bad-request", str(error)) from error
        release, asked = _release(request, msg), digest(model)
        try:
            self._store.prepare()
        except OSError as error:
            raise Refused("unready", str(error)) from error
        try:
            # On zeros: a noise source that cannot be used shows before it costs any budget.
            mechanism.release(np.zeros(2), max(1.0, mechanism.least_epsilon), noise)
            charge = self._ledger.reserve(owner.name, release, owner.schedule, mechanism=mechanism, noise=noise)
        except AlreadyReservedError as error:
            kept = self._store.load(owner.name, release, asked)
            if kept is None:
                raise Refused("repeated", str(error), self.releases()) from error
            return self._content(kept, replayed=True)
        except BudgetExceededError as error:
            raise Refused("exhausted", str(error), self.releases()) from error
        except PauseError as error:
            raise Refused("unready", str(error)) from error
        start = time.monotonic()
        update, numbers = self._trained(msg, context, app, model, layers)
        seconds = time.monotonic() - start
        try:
            epsilon = min(charge.epsilon, request.epsilon or charge.epsilon)
            arrays = released(model, update, layers, mechanism, epsilon, noise)
            # Two digits, so that the number itself does not tell more of the data than the time that the server sees.
            told = float(f"{max(seconds, 1e-3):.2g}") if SECONDS in owner.allow else None
            reply = Reply(key, arrays, numbers, charge.play, told)
            self._store.store(owner.name, release, asked, reply)
        except Exception as error:  # a full disk, say: nothing that depends on the data
            raise Refused("failed", str(error), charge.play) from error
        return self._content(reply)

    def _trained(
        self, msg: Message, context: Context, app: App, model: dict[str, Tensor], layers: Layers
    ) -> tuple[dict[str, Tensor], dict[str, int | float]]:
        """Return what training changed, and its allowed numbers; no change at all if it failed, whatever happened."""
        try:
            answer = _asked(app, msg, context)
            update = difference(model, arrays_in(answer.content)[1], layers)
            numbers: dict[str, int | float] = {WEIGHT: 1, **_allowed(answer, self._owner)}
            require(numbers[WEIGHT] > 0, WEIGHT, numbers[WEIGHT], "above 0", "count the examples")
        except Exception as error:
            log(ERROR, "pausefl: training failed; an unchanged model is noised and sent instead", exc_info=error)
            return no_difference(model, layers), {WEIGHT: 1}
        return update, numbers

    def _content(self, reply: Reply, *, replayed: bool = False) -> RecordDict:
        seconds = reply.seconds if SECONDS in self._owner.allow else None
        note = Note(self._owner.name, self.releases(), seconds, replayed)
        allowed = {name: v for name, v in reply.metrics.items() if name in self._owner.allow}
        metrics = MetricRecord({WEIGHT: 1, **allowed})
        return RecordDict({reply.key: record_of(reply.arrays), "metrics": metrics, RECORD: note.record()})


def _asked(app: App, msg: Message, context: Context) -> Message:
    """Return the app's answer to a copy of the message, so that the app cannot write into what goes back."""
    copy = deepcopy(msg)
    if RECORD in copy.content:
        del copy.content[RECORD]
    try:
        answer = app(copy, context)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        log(ERROR, "pausefl: the app failed; its error stays here", exc_info=error)
        raise Refused("failed", "the app raised an exception") from error
    if not isinstance(answer, Message) or not answer.has_content():
        raise Refused("failed", "the app answered with an error or with nothing")
    return answer


def _allowed(answer: Message, owner: Owner) -> dict[str, int | float]:
    """Return the app's numbers that the owner lets out: single finite ones, under the names on the list."""
    return {
        name: value
        for record in answer.content.metric_records.values()
        for name, value in record.items()
        if name in owner.allow and name != SECONDS and isinstance(value, (int, float)) and is_finite(value)
    }


def _release(request: Request, msg: Message) -> str:
    action = msg.metadata.message_type.partition(".")[2]
    return f"{request.run}/{request.round}" + (f"/{action}" if action else "")


def _check_cap(cap: Epsilon | None, mechanism: Mechanism) -> None:
    if cap is not None:
        least = mechanism.least_epsilon
        require(cap >= least, "epsilon", cap, f"at least {least:g} for {mechanism.name}", "ask for less noise")
