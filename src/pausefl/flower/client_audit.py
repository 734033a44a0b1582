"""The audit of a whole client: real Flower messages to a scratch copy of an owner's client, entire replies compared.

The owner's terms are used as they are, but with ledgers of their own in a temporary folder: the owner's ledger is never
opened.  Apps stand for data sets.  For a given request, two data sets may differ in the noised arrays and in nothing
else; the arrays go through the attacks of :mod:`pausefl.privacy.audit`, against the epsilon that the ledger charged.

Where the owner protects single records, the data sets whose arrays are attacked differ in one record.  An app of
somebody's own can take the place of those here, with two data sets of its own that differ in one record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.common.serde import message_to_proto

from pausefl.errors import ConfigError
from pausefl.flower.app_audit import MakeApp, TwoApps
from pausefl.flower.client import App, PrivateUpdate
from pausefl.flower.protocol import record_of
from pausefl.flower.scratch_client import Answer, Mod, ScratchClient, arrays_of, scratch_folder, trained, unreadable
from pausefl.owner.owner_file import Owner, read_owner
from pausefl.privacy import SecureNoise
from pausefl.privacy.audit import Audit, attack, bound_for
from pausefl.privacy.audit.input_pairs import MANY, ROWS
from pausefl.privacy.mechanisms.tensor_rules import Tensor
from pausefl.system.toml_sections import read_toml
from pausefl.types import Epsilon, FloatArray

_RUNS, _APP_RUNS = 4000, 500
"""Releases of each input, of 8 numbers each, by which a claim is judged; fewer where somebody's own app trains."""
_TRIALS = 60
"""Trials by which each pair of updates is tried at least; every one takes a ledger of its own."""
_ROUNDING = 1e-6
"""By how much the distance of two means may be rounded."""
_CLOCK = 1e-3
"""Seconds by which the times of a reply may be rounded."""
_MOST_ROWS = 10_001
"""Rows of the largest table that is sent."""


def audit_client(
    path: Path, *, runs: int | None = None, error: float = 0.01, mod: Mod | None = None, make: MakeApp | None = None
) -> list[Audit]:
    """Attack the client that this owner's file describes; the first finding is about replies, the second about arrays.

    If the replies tell something there is no second: no noise would make good for that.

    Args:
        path: The owner's file.
        runs: About how many replies there are for each input.  None is 4,000, or 500 with ``make``.
        error: How likely the bound may be wrong.
        mod: What stands between messages and app; None is :class:`~pausefl.flower.client.PrivateUpdate`.
        make: Given 0 or 1, makes an app with one of two data sets.  These two apps are attacked, and no others.
    """
    path = path.absolute()
    owner = read_owner(path)
    if owner.simulation:
        raise ConfigError(
            f"{path}: simulation is true, so it lets out numbers on purpose; audit the file of a deployment"
        )
    if owner.records is not None and make is not None:
        raise ConfigError(
            f"{path}: pausefl hands the records to the app one at a time, so no app can mix them; leave --app out"
        )
    if runs is None:
        runs = _RUNS if make is None else _APP_RUNS
    with scratch_folder() as folder:
        content, mod = read_toml(path), mod or PrivateUpdate()
        content.pop("records", None)  # the audit makes up its records, and never opens the owner's
        client = ScratchClient(owner, content, folder, mod)
        loudest, source = _loudest(client, content, folder, mod)
        two = None if make is None else TwoApps(loudest, make)
        client.model = loudest.model
        leak = _difference(client, _apps(owner) if two is None else two.apps)

        def found(by: ScratchClient, source: str, lower: Epsilon, most: Epsilon, event: str) -> Audit:
            delta, name = owner.mechanism.guarantee.delta, f"client of {path.name}, {owner.mechanism!r}"
            # The mechanism is at its loudest where the schedule is: the first release.
            return Audit(name, source, SecureNoise.private, by.epsilon(), delta, lower, most, event, runs, error)

        lower = math.inf if leak else 0.0
        replies = found(client, "whole replies", lower, math.inf, leak or "nothing but noised arrays differs")
        if leak:
            return [replies]
        if two is not None and two.stretch > 1.0 + _ROUNDING:
            far = f"the app's two data sets: one record moves the sum {two.stretch:.3g} times as far as the noise hides"
            return [replies, found(loudest, source, math.inf, math.inf, far)]
        if two is not None and two.fails_once and owner.mechanism.guarantee.unit == "record":
            once = f"the app's two data sets: it fails with one of them only ({two.fails_once})"
            return [replies, found(loudest, source, math.inf, math.inf, once)]
        if two is not None and two.changed_rows > 1:
            more = f"the app's two data sets: one record changes {two.changed_rows} rows, if only in their last digits"
            return [replies, found(loudest, source, math.inf, math.inf, more)]
        trial, given = (loudest.trial, None) if two is None else (two.trial, two.pair)
        arrays = attack(
            trial, owner.mechanism.guarantee, bound_for(owner.mechanism), runs=runs, error=error, low_bits=True,
            sizes=(MANY,), least=_TRIALS, count=owner.examples, given=given,
        )  # fmt: skip
        return [replies, found(loudest, source, *arrays)]


