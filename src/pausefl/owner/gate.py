"""The gate: the only way by which anything of an owner's data leaves.  It charges, then trains, then releases.

Reference: PAUSE, Theorem 3, with the server as the adversary.
"""

from __future__ import annotations

import logging
import mmap
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.errors import AlreadyReservedError, BudgetExceededError, InvalidValueError, PauseError, is_finite, require
from pausefl.owner.data_records import MOST_BYTES
from pausefl.owner.kept_replies import ReplyStore, replies_folder
from pausefl.owner.ledger_identity import charging, note_head, open_ledger, require_name
from pausefl.owner.model_update import check_model, contributions, difference, digest, released
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import SECONDS, WEIGHT, Refused, Reply, TrainingRequest, refusing
from pausefl.owner.training_leftovers import run_and_undo
from pausefl.privacy import Layers, SecureNoise, SqliteLedger
from pausefl.privacy.ledger.charge import Charge, Reservation, alone_epsilon, outlook
from pausefl.privacy.mechanisms.record_sum import RecordSum
from pausefl.privacy.mechanisms.tensor_rules import Tensor

Numbers: TypeAlias = Mapping[str, object]
"""What an app calls its metrics."""
Rows: TypeAlias = Generator[Mapping[str, Tensor] | None, None, None]
"""Trains on one record after the other: what each adds to the model, or None for one that adds nothing."""
Train: TypeAlias = Callable[[], tuple[Mapping[str, Tensor] | Rows, Numbers]]
"""Trains, and returns all tensors of the model, changed, and the app's numbers.

Where single records are protected, each tensor has one dimension more: a row for each record, with what it adds; unless
the owner lets the app clip them.  Where pausefl cuts the data into records, the rows come one by one.
"""

_Update: TypeAlias = dict[str, Tensor] | RecordSum
_Trained: TypeAlias = tuple[_Update, dict[str, int | float]]
"""What training changed, and the numbers of the app that may leave."""

_LOG, _STDERR = logging.getLogger("pausefl"), 2

_SPARE, _SPARE_EACH = 1 << 24, 200
"""Bytes of memory held for the release, and more for each number: noise was seen to take up to 140 for each."""

_TAKEN_EACH, _TAKEN_TENSOR = 64, 2048
"""Bytes more for each number and each tensor, to take over what training returns: one that fails returns nothing."""

_ROW_EACH = 64
"""Bytes for each number of a row, where rows come one by one: to read, clip and add it."""

_PACKAGES = 1 << 29
"""Bytes for the packages of an app that gets one record at a time: they are loaded after the charge, outside of the
process that works on a record, and a large record must not be what they are lacking for."""

_TINY = {"one": np.zeros(2)}
_ONE = Layers.of(_TINY)
"""A model on which is tried whether anything can be released."""


