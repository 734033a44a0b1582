"""The guard of a node: whether a message's app was reviewed, and the owner's gate around the app in its box."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from logging import ERROR, INFO, WARNING
from pathlib import Path
from typing import Any, TypeAlias

from flwr.app import Context, Message, RecordDict
from flwr.app.metadata import validate_message_type
from flwr.common.serde import context_to_proto, message_to_proto
from flwr.supercore import log

from pausefl.errors import InvalidValueError, PauseError, is_finite, require
from pausefl.flower.client import NODE_KEY, App, PrivateUpdate
from pausefl.flower.node.app_request import app_request, check_size
from pausefl.flower.node.array_bytes import from_bytes, size_of
from pausefl.flower.node.box import MOST_STATE, PYTHON, Box, BoxError, pack, unpack
from pausefl.flower.node.bundle import read_bundle, sha256
from pausefl.flower.node.kept_state import kept_state, state_in
from pausefl.flower.node.noise_time import NoiseTime
from pausefl.flower.node.record_rooms import check_time, rows_from_rooms, time_between
from pausefl.flower.node.reviewed_apps import ReviewedApps
from pausefl.flower.node.shared_limits import memory_there, supernode_memory
from pausefl.flower.protocol import REHEARSAL, Refusal, arrays_in, record_of
from pausefl.owner.data_records import DataRecords
from pausefl.owner.gate import Gate, Numbers, Rows, Train
from pausefl.owner.kept_replies import is_retired, replies_folder
from pausefl.owner.owner_file import read_owner
from pausefl.owner.request_and_reply import Reason, Refused, Reply, TrainingRequest
from pausefl.privacy.mechanisms.tensor_rules import Tensor

SLACK, QUICK = 15.0, 10.0
"""With ``answer_after``: the seconds it must be above the time limit, for what comes before and after the app, also to
end all its processes; and after how many seconds an answer leaves for which no app ran."""

RowsInRooms: TypeAlias = Callable[[DataRecords, Mapping[str, Tensor], Message, Context], Rows]
"""Lets an app train on each record by itself, and hands on a row for each."""

_NUMBERS_A_SECOND, _TENSORS_A_SECOND = 5e7, 5e4
"""Of rows that are clipped and added up: half of what was seen, or less."""

_MEMORY_EACH, _MEMORY_TENSOR, _MEMORY_SHARE = 400, 5000, 4
"""Bytes of memory that the gate takes for each number of a model and for each tensor, 364 and 4,600 were seen; and its
part of the memory.  The SuperNode has half of it."""

_SUPERNODE, _ON_ITS_WAY = 300 << 20, 10
"""Bytes of memory that a SuperNode takes at rest, and how often it has a reply in memory on its way: 8 were seen."""

_LAST_WORDS, _COPIES = 300, 7
"""Letters of an app's last line that an error quotes; how many copies of its state taking it over needs at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What an owner has decided about the code on the node.

    Law: an answer is the gate's, or one fixed refusal.  A bundle whose hash is not on the list is not even unpacked.
    The code of one that is runs in the box only, and everything that comes out of the box goes through the gate.
    With ``answer_after``, an answer for which the app ran leaves so many seconds after its task was launched, or twice
    as many, and so on, however long the app took, and it is noised and kept shortly before; any other answer leaves
    after a fixed time, too; no app keeps a state, which would take time to load; and one processor is free of apps.
    ``noise`` is how long noise takes here, tried before any app ran; without it no model is too large.
    """

    owner: Path
    reviewed: Path
    box: Box
    answer_after: float = 0.0
    noise: NoiseTime | None = None

    def __post_init__(self) -> None:
        after, limit = self.answer_after, self.box.time_limit
        fine = is_finite(after) and (after == 0.0 or after >= limit + SLACK)
        bound = f"at least {limit + SLACK:g}, {SLACK:g} seconds above the time limit"
        require(fine, "--answer-after", after, bound, "raise it, or lower --time-limit")

    def answer(
        self, bundle: bytes | None, message: Message, context: Context, launched: float | None = None
    ) -> Message:
        """Answer one message to the app in this bundle, if there is one that could run; ``launched``: since when."""
        begun = time.monotonic() if launched is None else launched
        subject = subject_of(self.owner)
        reply, ran = self._answered(bundle, message, context, begun)
        if self.answer_after:
            context.state = RecordDict()
            now = time.monotonic()
            time.sleep(max(0.0, leaves(begun, self.answer_after if ran else QUICK, now) - now))
            if reply.has_content() and reply.content.array_records and not self._may_leave(subject):
                return refusal(message, "exhausted")
            # Anew: a message is stamped with the time when it was made, which is when training had ended.
            reply = Message(reply.error if reply.has_error() else reply.content, reply_to=message)
        return reply

    def _may_leave(self, subject: tuple[Path, str] | None) -> bool:
        """Whether a reply that was held back may leave: nothing was moved, renamed or retired since it was made."""
        if subject is None or subject != subject_of(self.owner):
            return False
        return subject[0].is_dir() and not is_retired(*subject)

    def _answered(self, bundle: bytes | None, message: Message, context: Context, begun: float) -> tuple[Message, bool]:
        """Return the answer, and whether the app ran for it."""
        if bundle is None:
            return refusal(message, "unreviewed"), False
        try:
            why = self._refuses(bundle, message, context) or self._unready() or self._came_late(begun)
        except Exception as error:  # Flower would send its text at once
            log(ERROR, "pausefl: a message cannot be read", exc_info=error)
            why = "bad-request"
        if why is not None:
            return refusal(message, why), False
        ran, began = False, 0.0

        def app(asked: Message, given: Context) -> Message:
            nonlocal ran
            ran = True
            # Nothing is charged for a rehearsal, so not even the time it takes may depend on the data.  That of
            # looking through their folders does, and an app can make it depend on how full their disk is.
            box = replace(self.box, spare_one=self.answer_after > 0.0)
            if asked.metadata.message_type == REHEARSAL:
                return run_boxed(replace(box, data=(), blind=True), bundle, asked, given, end=self._end(begun))
            box.check_folders()
            owner = read_owner(self.owner)
            rows, by_app = owner.examples if owner.rows else 0, owner.clipped_by == "app"
            return run_boxed(box, bundle, asked, given, rows, mean=by_app, end=self._end(begun))

        def rows(records: DataRecords, model: Mapping[str, Tensor], asked: Message, given: Context) -> Rows:
            box = replace(self.box, data=(), spare_one=self.answer_after > 0.0)
            box.check_folders()
            paced = self.answer_after > 0.0
            end = self._end(begun)
            return rows_from_rooms(box, bundle, asked, given, model, records, began=began, end=end, paced=paced)

        context.node_config[NODE_KEY] = str(self.owner)

        def begins() -> None:  # before the data is looked at: data that is missing or long must not show in the time
            nonlocal ran, began
            ran, began = True, time.time()

        reply = _HeldUpdate(begins, lambda: self._hold(begun), rows, self._is_too_large)(message, context, app)
        if ran:  # also if it failed: neither the bytes that are kept, nor that there are any, may tell
            context.state = kept_state(state_in(context.state, sha256(bundle)), sha256(bundle))
        return reply, ran

    def _unready(self) -> Reason | None:
        """Refuse records that the owner's file names since the node was started, if they would not be safe now."""
        try:
            owner = read_owner(self.owner)
            if owner.records is not None:
                replace(self.box, hidden=(*self.box.hidden, owner.records.resolve()))
                check_time(self.box.time_limit, owner.examples, paced=self.answer_after > 0.0)
        except PauseError as error:
            log(ERROR, "pausefl: %s", error)
            return "unready"
        return None

    def _came_late(self, begun: float) -> Reason | None:
        """Refuse a message that leaves an app less time than its limit; with ``answer_after``.

        The server can be slow to hand over a message.  One record that takes a little longer would then decide whether
        training fails.
        """
        if not self.answer_after or time.monotonic() <= begun + self._third:
            return None
        text = "pausefl: a message took %.1f seconds to come, so its app would not have its time"
        log(WARNING, text, time.monotonic() - begun)
        return "bad-request"

    def _end(self, begun: float) -> float:
        """Return when an app is stopped at the latest; with ``answer_after``.

        The app's own time limit counts from its start, and a server can send a request that takes long to hand over.
        An app that starts late then has less time: it must not end so late that its answer does, which would show
        whether it took long.  A third of the slack is for what comes before the app, and one for ending it.
        """
        return begun + self.box.time_limit + self._third if self.answer_after else math.inf

    def _hold(self, begun: float) -> None:
        """Wait, once training has ended or failed, until a time that does not tell when; with ``answer_after`` only.

        The gate keeps a reply as soon as there is one.  A server can end the node while its answer is held back, and
        repeat the request to a new one: a kept reply would show that training had ended by then.  A third of the slack
        is left for the noise.
        """
        if self.answer_after:
            stopped, end = None, leaves(begun - self._third, self.answer_after, time.monotonic())
            while (left := end - time.monotonic()) > 0.0:
                try:
                    time.sleep(left)
                except BaseException as error:  # a signal: it must not show whether the app had ended, either
                    stopped = error
            if stopped is not None:
                raise stopped

    @property
    def _third(self) -> float:
        return (self.answer_after - self.box.time_limit) / 3

    def _is_too_large(self, model: Mapping[str, Tensor]) -> bool:
        """Whether so large a model may need more memory than it gets; or, with ``answer_after``, too long for noise.

        What is left of the memory may depend on the data.  So a server must not find it by larger and larger models.

        The server chooses the size, and the number of tensors.  At the edge a little would decide whether an answer
        leaves in time.  For the same reason nothing is measured here: what an app has just done to the machine would
        decide about the refusal.
        """
        numbers, part = sum(tensor.size for tensor in model.values()), memory_there() // _MEMORY_SHARE
        needed = numbers * _MEMORY_EACH + len(model) * _MEMORY_TENSOR
        if needed > part:
            text = "pausefl: a model of %d numbers in %d tensors needs about %d MiB of memory, but must need at most %d"
            log(WARNING, text, numbers, len(model), needed >> 20, part >> 20)
            return True
        owner = read_owner(self.owner)
        size, limit = size_of(model), (supernode_memory(rooms=owner.records is not None) - _SUPERNODE) // _ON_ITS_WAY
        if size > limit:
            log(WARNING, "pausefl: a model of %d bytes, but the SuperNode has memory for one of %d", size, limit)
            return True
        if self.noise is None:
            return False
        kind = owner.mechanism.name
        if kind != self.noise.mechanism:
            text = "pausefl: the owner's file now says %s, but the node was started with %s; start the node again"
            log(ERROR, text, kind, self.noise.mechanism)
            return True
        seconds, most = self.noise.seconds(model), self._third / 2
        row = numbers / _NUMBERS_A_SECOND + len(model) / _TENSORS_A_SECOND if owner.rows else 0.0
        adding, between = owner.examples * row, time_between(self.box.time_limit, paced=True) / 2
        if owner.records is None:  # all rows are clipped and added up in the time of the noise
            seconds += adding
        elif adding > between:  # each is as it comes, before the next record begins
            text = "pausefl: to add up %d rows takes about %.1f seconds, but must take at most %.1f; %s"
            log(WARNING, text, owner.examples, adding, between, "raise --time-limit, and --answer-after with it")
            return True
        if seconds <= most:
            return False
        text = "pausefl: the noise for a model of %d tensors takes about %.1f seconds, but must take at most %.1f; %s"
        log(WARNING, text, len(model), seconds, most, "raise --answer-after, or lower --time-limit")
        return True

    def _refuses(self, bundle: bytes, message: Message, context: Context) -> Reason | None:
        """Say why a message does not even reach the gate; give the app the settings that it does not find in it."""
        if not validate_message_type(message.metadata.message_type):
            log(WARNING, "pausefl: a message of type %r cannot be answered", message.metadata.message_type)
            return "bad-request"
        try:
            known = sha256(bundle) in ReviewedApps(self.reviewed)
        except Exception as error:
            log(ERROR, "pausefl: %s", error)
            known = False
        if not known:
            log(
                WARNING,
                "pausefl: app %s is not in %s, so it does not run; review it with 'pausefl node review'",
                sha256(bundle),
                self.reviewed,
            )
            return "unreviewed"
        # Whoever reviewed the app has seen which settings a run can change.  Flower keeps those of other runs, too.
        known_settings = read_bundle(bundle).settings
        given = context.run_config.items()
        odd = [key for key, value in given if key not in known_settings or not _is_alike(value, known_settings[key])]
        if odd:
            text = (
                "pausefl: a run sets %.200r, but its app has no such setting, or one of another type; it does not run"
            )
            log(WARNING, text, odd[0])
            return "bad-request"
        context.run_config = {**known_settings, **context.run_config}
        try:
            check_size(message, context)
        except InvalidValueError as error:
            log(WARNING, "pausefl: %s", error)
            return "bad-request"
        return None

    def text(self) -> str:
        """Return it as text, for another process."""
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def of(text: str) -> Guard:
        """Return what ``text`` was made of."""
        values = json.loads(text)
        box = values["box"]
        folders = {name: tuple(map(Path, box[name])) for name in ("data", "hidden")}
        paths = {name: Path(values[name]) for name in ("owner", "reviewed")}
        noise = values["noise"] and NoiseTime(**values["noise"])
        return Guard(**paths, box=Box(**{**box, **folders}), answer_after=values["answer_after"], noise=noise)


