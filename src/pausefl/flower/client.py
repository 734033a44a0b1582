"""The client's mod: it takes each message to the owner's gate, and the gate's answer back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING, getLogger
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as RecordBytes
from flwr.supercore import log

from pausefl.errors import ConfigError, PauseError, require
from pausefl.flower.protocol import (
    DATA,
    METRICS,
    RECORD,
    REHEARSAL,
    Note,
    Refusal,
    arrays_in,
    read_request,
    record_of,
    rehearsal_reply,
    with_record,
)
from pausefl.flower.simulation import called_by_an_actor, in_simulation
from pausefl.owner.data_records import DataRecords
from pausefl.owner.gate import Gate, Numbers, Rows, Train, measured, rehearse
from pausefl.owner.model_update import row_of
from pausefl.owner.owner_file import read_owner
from pausefl.owner.request_and_reply import Refused, Reply, TrainingRequest, refusing
from pausefl.owner.training_leftovers import run_and_undo
from pausefl.privacy.mechanisms.tensor_rules import Tensor

_VARIABLE = "PAUSEFL_OWNER"
NODE_KEY = "pausefl-owner"
"""The key of the SuperNode's configuration that names the owner's file."""

App = Callable[[Message, Context], Message]

_MOST_STATE = 1 << 30
"""Bytes of the app's state that are kept between messages: Flower cannot send more than twice as many."""

_passes = False
_told: set[str] = set()
"""Refusals that were logged for simulated clients of this process."""


def pass_through() -> None:
    """Let every message through, unchanged, in this process: the gate stands outside of it, around the app's box."""
    global _passes
    _passes = True


@contextmanager
def passing_through() -> Iterator[None]:
    """Do the same while this lasts, for an app of which another mod has charge."""
    global _passes
    before, _passes = _passes, True
    try:
        yield
    finally:
        _passes = before