class Gate:
    """One owner's ledger and kept replies, for the length of one message of a run.

    Args:
        owner: The owner's terms, see :func:`~pausefl.owner.owner_file.read_owner`.
        run: The name of the run.  In a simulation each run has a ledger of its own.
        log: The owner's own log.  Nothing of it leaves.

    Law: a training request is charged in the ledger, durably, before the data is touched.  A release name is charged
    once.  A second request for it gets the stored bytes, or a refusal.  For a given request and a given state of ledger
    and kept replies, everything in the answer except the noised arrays is the same, whatever the data is and whether or
    not training failed.  The reason is that a failure may depend on the data, so anything that shows it would leak a
    bit without noise.  If training fails, the gate therefore sends the noise of an unchanged model, and writes the
    reason to ``log`` only.  No number of the app leaves.  Only in a simulation, the owner may allow some.

    Where single records are protected, the noise hides one record and not the whole sum, so the arrays do show that
    training failed.  The app must make sure that no single record can make it fail.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pausefl.privacy import Geometric, Laplace
    >>> request, model = TrainingRequest(run="trial", round=1), {"layer": np.zeros(3)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     owner = Owner(
    ...         name="clinic-7", ledger=Path(folder), simulation=True,
    ...         schedule=Geometric(budget=40.0, decay=0.04), mechanism=Laplace(unit="coordinate", width=1.0),
    ...     )
    ...     gate = Gate(owner, run="trial")
    ...     reply = gate.train(request, model, lambda: ({"layer": np.ones(3)}, {}))
    ...     again = gate.train(request, model, lambda: ({"layer": np.ones(3)}, {}))
    >>> reply.releases, reply.replayed, round(reply.left, 3)
    (1, False, 0.961)
    >>> again.releases, again.replayed, bool((again.arrays["layer"] == reply.arrays["layer"]).all())
    (1, True, True)
    """

    __slots__ = ("_ledger", "_log", "_owner", "_replies")

    def __init__(self, owner: Owner, run: str, log: logging.Logger = _LOG) -> None:
        self._owner, self._log = owner, log
        with refusing("unready", PauseError, OSError):
            self._ledger = open_ledger(owner, run)
        self._replies = ReplyStore(replies_folder(self._ledger.path), owner.keep)

    @property
    def releases(self) -> int:
        """How many releases of this data were charged in all."""
        return self._ledger.checked_releases().get(self._owner.name, 0)

    def train(
        self, request: TrainingRequest, model: Mapping[str, Tensor], train: Train, *,
        hold: Callable[[], None] = lambda: None, more_memory: int = 0,
    ) -> Reply:  # fmt: skip
        """Charge, train and release; or return once more what left for this request.

        Args:
            request: What the server asks for.
            model: The tensors of the model, by name.
            train: Trains, and returns the tensors of the changed model and the app's own numbers.  Where the gate clips
                single records, it returns a row for each record instead, with what this record adds.
            hold: Called after training, whether or not it failed.  It may wait: all that comes after it takes the same
                time in both cases.
            more_memory: How many bytes ``train`` itself may need to take over what was trained.
        """
        owner, mechanism, noise = self._owner, self._owner.mechanism, SecureNoise()
        # Check.
        with refusing("bad-request", Exception):
            layers = self._checked(request, model)
            # A copy: training may write into the tensors it was given.
            model = {name: np.array(tensor) for name, tensor in model.items()}
            asked = digest(model)
            dimension = sum(model[name].size for name in layers.released())
            size = sum(tensor.size for tensor in model.values())  # with those that stay here
        with self._opened():
            # What was charged before needs no room: to repeat it is free, so it must not tell how much room there is.
            if self._knows(request) and self._charge(request, dimension) is None:
                return self._sent_before(request, asked, dimension)
            # Prepare: what is missing shows now, before it costs any budget, and not after training, which may use up
            # memory, disk and descriptors by an amount that depends on the data.
            with refusing("unready", PauseError, OSError, MemoryError):
                unchanged, total = (self._unchanged(model, layers, request.clip) for _ in range(2))
                taken = _touched(
                    _TAKEN_EACH * size + _TAKEN_TENSOR * len(model) + more_memory + self._record_size(model)
                )
                spare = _touched(_SPARE + _SPARE_EACH * dimension)
                tried = max(1.0, mechanism.least_epsilon)
                released(_TINY, self._unchanged(_TINY, _ONE), _ONE, mechanism, tried, noise, rows=owner.rows)
                place = self._replies.place(owner.name, request.release, asked, Reply(model, _allowed(owner, {}), 0))
            with ExitStack() as unused:
                unused.enter_context(place)
                charge = self._charge(request, dimension)
                unused.pop_all()
        with place:
            if charge is None:
                return self._sent_before(request, asked, dimension)
            # Train, release, keep.
            with refusing("failed", BaseException, releases=charge.play):
                alone = alone_epsilon(charge, mechanism)
                epsilon = min(alone, request.epsilon or alone)
                level = mechanism.noise_level(dimension, epsilon, owner.examples)
                # Before training too: after it, nothing may be left to fail that training could have broken.
                ahead = self._ahead(dimension)
                del taken
                start = time.monotonic()
                trained = self._trained(train, model, layers, total)
                seconds = float(f"{max(time.monotonic() - start, 1e-3):.2g}") if SECONDS in owner.allow else None
                update, numbers = self._held(hold, trained) or (unchanged, _allowed(owner, {}))
                del spare
                with np.errstate(all="ignore"):  # an app may have made numpy raise where it rounds
                    arrays = released(
                        model, update, layers, mechanism, epsilon, noise,
                        clip=request.clip, count=owner.examples, rows=owner.rows,
                    )  # fmt: skip
                reply = Reply(arrays, numbers, charge.play, seconds, level=level)
                place.keep(reply)
                return replace(reply, **ahead)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Open the ledger once until the charge, and close it before training, which may touch what is open."""
        with ExitStack() as held:
            with refusing("unready", PauseError, OSError):
                held.enter_context(self._ledger.held_open())
            yield

    def _knows(self, request: TrainingRequest) -> bool:
        with refusing("unready", PauseError, OSError):
            return self._ledger.knows(self._owner.name, request.release)

    def _charge(self, request: TrainingRequest, dimension: int) -> Charge | None:
        """Charge a release, and note it, durably; None if it was charged before."""
        owner = self._owner
        try:
            with charging(self._ledger):
                require_name(self._ledger, owner.name)  # again: another file may have charged it since
                charge = self._ledger.reserve(
                    owner.name, request.release, owner.schedule,
                    mechanism=owner.mechanism, noise=SecureNoise(), dimension=dimension,
                )  # fmt: skip
                with refusing("failed", BaseException, releases=charge.play):
                    note_head(self._ledger)
        except Refused:
            raise
        except AlreadyReservedError:
            return None
        except BudgetExceededError as error:
            raise Refused("exhausted", str(error), self.releases) from error
        except (PauseError, OSError) as error:
            raise Refused("unready", str(error)) from error
        _tell_charge(self._log, charge, self._ledger)
        return charge

    def _checked(self, request: TrainingRequest, model: Mapping[str, Tensor]) -> Layers:
        """Return which tensors leave; refuse what could not be served."""
        layers = Layers.of(model, batch_norm=self._owner.batch_norm)
        check_model(model, layers)
        wish, least, name = request.epsilon, self._owner.mechanism.least_epsilon, self._owner.mechanism.name
        require(wish is None or wish >= least, "epsilon", wish, f"at least {least:g} for {name}", "ask for less noise")
        require(request.round >= 1, "round", request.round, "1 or more", "count rounds from 1")
        return layers

    def _record_size(self, model: Mapping[str, Tensor]) -> int:
        """Return how many bytes one record on its way takes, and its row, if pausefl hands out records."""
        if self._owner.records is None:
            return 0
        return _ROW_EACH * sum(tensor.size for tensor in model.values()) + 3 * MOST_BYTES + _PACKAGES

    def _unchanged(self, model: Mapping[str, Tensor], layers: Layers, clip: float | None = None) -> _Update:
        """Return the update of a training that changed nothing."""
        if self._owner.records is not None:
            dimension = sum(model[name].size for name in layers.released())
            return self._owner.mechanism.record_sum(dimension, self._owner.examples, clip)
        zeros = difference(model, model, layers)
        if self._owner.rows:
            return {name: tensor[np.newaxis].astype(model[name].dtype) for name, tensor in zeros.items()}
        return zeros

    def _sent_before(self, request: TrainingRequest, asked: str, dimension: int) -> Reply:
        """Return what left for this request, under today's file, and with today's count of releases."""
        kept = self._replies.load(self._owner.name, request.release, asked)
        if kept is None:
            why = (
                f"release {request.release!r} was charged before, and its reply is not kept, or was to another request"
            )
            raise Refused("repeated", why, self.releases)
        told = kept.seconds if SECONDS in self._owner.allow else None
        numbers = _allowed(self._owner, kept.numbers)
        return replace(kept, numbers=numbers, releases=self.releases, seconds=told, **self._ahead(dimension))

    @property
    def left(self) -> float:
        """The share of the budget that is left; 0 if nothing can be released any more."""
        with refusing("unready", PauseError):  # other terms than those of the first release
            return self._outlook()[0]

    def _outlook(self) -> tuple[float, Charge | None]:
        owner = self._owner
        wanted = Reservation(owner.name, "the next one", owner.schedule, owner.mechanism)
        return outlook(self._ledger.checked_past(owner.name), wanted)

    def _ahead(self, dimension: int) -> dict[str, Any]:
        """Return which share of the budget is left, and how loud the next release will be, by ledger and file alone."""
        left, ahead = self._outlook()
        mechanism, level = self._owner.mechanism, None
        if ahead is not None:
            level = mechanism.noise_level(dimension, alone_epsilon(ahead, mechanism), self._owner.examples)
        return {"left": left, "next_level": level}

    def _held(self, hold: Callable[[], None], trained: _Trained | None) -> _Trained | None:
        """Hold, and return what was trained; None if a signal ended that, as one does that comes while training."""
        try:
            hold()
        except BaseException as error:
            _tell(self._log, "pausefl: a reply was held back and stopped; an unchanged model is noised instead", error)
            return None
        return trained

    def _trained(self, train: Train, model: Mapping[str, Tensor], layers: Layers, total: _Update) -> _Trained | None:
        """Return what training changed, and its allowed numbers; None if it failed, whatever happened.

        Rows that come one by one are clipped and added to ``total``, and none of them is kept.
        """

        def trained() -> tuple[Mapping[str, Tensor] | RecordSum, Numbers]:
            tensors, told = train()
            if isinstance(tensors, Mapping):
                return tensors, told
            with closing(tensors):
                return _sum_of(tensors, total, model, layers), told

        try:
            tensors, told = run_and_undo(trained)
            with np.errstate(all="ignore"):
                if isinstance(tensors, RecordSum):
                    return tensors, _allowed(self._owner, told)
                if self._owner.rows:
                    update = contributions(model, tensors, layers, self._owner.examples)
                else:
                    each = self._owner.mechanism.guarantee.unit == "coordinate"
                    mean = self._owner.clipped_by == "app"
                    update = difference(model, tensors, layers, each=each, mean=mean)
                return update, _allowed(self._owner, told)
        except BaseException as error:  # also Ctrl-C: an app can raise it like any other
            _tell(self._log, "pausefl: training failed; an unchanged model is noised and sent instead", error)
        return None


def _sum_of(rows: Rows, total: _Update, model: Mapping[str, Tensor], layers: Layers) -> RecordSum:
    """Add each row to the total as it comes; one that adds nothing takes the same time."""
    if not isinstance(total, RecordSum):
        raise InvalidValueError("rows come one by one, but must come together where records.path is not set")
    nothing = {name: np.zeros_like(tensor) for name, tensor in model.items()}
    for row in rows:
        table = {name: tensor[np.newaxis] for name, tensor in (nothing if row is None else row).items()}
        with np.errstate(all="ignore"):
            added = contributions(model, table, layers, 1)
            total.add([added[name] for name in layers.released()])
        del row, table, added  # the next record has as much memory as the one after a record that failed
    return total


def _touched(size: int) -> npt.NDArray[np.uint8]:
    """Return so many bytes of memory, written to: what was only asked for is not there before it is used.

    After the charge no more memory is needed than was held before it.  So a server that asks for a model as large as
    the memory allows cannot learn from its success whether training failed.
    """
    memory = np.empty(size, dtype=np.uint8)
    # The system hands out whole pages: one byte written to makes a page be there.
    memory[:: mmap.PAGESIZE] = memory[-1:] = 1
    return memory


def measured(owner: Owner, kind: str, ask: Callable[[], Numbers], log: logging.Logger = _LOG) -> dict[str, int | float]:
    """Answer a message of another kind than training, in a simulation that allows it: with the allowed numbers.

    One that fails is answered like one that has nothing to tell.
    """
    if kind not in owner.messages:
        raise Refused("not-allowed", f"the owner does not allow {kind!r} messages")
    try:
        return _allowed(owner, ask())
    except BaseException as error:
        _tell(log, "pausefl: the app failed; its error stays here", error)
    return _allowed(owner, {})


def rehearse(owner: Owner, work: Callable[[], object], log: logging.Logger = _LOG) -> None:
    """Do a round's work on made-up data, if the owner allows it; what it returns, and whether it fails, stays here.

    Nothing is charged, so the time that it takes must not depend on the data.  Training may leave something of the data
    in the machine, such as which files are in its caches.  So there is no rehearsal after the first release, and none
    is charged while one goes on.  Whether ``work`` leaves the data alone is for the caller to see to.
    """
    if not owner.rehearse:
        raise Refused(
            "not-allowed",
            "the owner does not allow rehearsals; replies.rehearse = true in the owner's file allows them",
        )
    with ExitStack() as held:
        if not owner.simulation:
            with refusing("unready", PauseError, OSError):
                ledger = open_ledger(owner, "")
                held.enter_context(charging(ledger))
                ledger.verify()
            if ledger.head.rows:
                raise Refused(
                    "not-allowed", "a rehearsal is only possible before the first release, and there was a release"
                )
        try:
            run_and_undo(work)
        except BaseException as error:
            _tell(log, "pausefl: the rehearsal failed; its error stays here", error)


def _tell(log: logging.Logger, text: str, error: BaseException) -> None:
    """Log an error of the app; a log that fails must not show either."""
    with suppress(BaseException):
        log.error(text, exc_info=error)


def _tell_charge(log: logging.Logger, charge: Charge, ledger: SqliteLedger) -> None:
    """Log a charge: if the ledger is lost, the log tells whether a backup is the newest.  A log may fail.

    An app in this process may have turned the log off, as it sets up its own: then the line goes past it.
    """
    with suppress(Exception):
        text = (
            f"pausefl: charged release {charge.play} of {charge.subject!r}, asked for as {charge.release[:80]!r}, at "
            f"{charge.when}; head {ledger.head.hash}"
        )
        if log is _LOG or ledger.simulation or _is_heard(log):
            log.info("%s", text)
        else:
            os.write(_STDERR, f"INFO :      {text}\n".encode())


def _is_heard(log: logging.Logger) -> bool:
    """Whether some handler would get a line of this log."""
    if log.filters or not log.isEnabledFor(logging.INFO):
        return False
    one: logging.Logger | None = log
    while one is not None:
        if any(handler.level <= logging.INFO for handler in one.handlers):
            return True
        one = one.parent if one.propagate else None
    return False


def _allowed(owner: Owner, numbers: Numbers) -> dict[str, int | float]:
    """Return the numbers that leave: the owner's own, and in a simulation single finite ones of the app on its list."""
    allowed = {
        name: value
        for name, value in numbers.items()
        if name in owner.allow and name != SECONDS and isinstance(value, (int, float)) and is_finite(value)
    }
    return {WEIGHT: owner.examples, **allowed}
