"""What the server knows of each client, in columns: picks, releases, timings, mean speed, silences, noise, presence.

Reference: PAUSE, eq. (empirical means) and its recursive form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.errors import InvalidValueError, StateFileError, UnknownClientError, require, shown
from pausefl.rng import client_keys, number_keys
from pausefl.selector.speed_changes import SpeedChanges
from pausefl.types import BoolArray, ClientId, FloatArray, IntArray, KeyArray, Seconds

_FRESH: dict[str, int | float | bool | np.int8] = {
    "picks": 0, "releases": 0, "timings": 0, "last": 0, "rate": 0.0, "seconds": 0.0, "noise": np.nan, "present": True,
    "silences": np.int8(0), "provisional": False,
}  # fmt: skip
"""The columns of what is known of clients, with what a newcomer has."""

_EXTRA = {"there": 0.0, "answers": 0.0, **SpeedChanges.FRESH}

_LONGEST = 10
"""No client waits for more than 2^10 - 1 rounds, however often it was silent: in a long run it may come back."""

_LATE_ONCE = -1
"""Stands for silences of a client that was late once: it does not wait, but the next time it counts as silent."""


class Cohort:
    """Columnar state of any number of clients; a row per client, in order of arrival.

    Clients may join and leave between rounds.  A client that left keeps its row, so that one that comes back is
    remembered, its releases above all: forgetting them would forget what it has leaked.  ``releases`` follows ``picks``
    until the client itself says how many it has made.  ``timings`` follows ``picks``, too; what was known of a client's
    latency before it was picked counts as one more.  ``noise`` is the level of noise that the client said its next
    release has; NaN if it said nothing, or has been picked since.  ``seconds`` is the mean latency, in which silence
    counts as the slowest answer seen so far.  ``last`` is the number of the round in which the client was last picked.
    ``silences`` is how often in a row it did not answer, up to 10, and -1 after it was late once; see ``waits_until``.
    ``provisional`` says that all
    its timings are to be forgotten at the next one that is not provisional.
    ``extra`` has the columns that only some selectors want, made when they are first written: signals that clients have
    told, by name, ``there``, the number of rounds in which a client was available, and what a change of its speed is
    noticed by.

    Law: ``observe`` touches only the rows it is given; ``rate`` is the mean of 1/latency over a client's timings.

    >>> cohort = Cohort({"a": 120, "b": 300})
    >>> cohort.observe(cohort.rows(["a"]), np.array([0.5]))
    >>> cohort.picks.tolist(), cohort.rate.tolist()
    ([1, 0], [2.0, 0.0])
    """

    __slots__ = (
        "_row_of", "_total", "extra", "fastest_seen", "ids", "keys", "last", "noise", "picks", "present", "provisional",
        "rate", "releases", "seconds", "silences", "sizes", "slowest_seen", "surprise", "surprises", "timings",
    )  # fmt: skip

    def __init__(self, sizes: Mapping[ClientId, float] | Sequence[float] | FloatArray | IntArray) -> None:
        if not isinstance(sizes, (Mapping, Sequence, np.ndarray)) or isinstance(sizes, str):
            raise InvalidValueError(
                f"sizes is {shown(sizes)}, but must map each client to its number of examples; pass a dict or a "
                "sequence"
            )
        require(len(sizes) > 0, "sizes", sizes, "one positive number per client", "pass at least one client")
        self.ids: range | list[ClientId] = range(0)
        self._row_of: dict[ClientId, int] | None = None  # None: ids are 0 … K-1 and need no table
        self.sizes: FloatArray = np.empty(0)
        self.picks: IntArray = np.empty(0, dtype=np.int64)
        self.releases: IntArray = np.empty(0, dtype=np.int64)
        self.timings: IntArray = np.empty(0, dtype=np.int64)
        self.rate: FloatArray = np.empty(0)
        self.seconds: FloatArray = np.empty(0)
        self.last: IntArray = np.empty(0, dtype=np.int64)
        self.noise: FloatArray = np.empty(0)
        self.silences: npt.NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self.provisional: BoolArray = np.empty(0, dtype=np.bool_)
        self.extra: dict[str, FloatArray] = {}
        self.present: BoolArray = np.empty(0, dtype=np.bool_)
        self.keys: KeyArray = np.empty(0, dtype=np.uint64)
        self.fastest_seen: Seconds = np.inf
        self.slowest_seen: Seconds = 0.0
        self.surprise, self.surprises = 0.0, 0
        self._total: float | None = None
        if isinstance(sizes, Mapping):
            self.join(sizes)
        else:
            self._append(range(len(sizes)), _checked_sizes(sizes, range(len(sizes))))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shares(self) -> FloatArray:
        """Each client's share of the data of all that are present; absent clients have the share they would add."""
        return self.shares_of(slice(None))

    def shares_of(self, rows: IntArray | slice) -> FloatArray:
        """Return the shares of some clients."""
        if self._total is None:
            # Sorted, so that the rounding of the sum does not depend on the order of arrival.
            ordered = self.sizes[self.present]
            ordered.sort()
            self._total = float(ordered.sum())
        return self.sizes[rows] / self._total

    def rows(self, ids: Iterable[ClientId]) -> IntArray:
        """Return the rows of these clients; one that never joined, or has left, is refused."""
        wanted = list(ids)
        found = self._rows_of(wanted)
        if not self.present[found].all():
            gone = wanted[int(np.flatnonzero(~self.present[found])[0])]
            raise UnknownClientError(
                f"client id is {shown(gone)}, but that client has left; call join to bring it back"
            )
        return found

    def find(self, client: ClientId) -> int | None:
        """Return a client's row, also of one that has left; None if it never joined."""
        if self._row_of is not None:
            return None if isinstance(client, bool) else self._row_of.get(client)
        number = isinstance(client, (int, np.integer)) and not isinstance(client, bool)
        return int(client) if number and 0 <= int(client) < len(self) else None

    def join(self, sizes: Mapping[ClientId, float]) -> None:
        """Add clients, bring back some that left (their history is remembered), or update data sizes.

        A client that was silent waits no longer: whoever calls knows that it is there.
        """
        if not isinstance(sizes, Mapping):
            raise InvalidValueError(f"sizes is {shown(sizes)}, but must be a mapping; for example {{'name': 120}}")
        wanted = list(sizes)
        for client in wanted:
            if isinstance(client, bool) or not isinstance(client, (int, str, np.integer)):
                raise InvalidValueError(
                    f"client id is {shown(client)}, but must be an integer or a string; convert it, for example with "
                    "str()"
                )
        checked = _checked_sizes(list(sizes.values()), wanted)
        # numpy's whole numbers are equal to Python's, but JSON does not know them.
        wanted = [int(client) if isinstance(client, np.integer) else client for client in wanted]
        known = np.fromiter((self.find(i) is not None for i in wanted), dtype=np.bool_, count=len(wanted))
        back = np.fromiter((self._row(i) for i, k in zip(wanted, known, strict=True) if k), dtype=np.int64)
        self._append([i for i, k in zip(wanted, known, strict=True) if not k], checked[~known])
        self.sizes[back] = checked[known]
        self.present[back] = True
        self.silences[back] = 0
        self._total = None

    def leave(self, ids: Iterable[ClientId]) -> None:
        """Take clients out of the candidates; their history stays."""
        if isinstance(ids, str):
            raise InvalidValueError(f"ids is {shown(ids)}, but must be a list of client ids; pass [{shown(ids)}]")
        rows = self.rows(ids)
        staying = self.present.copy()
        staying[rows] = False
        require(bool(staying.any()), "clients left", 0, "at least 1", "let others join before the last ones leave")
        self.present = staying
        self._total = None

    def observe(
        self,
        rows: IntArray,
        latencies: FloatArray,
        floor: Seconds | None = None,
        number: int = 0,
        *,
        provisional: BoolArray | None = None,
        untimed: BoolArray | None = None,
        memory: int | None = None,
    ) -> None:
        """Count one pick for each row, in round ``number``; NaN did not answer, which counts as speed 0.

        An outage counts as one timing, however often the client was asked in vain.  A timing that is ``provisional``
        counts until one arrives that is not, and not at all where one has been before.  The silence of clients that
        are ``untimed`` is no timing, since nobody waited for them, and the first of several makes nobody wait.  With
        ``memory`` changes of speed are noticed, see
        :mod:`~pausefl.selector.speed_changes`.

        Deviation: the paper knows no missing answers.  Leaving them out would keep a dead client at ucb = inf and
        pick it for ever, so silence is the slowest answer there is.
        """
        self.picks[rows] += 1
        self.releases[rows] += 1
        self.noise[rows] = np.nan
        stale = None if memory is None else number - self.last[rows] > memory
        self.last[rows] = number
        self._time(rows, latencies, floor, provisional, untimed, stale)

    def waits_until(self) -> IntArray:
        """Return the round up to which each client is no candidate; 0 for one that is not waiting.

        After s silences in a row a client is left out of the next 2^s - 1 rounds.  So a client that is dead is asked in
        round L, L + 2, L + 6, L + 14, …: at most log2(n) + 1 times in n rounds, up to n = 2,000, and once in 1,024
        rounds later.  A client that is away for d rounds from a round in which it was asked is a candidate again at
        most d + 2 rounds after its return.  One that fails independently with probability p < 1/2 waits
        2p/(1 - 2p) - p/(1 - p) rounds between two answers on average, the sum of (2^s - 1) p^s: 0.4 rounds for p = 0.2.
        """
        wait = np.left_shift(1, np.maximum(self.silences, 0).astype(np.int64)) - 1
        return np.where(self.silences > 0, self.last + wait, 0)

    def expect(self, latencies: FloatArray, floor: Seconds | None = None, *, provisional: bool = False) -> None:
        """Count one timing, and no pick, for each client whose latency is known without a round; NaN: it is not."""
        rows = np.flatnonzero(~np.isnan(latencies))
        self._time(rows, latencies[rows], floor, np.full(len(rows), provisional))

    def column(self, name: str) -> FloatArray:
        """Return a column that only some policies want: NaN where nothing was written, and 0 rounds for ``there``."""
        if name in self.extra:
            return self.extra[name]
        return np.full(len(self), _EXTRA.get(name, np.nan))

    def write(self, name: str, rows: IntArray | BoolArray, values: FloatArray) -> None:
        """Write into a column that only some policies want."""
        self.extra[name] = self.column(name)
        self.extra[name][rows] = values

    def _time(
        self,
        rows: IntArray,
        latencies: FloatArray,
        floor: Seconds | None,
        provisional: BoolArray | None = None,
        untimed: BoolArray | None = None,
        stale: BoolArray | None = None,
    ) -> None:
        answered = ~np.isnan(latencies)
        if answered.any():
            self.fastest_seen = min(self.fastest_seen, float(latencies[answered].min()))
            self.slowest_seen = max(self.slowest_seen, float(latencies[answered].max()))
        silences = self.silences[rows]
        new = answered | (silences <= 0)  # a further silence is the same outage
        further = np.minimum(np.maximum(silences, 0) + 1, _LONGEST)
        if untimed is not None:
            new &= ~untimed
            further[untimed & (silences == 0)] = _LATE_ONCE
        self.silences[rows] = np.where(answered, 0, further)
        if provisional is not None:
            new &= ~(provisional & answered & (self.timings[rows] > 0) & ~self.provisional[rows])
            self.provisional[rows] |= provisional & (self.timings[rows] == 0)
        firm = self.provisional[rows] & answered & (True if provisional is None else ~provisional)
        self._forget(rows[firm])
        rows, latencies, answered = rows[new], latencies[new], answered[new]
        rate = np.zeros(len(rows))
        rate[answered] = 1.0 / np.maximum(latencies[answered], floor or 0.0)
        before = self.rate[rows]
        self._be_surprised(rate, before, self.timings[rows])
        self.timings[rows] += 1
        # PAUSE, eq. (ma update rule): the new mean is a step of 1/T towards the new value.
        self.rate[rows] += (rate - self.rate[rows]) / self.timings[rows]
        taken = np.where(answered, latencies, self.slowest_seen)
        self.seconds[rows] += (taken - self.seconds[rows]) / self.timings[rows]
        if stale is not None and answered.any():
            SpeedChanges(self, rows[answered], before[answered], rate[answered], latencies[answered]).notice(
                stale[new][answered]
            )

    @property
    def latency_spread(self) -> float:
        """By how much latencies vary around what is usual for their client: a standard deviation of logarithms."""
        return (1.0 + self.surprise) / (1 + self.surprises)  # 1 as long as nothing is known

    def _be_surprised(self, rate: FloatArray, before: FloatArray, timings: IntArray) -> None:
        """Note how far answers are from the mean of their client; absolute values, since a few are far off."""
        told = (rate > 0.0) & (before > 0.0)
        off = np.abs(np.log(rate[told] / before[told]))
        # A mean of T timings is off itself; and of a normal number, sqrt(2/pi) of the deviation is its absolute mean.
        self.surprise += math.sqrt(math.pi / 2.0) * float((off / np.sqrt(1.0 + 1.0 / timings[told])).sum())
        self.surprises += int(told.sum())

    def _forget(self, rows: IntArray) -> None:
        self.timings[rows], self.rate[rows], self.seconds[rows], self.provisional[rows] = 0, 0.0, 0.0, False
        for name, fresh in SpeedChanges.FRESH.items():
            if name in self.extra:
                self.extra[name][rows] = fresh

    def restore(
        self, columns: Mapping[str, np.ndarray], fastest_seen: Seconds, slowest_seen: Seconds = 0.0,
        surprise: tuple[float, int] = (0.0, 0),
    ) -> None:  # fmt: skip
        """Take over the columns of an earlier cohort with the same clients; older files lack some."""
        self.surprise, self.surprises = surprise
        blank = {name: np.full(len(self), fill) for name, fill in _FRESH.items()}
        followers = {name: columns["picks"].copy() for name in ("releases", "timings")}
        for name, column in (blank | followers | dict(columns)).items():
            if column.shape != (len(self),):
                raise StateFileError(
                    f"the state has {column.shape} values in {name[:40]!r} for {len(self)} clients; use another copy"
                )
            if name.startswith("extra."):
                self.extra[name.removeprefix("extra.")] = column
            else:
                setattr(self, name, column)
        self.fastest_seen, self.slowest_seen, self._total = fastest_seen, slowest_seen, None

    def _append(self, ids: Sequence[ClientId], sizes: FloatArray) -> None:
        start, count = len(self.ids), len(ids)
        stop = start + count
        in_order = isinstance(ids, range) or list(ids) == list(range(start, stop))
        # Everything that can be refused is worked out before anything changes.
        keys = np.concatenate([self.keys, number_keys(start, stop) if in_order else client_keys(ids)])
        if self._row_of is None and in_order:
            self.ids = range(stop)
        else:
            if self._row_of is None:
                self._row_of = {client: row for row, client in enumerate(self.ids)}
            self._row_of.update(zip(ids, range(start, stop), strict=True))
            self.ids = [*self.ids, *ids]
        self.keys = keys
        self.sizes = np.concatenate([self.sizes, sizes])
        for name, fill in _FRESH.items():
            setattr(self, name, np.concatenate([getattr(self, name), np.full(count, fill)]))
        for name, column in self.extra.items():
            self.extra[name] = np.concatenate([column, np.full(count, _EXTRA.get(name, np.nan))])

    def _rows_of(self, wanted: list[ClientId]) -> IntArray:
        # Only what is surely an id is looked up at once: truth values are equal to numbers.
        kinds = set(map(type, wanted))
        if self._row_of is not None and kinds <= {int, str}:
            with suppress(KeyError):
                return np.fromiter(map(self._row_of.__getitem__, wanted), dtype=np.int64, count=len(wanted))
        if self._row_of is None and kinds == {int}:
            numbers: list[Any] = wanted
            if 0 <= min(numbers) <= max(numbers) < len(self):
                return np.array(numbers, dtype=np.int64)
        return np.fromiter(map(self._row, wanted), dtype=np.int64, count=len(wanted))

    def _row(self, client: ClientId) -> int:
        row = self.find(client)
        if row is None:
            raise UnknownClientError(
                f"client id is {shown(client)}, but must be one of the {len(self)} that joined; call join first"
            )
        return row


def _checked_sizes(sizes: Sequence[float] | FloatArray | IntArray, names: Sequence[ClientId]) -> FloatArray:
    values = np.asarray(sizes) if isinstance(sizes, np.ndarray) else sizes
    strange = [] if isinstance(values, np.ndarray) else [i for i, v in enumerate(values) if not isinstance(v, Real)]
    if strange or (isinstance(values, np.ndarray) and (values.ndim != 1 or values.dtype.kind not in "iuf")):
        where = "sizes are not numbers"
        if strange:
            where = f"size of client {shown(names[strange[0]])} is {shown(values[strange[0]])}"
        raise InvalidValueError(
            f"{where}, but must be a finite number above 0; pass the number of examples of each client"
        )
    checked = np.array(values, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked > 0.0)))
    if len(bad):
        first = int(bad[0])
        raise InvalidValueError(
            f"size of client {shown(names[first])} is {checked[first]:g}, but must be a finite number above 0; "
            "leave clients without data out"
        )
    return checked