def _loudest(
    client: ScratchClient, content: Mapping[str, Any], folder: Path, mod: Mod
) -> tuple[ScratchClient, str]:  # fmt: skip
    """Return the client whose arrays are attacked, and what to call them.

    Releases that are paid in rho are so many and so quiet that even with an eighth of their noise no attack would show
    one of them.  Clip and noise come from the same code if one release takes the whole budget, and there it shows.
    """
    if client.owner.mechanism.composition != "zcdp":
        return client, "noised arrays"
    place = folder / "loudest"
    place.mkdir(mode=0o700)
    schedule = {"kind": "fixed-horizon", "budget": client.owner.schedule.budget, "releases": 1}
    loudest = ScratchClient(client.owner, {**content, "schedule": schedule}, place, mod)
    return loudest, "noised arrays, the whole budget in one release"


def _difference(client: ScratchClient, apps: Mapping[str, App]) -> str:
    """Return in words where two data sets differ in more than noised arrays, or a repeated reply in anything at all."""
    plain: list[bytes] = []
    for name, app in apps.items():
        answers = list(client.answers(app))
        first, again = (_bytes(answers[number].reply) for number in (0, 2))
        seen = [_without_noise(answer) for answer in answers]
        plain = plain or seen
        for answer, ours, theirs in zip(answers, plain, seen, strict=True):
            if ours != theirs:
                return f"the answer to {answer.what} tells data that is {name!r} from {next(iter(apps))} data"
        if again and again != first:
            return "a repeated request gets other arrays than the first time"
    return ""


def _apps(owner: Owner) -> dict[str, App]:
    """Return apps as data sets would make them behave: ordinary first."""
    update = np.linspace(-1.0, 1.0, MANY)
    if owner.rows:
        update = np.linspace(-1.0, 1.0, MANY * min(ROWS, owner.examples)).reshape(-1, MANY)

    def told(change: FloatArray | float = 1.0, examples: int = 10, **numbers: float) -> App:
        numbers |= {"num-examples": examples}

        def app(message: Message, context: Context) -> Message:
            if message.metadata.message_type != "train":
                return Message(RecordDict({"metrics": MetricRecord(dict(numbers))}), reply_to=message)
            reply = trained(message, update * change)
            reply.content["metrics"] = MetricRecord(dict(numbers))
            return reply

        return app

    def of(arrays: Callable[[], Mapping[str, Tensor]]) -> App:
        return lambda message, context: Message(RecordDict({"arrays": record_of(arrays())}), reply_to=message)

    def talking(message: Message, context: Context) -> Message:
        reply = told()(message, context)
        reply.content["more"] = ConfigRecord({"labels": [1, 2, 3]})
        return reply

    def erring(message: Message, context: Context) -> Message:
        return Message(Error(code=9, reason="no data"), reply_to=message)

    apps = {
        "ordinary": told(), "large": told(examples=9999), "hard": told(loss=7.25),
        "empty": told(examples=0), "without news": told(0.0), "opposite": told(-1.0),
        "far out": told(1e200),
        "too much for training": told(math.nan), "unreadable": unreadable,
        "of another shape": of(lambda: {"weight": np.zeros(3)}), "talkative": talking, "missing": erring,
    }  # fmt: skip
    return apps | _apps_of_rows(update, owner.examples) if owner.rows else apps


def _apps_of_rows(table: FloatArray, examples: int) -> dict[str, App]:
    """Return apps that differ in which rows they return: as many, or as sound, as the data has records."""

    def returning(rows: Callable[[], FloatArray]) -> App:
        return lambda message, context: trained(message, rows())

    def ragged(message: Message, context: Context) -> Message:
        reply = trained(message, table)
        arrays = arrays_of(reply)
        arrays["bias"] = Array(arrays["bias"].numpy()[1:])
        return reply

    spoilt = np.where(np.arange(len(table)) == 0, math.nan, 1.0)[:, np.newaxis]
    return {
        "one record": returning(lambda: table[:1]), "no record": returning(lambda: table[:0]),
        "more than the public count": returning(lambda: np.resize(table, (min(examples + 1, _MOST_ROWS), MANY))),
        "one record that is too much": returning(lambda: table * spoilt),
        "one record far out": returning(lambda: np.where(np.isnan(spoilt), 1e300, table)),
        "added up already": returning(lambda: table.sum(axis=0)), "of ragged rows": ragged,
    }  # fmt: skip


def _bytes(reply: Message) -> list[bytes]:
    return [array.data for array in arrays_of(reply).values()] if reply.has_content() else []


def _without_noise(answer: Answer) -> bytes:
    """Return all that Flower sends of a reply, with zeros in place of noised numbers and of what the clock says."""
    reply, asked = answer.reply, answer.asked.metadata
    if reply.has_content():
        for record in reply.content.array_records.values():
            for name, array in record.items():
                record[name] = _blank(array)
    proto = message_to_proto(reply)
    sent = proto.metadata
    # A reply is stamped when it is made, and expires with the message that it answers: other times would be a code.
    if abs(sent.created_at + sent.ttl - asked.created_at - asked.ttl) < _CLOCK:
        sent.ttl = 0.0
    if asked.created_at - _CLOCK < sent.created_at < answer.until + _CLOCK:
        sent.created_at = 0.0
    return bytes(proto.SerializeToString(deterministic=True))


def _blank(array: Array) -> Array:
    """Return an array with all that goes around its numbers, and zeros for those that are finite."""
    try:
        values = array.numpy()
    except Exception:
        return array  # it cannot be read, and the whole of it is compared
    head = array.data[: len(array.data) - values.nbytes]
    blank = np.where(np.isfinite(values), np.zeros_like(values), values)
    return Array(dtype=array.dtype, shape=array.shape, stype=array.stype, data=head + blank.tobytes())