class _HeldUpdate(PrivateUpdate):
    """The mod around an app in its box: a reply is made at a time that does not tell when, or how, training ended."""

    __slots__ = ("_begins", "_hold", "_is_too_large", "_rows_in_rooms")

    def __init__(
        self, begins: Callable[[], None], hold: Callable[[], None], rows_in_rooms: RowsInRooms,
        is_too_large: Callable[[Mapping[str, Tensor]], bool],
    ) -> None:  # fmt: skip
        super().__init__()
        self._begins, self._hold, self._rows_in_rooms, self._is_too_large = begins, hold, rows_in_rooms, is_too_large

    def _pass(self, gate: Gate, request: TrainingRequest, model: Mapping[str, Tensor], train: Train) -> Reply:
        if self._is_too_large(model):  # here, and not before: this is the very model that the app gets
            raise Refused("bad-request", "this model is too large for this machine, or for the time that there is")

        def begun() -> tuple[Mapping[str, Tensor] | Rows, Numbers]:
            self._begins()
            return train()

        return gate.train(request, model, begun, hold=self._hold, more_memory=_COPIES * MOST_STATE)

    def _rows(
        self, records: DataRecords, model: Mapping[str, Tensor], app: App, msg: Message, context: Context
    ) -> Rows:  # fmt: skip
        context.state = RecordDict()  # an app that keeps nothing cannot carry one record to another
        return self._rows_in_rooms(records, model, msg, context)