class PrivateUpdate:
    """A Flower mod that lets out noised updates under the owner's budget, and nothing else.

    Args:
        owner: The owner's file, if neither the SuperNode's configuration (``pausefl-owner``) nor the environment
            (``PAUSEFL_OWNER``) names one.

    Put it first in the list of mods of the ``ClientApp``, not on one function.

    Law: that of :class:`~pausefl.owner.gate.Gate`, through which every answer goes.  The app gets a copy of the
    message.  Of its answer, only tensors and numbers are read.

    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[PrivateUpdate()])
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: str | os.PathLike[str] | None = None) -> None:
        self._owner = owner

    def __call__(self, msg: Message, context: Context, call_next: App) -> Message:
        """Answer one message."""
        if _passes:
            return call_next(msg, context)
        try:
            content = self._answer(msg, context, call_next)
        except Refused as why:
            _tell(why)
            return Message(Refusal(why.reason, why.releases).error(), reply_to=msg)
        except BaseException as error:
            # Flower would send the exception's text to the server, and it may quote the data.  Also Ctrl-C: a timer
            # that training left behind can raise it.
            log(ERROR, "pausefl: nothing was sent", exc_info=error)
            return Message(Refusal("failed").error(), reply_to=msg)
        return Message(content, reply_to=msg)

    def _answer(self, msg: Message, context: Context, app: App) -> RecordDict:
        log = getLogger("flwr")
        with refusing("unready", PauseError):
            path = find_owner(context.node_config, self._owner)
            owner = read_owner(path, context.node_config)
            if owner.simulation and not in_simulation():
                raise ConfigError(
                    f"{path}: simulation is true, but this is not a simulation; create a file for a "
                    "deployment with 'pausefl owner init'"
                )
            if called_by_an_actor() and not owner.simulation:  # it would spend the only budget of this data
                raise ConfigError(
                    f"{path}: this is a simulation, but the file is for a deployment; create a file for simulations "
                    "with 'pausefl owner init --simulation'"
                )
        if msg.metadata.message_type == REHEARSAL:
            # Without the app's state: it may hold something of the data.
            rehearse(owner, lambda: _asked(app, msg, replace(context, state=RecordDict())), log)
            return rehearsal_reply(owner.name)
        kind = msg.metadata.message_type.partition(".")[0]
        if kind != "train":
            numbers = measured(owner, kind, lambda: _numbers(_asked(app, msg, context)), log)
            return RecordDict({METRICS: MetricRecord(dict(numbers))})
        # Also what Flower makes of arrays that are none: the request is at fault, and nothing was charged.
        with refusing("bad-request", Exception):
            msg.content.pop(DATA, None)  # only the owner's data has records
            request, hello = read_request(msg)
        gate = Gate(owner, request.run, log)
        if hello:
            return RecordDict({RECORD: Note(owner.name, gate.releases, left=gate.left).record()})
        with refusing("bad-request", Exception):
            key, model = arrays_in(msg.content)
            require(key not in (RECORD, METRICS), "array record", key, "another name", "name it 'arrays'")

        def rows(path: Path) -> Rows:
            with DataRecords(path, owner.examples) as records:
                if len(records) > owner.examples:
                    text = "pausefl: %s has %d records, but replies.examples is %d, so some are left out; %s"
                    log.warning(text, path, len(records), owner.examples, "set it to the number of your records")
                yield from self._rows(records, model, app, msg, context)

        def train() -> tuple[dict[str, Tensor] | Rows, Numbers]:
            if owner.records is not None:
                return rows(owner.records), {}
            answer = _asked(app, msg, context)
            return arrays_in(answer)[1], _numbers(answer)

        reply = self._pass(gate, request, model, train)
        ahead = reply.next_level.noise if reply.next_level else None
        note = Note(owner.name, reply.releases, reply.seconds, reply.replayed, reply.level, reply.left, ahead)
        metrics = MetricRecord(dict(reply.numbers))
        return RecordDict({key: record_of(reply.arrays), METRICS: metrics, RECORD: note.record()})

    def _pass(self, gate: Gate, request: TrainingRequest, model: Mapping[str, Tensor], train: Train) -> Reply:
        """Let one training through the gate."""
        return gate.train(request, model, train)

    def _rows(
        self, records: DataRecords, model: Mapping[str, Tensor], app: App, msg: Message, context: Context
    ) -> Rows:  # fmt: skip
        """Let the app train on each record by itself, and hand on a row for each; None where it fails."""
        failed = 0
        order = records.in_random_order()
        for record in map(records.read, order):
            row = None
            try:
                if record is None:
                    raise ValueError("the record is too long, or cannot be read")
                asked, own = with_record(msg, record), replace(context, state=RecordDict())
                # Undone for each record: what one leaves behind, a timer say, is not for the next one.
                answer = run_and_undo(partial(_asked, app, asked, own))
                row = row_of(model, arrays_in(answer)[1])
            except BaseException as error:  # also an exit: no single record may end the training
                failed += 1
                log(DEBUG, "pausefl: the app failed for a record", exc_info=error)
            yield row
        tell_trained(failed, len(order))


def tell_trained(failed: int, records: int) -> None:
    """Log on how many records an app was trained, and for how many it has failed."""
    log(INFO, "pausefl: the app trained on %d of %d records", records - failed, records)
    if failed:
        log(WARNING, "pausefl: the app failed for %d of %d records; they count as zeros", failed, records)


def _tell(why: Refused) -> None:
    """Log a refusal; in a simulation, where one process plays many clients, the same words only once."""
    again = in_simulation() and str(why) in _told
    if in_simulation():
        _told.add(str(why))
    log(DEBUG if again else WARNING, "pausefl refuses: %s", why)


def find_owner(node_config: Mapping[str, Any], default: str | os.PathLike[str] | None) -> Path:
    """Return the path of the owner's file: from the SuperNode's configuration, else the environment, else the app."""
    path = node_config.get(NODE_KEY) or os.environ.get(_VARIABLE) or default
    if not path:
        raise ConfigError(
            f"no owner's file is named; pass PrivateUpdate(owner=FILE) in a simulation, or start the SuperNode with "
            f"--node-config '{NODE_KEY}=\"FILE\"'"
        )
    return Path(str(path)).expanduser().absolute()


def _asked(app: App, msg: Message, context: Context) -> RecordDict:
    """Return the app's answer to copies of message and context, so that it cannot write into what goes back.

    Of the context only the state is the app's, and only a state that Flower can send: it sends the reply first, but it
    never finishes a message whose context it cannot send, and the server would see that.
    """
    copy = deepcopy(msg)
    copy.content.pop(RECORD, None)
    parts = {name: deepcopy(getattr(context, name)) for name in ("node_config", "run_config", "state")}
    own = replace(context, **parts)
    answer = app(copy, own)
    try:
        context.state = _as_sent(own.state)
    except Exception as error:
        log(WARNING, "pausefl: the app's new state cannot be kept, so the old one stays", exc_info=error)
    if not isinstance(answer, Message) or not answer.has_content():
        raise Refused("failed", "the app answered with an error or with nothing")
    return answer.content


def _as_sent(state: RecordDict) -> RecordDict:
    """Return what comes out at the other end when Flower sends this state."""
    sent = recorddict_to_proto(state).SerializeToString()
    require(len(sent) <= _MOST_STATE, "state", len(sent), f"of {_MOST_STATE} bytes at most", "keep less in the state")
    return recorddict_from_proto(RecordBytes.FromString(sent))


def _numbers(content: RecordDict) -> Numbers:
    return {name: value for record in content.metric_records.values() for name, value in record.items()}
