"""What the server knows of each client, in columns: picks, releases, timings, mean speed, noise, share, presence.

Reference: PAUSE, eq. (empirical means) and its recursive form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real

import numpy as np

from pausefl.errors import InvalidValueError, UnknownClientError, require, shown
from pausefl.rng import client_keys, number_keys
from pausefl.types import BoolArray, ClientId, FloatArray, IntArray, KeyArray, Seconds


class Cohort:
    """Columnar state of any number of clients; a row per client, in order of arrival.

    Clients may join and leave between rounds.  A client that left keeps its row, so that one that comes back is
    remembered, its releases above all: forgetting them would forget what it has leaked.  ``releases`` follows ``picks``
    until the client itself says how many it has made.  ``timings`` follows ``picks``, too; what was known of a client's
    latency before it was picked counts as one more.  ``noise`` is the level of noise that the client said its next
    release has; NaN if it said nothing, or has been picked since.

    Law: ``observe`` touches only the rows it is given; ``rate`` is the mean of 1/latency over a client's timings.

    >>> cohort = Cohort({"a": 120, "b": 300})
    >>> cohort.observe(cohort.rows(["a"]), np.array([0.5]))
    >>> cohort.picks.tolist(), cohort.rate.tolist()
    ([1, 0], [2.0, 0.0])
    """

    __slots__ = (
        "_row_of", "_total", "fastest_seen", "ids", "keys", "noise", "picks", "present", "rate", "releases", "sizes",
        "timings",
    )  # fmt: skip

    def __init__(self, sizes: Mapping[ClientId, float] | Sequence[float] | FloatArray | IntArray) -> None:
        if not isinstance(sizes, (Mapping, Sequence, np.ndarray)) or isinstance(sizes, str):
            raise InvalidValueError(
                f"sizes is {shown(sizes)}, but must map each client to its number of examples; pass a dict or a "
                "sequence"
            )
        require(len(sizes) > 0, "sizes", sizes, "one positive number per client", "name at least one client")
        self.ids: range | list[ClientId] = range(0)
        self._row_of: dict[ClientId, int] | None = None  # None: ids are 0 … K-1 and need no table
        self.sizes: FloatArray = np.empty(0)
        self.picks: IntArray = np.empty(0, dtype=np.int64)
        self.releases: IntArray = np.empty(0, dtype=np.int64)
        self.timings: IntArray = np.empty(0, dtype=np.int64)
        self.rate: FloatArray = np.empty(0)
        self.noise: FloatArray = np.empty(0)
        self.present: BoolArray = np.empty(0, dtype=np.bool_)
        self.keys: KeyArray = np.empty(0, dtype=np.uint64)
        self.fastest_seen: Seconds = np.inf
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
        if self._total is None:
            # Sorted, so that the rounding of the sum does not depend on the order of arrival.
            self._total = float(np.sort(self.sizes[self.present]).sum())
        return self.sizes / self._total

    def rows(self, ids: Iterable[ClientId]) -> IntArray:
        """Return the rows of these clients; one that never joined, or has left, is refused."""
        wanted = list(ids)
        found = np.fromiter((self._row(i) for i in wanted), dtype=np.int64, count=len(wanted))
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
        """Add clients, bring back some that left (their history is remembered), or update data sizes."""
        if not isinstance(sizes, Mapping):
            raise InvalidValueError(f"sizes is {shown(sizes)}, but must be a mapping; pass e.g. {{'name': 120}}")
        wanted = list(sizes)
        for client in wanted:
            if isinstance(client, bool) or not isinstance(client, (int, str, np.integer)):
                raise InvalidValueError(
                    f"client id is {shown(client)}, but must be an integer or a string; convert it, e.g. with str()"
                )
        checked = _checked_sizes(list(sizes.values()), wanted)
        # numpy's whole numbers are equal to Python's, but JSON does not know them.
        wanted = [int(client) if isinstance(client, np.integer) else client for client in wanted]
        known = np.fromiter((self.find(i) is not None for i in wanted), dtype=np.bool_, count=len(wanted))
        back = np.fromiter((self._row(i) for i, k in zip(wanted, known, strict=True) if k), dtype=np.int64)
        self._append([i for i, k in zip(wanted, known, strict=True) if not k], checked[~known])
        self.sizes[back] = checked[known]
        self.present[back] = True
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

    def observe(self, rows: IntArray, latencies: FloatArray, floor: Seconds | None = None) -> None:
        """Count one pick for each row; NaN is a client that did not answer, which counts as speed 0.

        Deviation: the paper knows no missing answers.  Leaving them out would keep a dead client at ucb = inf and
        pick it for ever, so silence is the slowest answer there is.
        """
        self.picks[rows] += 1
        self.releases[rows] += 1
        self.noise[rows] = np.nan
        self._time(rows, latencies, floor)

    def expect(self, latencies: FloatArray, floor: Seconds | None = None) -> None:
        """Count one timing, and no pick, for each client whose latency is known without a round; NaN: it is not."""
        rows = np.flatnonzero(~np.isnan(latencies))
        self._time(rows, latencies[rows], floor)

    def _time(self, rows: IntArray, latencies: FloatArray, floor: Seconds | None) -> None:
        answered = ~np.isnan(latencies)
        if answered.any():
            self.fastest_seen = min(self.fastest_seen, float(latencies[answered].min()))
        rate = np.zeros(len(rows))
        rate[answered] = 1.0 / np.maximum(latencies[answered], floor or 0.0)
        self.timings[rows] += 1
        # PAUSE, eq. (ma update rule): the new mean is a step of 1/T towards the new value.
        self.rate[rows] += (rate - self.rate[rows]) / self.timings[rows]

    def restore(self, columns: Mapping[str, np.ndarray], fastest_seen: Seconds) -> None:
        """Take over the columns of an earlier cohort with the same clients."""
        for name in ("sizes", "picks", "rate", "present"):
            setattr(self, name, columns[name])
        for name in ("releases", "timings"):  # older files lack them
            setattr(self, name, columns[name] if name in columns else columns["picks"].copy())
        self.noise = columns["noise"] if "noise" in columns else np.full(len(self.picks), np.nan)
        self.fastest_seen, self._total = fastest_seen, None

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
        self.picks = np.concatenate([self.picks, np.zeros(count, dtype=np.int64)])
        self.releases = np.concatenate([self.releases, np.zeros(count, dtype=np.int64)])
        self.timings = np.concatenate([self.timings, np.zeros(count, dtype=np.int64)])
        self.rate = np.concatenate([self.rate, np.zeros(count)])
        self.noise = np.concatenate([self.noise, np.full(count, np.nan)])
        self.present = np.concatenate([self.present, np.ones(count, dtype=np.bool_)])

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
        where = "sizes are no numbers"
        if strange:
            where = f"size of client {shown(names[strange[0]])} is {shown(values[strange[0]])}"
        raise InvalidValueError(f"{where}, but must be a finite number above 0; give each client its examples")
    checked = np.array(values, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked > 0.0)))
    if len(bad):
        first = int(bad[0])
        raise InvalidValueError(
            f"size of client {shown(names[first])} is {checked[first]:g}, but must be a finite number above 0; "
            "leave clients without data out"
        )
    return checked