def subject_of(owner: Path) -> tuple[Path, str] | None:
    """Return where the replies of an owner's data are kept, and its name; None if that cannot be told."""
    with suppress(Exception):
        found = read_owner(owner)
        return replies_folder(found.ledger.resolve()), found.name
    return None


def _is_alike(value: Any, known: Any) -> bool:
    """Whether a value is of the type of a known one; a whole number can stand for any number."""
    return type(value) is type(known) or (type(value), type(known)) == (int, float)


def time_limit_within(answer_after: float) -> float:
    """Return how long an app may take if nothing else is said: nine tenths, and so that there is enough slack."""
    require(answer_after > SLACK, "--answer-after", answer_after, f"above {SLACK:g} seconds", "raise it")
    return min(0.9 * answer_after, answer_after - SLACK)


def leaves(launched: float, period: float, now: float) -> float:
    """Return when an answer leaves: one period after the launch, or if that has passed, at the end of the next one.

    An app can make it pass, by what must be ended after it; this lets the server see no more than that it did.
    """
    return launched + period * max(1, math.ceil((now - launched) / period))


def refusal(message: Message, why: Reason) -> Message:
    """Return the answer to a message whose app may not run."""
    if not validate_message_type(message.metadata.message_type):
        message.metadata.message_type = "train"  # Flower sends no answer of another type
    return Message(Refusal(why).error(), reply_to=message)


def run_boxed(
    box: Box, bundle: bytes, message: Message, context: Context, records: int = 0, *, mean: bool = False,
    end: float = math.inf,
) -> Message:  # fmt: skip
    """Return the tensors that the app in a bundle trained, run in the box until ``end``; raise whatever goes wrong.

    Where single ``records`` are protected, they have a row for each, and at most so many; or the app adds a ``mean``.
    Nothing else of its answer comes out.  Its state in the context is kept for its next message, as Flower does it, but
    for this app alone: the server says which runs have one context, also runs of two apps.
    """
    key, model = arrays_in(message.content)
    asked, given = app_request(message, context, time.time())
    known = [part.SerializeToString() for part in (message_to_proto(asked), context_to_proto(given))]
    request = pack(bundle, *known, state_in(context.state, sha256(bundle)))
    command = [PYTHON, "-P", "-m", "pausefl.flower.node", "app"]
    command += [word for word, told in (("records", records), ("mean", mean)) if told]
    most = len(pack(b"", b"")) + max(1, records) * size_of(model) + MOST_STATE
    said: deque[str] = deque(maxlen=1)

    def hear(line: str) -> None:
        log(INFO, "app says: %s", line)
        said.append(line)

    try:
        trained, state = unpack(box.run(command, request, most, hear, end=end), 2)
    except BoxError as error:
        raise BoxError("; its last line was: ".join((str(error), *(line[:_LAST_WORDS] for line in said)))) from None
    content = RecordDict({key: record_of(from_bytes(model, trained, records=records > 0))})
    context.state = kept_state(state, sha256(bundle))
    return Message(content, reply_to=message)
