"""Pairs of inputs that the audit tries to tell apart: dense, sparse, opposite, zero, tiny, huge, and repeated.

Where the promise is for one coordinate, two updates differ in one; where it is for one record, the inputs are tables of
what each record contributes, and differ in one row; else they are updates that may differ as they like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pausefl.privacy.mechanisms.base import Guarantee
from pausefl.types import FloatArray, IntArray

SIZES = {4: 1, 64: 1, 257: 16}
"""How many numbers the updates have, and in how many tensors they come; 1 is a flat array."""
FEW, MANY, MOST = SIZES
ROWS = 12
"""How many records a table has, unless the public count is smaller."""

PARTS = {FEW: 4, MANY: 8, MOST: 16}
"""In how many tensors a record's contribution comes; the first has one number."""

_BEYOND, _INSIDE, _TINY, _HUGE = 100.0, 0.99, 1e-3, 1e6
"""Norms in units of the clip.  Inputs beyond it show a clip that comes too late or in the wrong norm."""
_ECHOES = 8
"""How many releases back the audit looks for noise that comes again."""


@dataclass(frozen=True, slots=True, eq=False)
class InputPair:
    """Two inputs.  A trial releases the first one ``before`` times, for all to know, and then either of them.

    An input is an update, or a table with a row for each record, whose mean over ``count`` records is released.
    ``lag`` and ``echo`` say which earlier number of the trial is taken off each released one, and how often: noise that
    comes again then cancels.
    """

    name: str
    first: FloatArray
    second: FloatArray
    before: int = 0
    lag: int = 0
    echo: float = 0.0
    count: int = 1

    @property
    def size(self) -> int:
        """How many numbers a release has."""
        return int(self.first.shape[-1])

    @property
    def cost(self) -> int:
        """How many numbers a trial releases."""
        return self.size * (self.before + 1)


def tensor_ends(size: int) -> IntArray:
    """Return after how many numbers each tensor of a record's contribution ends."""
    return np.linspace(1, size, PARTS[size], dtype=int)


def bounded(update: FloatArray, guarantee: Guarantee, count: int = 1) -> FloatArray:
    """Return the update as the guarantee's clip leaves it; of a table, the mean of its rows as the clip leaves them."""
    if update.ndim == 2:
        total: FloatArray = np.sum([bounded(row, guarantee) for row in update], axis=0)
        return total / count
    if guarantee.norm == "linf":
        return np.clip(update, -guarantee.bound, guarantee.bound)
    norm = float(np.linalg.norm(update, {"l1": 1, "l2": 2}[guarantee.norm]))
    return update * min(1.0, guarantee.bound / norm) if norm > 0.0 else update


def probe(guarantee: Guarantee, rng: np.random.Generator) -> FloatArray:
    """Return a dense update, or a table of one record, whose releases show where noise is missing or comes again."""
    dense = _scaled(rng.standard_normal(MANY), _INSIDE, guarantee)
    return dense[np.newaxis] if guarantee.unit == "record" else dense


def input_pairs(
    guarantee: Guarantee, rng: np.random.Generator, noise: FloatArray, sizes: Iterable[int] = tuple(SIZES),
    count: int = ROWS,
) -> Iterator[InputPair]:  # fmt: skip
    """Return the pairs; ``noise`` holds releases of one update of ``MANY`` numbers, a row each, in their order.

    ``count`` is the public number of records, where these are protected.
    """
    make = {"coordinate": _one_coordinate, "update": _whole_update, "record": _one_record}[guarantee.unit]
    echoes = [(MANY, 1.0), *_echo(noise)]
    for size in sizes:
        quiet = int(np.argmin(noise.std(axis=0))) if size == MANY else int(rng.integers(size))
        pairs = list(make(size, quiet, guarantee, rng))
        if guarantee.unit == "record":
            pairs = [replace(pair, first=pair.first[:count], second=pair.second[:count], count=count) for pair in pairs]
        yield from pairs if size < MOST else pairs[:3]
        if size == MANY:
            one = pairs[0]
            for lag, echo in echoes:
                before = math.ceil(lag / size)
                name = f"{one.name}, after {before} of the first"
                yield replace(one, name=name, before=before, lag=lag, echo=echo)


def _whole_update(d: int, quiet: int, guarantee: Guarantee, rng: np.random.Generator) -> Iterator[InputPair]:
    def scaled(direction: FloatArray, level: float) -> FloatArray:
        return _scaled(direction, level, guarantee)

    dense, other, axis, sparse = rng.standard_normal(d), rng.standard_normal(d), np.zeros(d), np.zeros(d)
    axis[quiet] = 1.0
    sparse[:: SIZES[MOST]] = 1.0  # one in every tensor, so that a clip tensor by tensor shows
    yield InputPair("dense and its opposite", scaled(dense, _INSIDE), scaled(dense, -_INSIDE))
    yield InputPair("sparse and its opposite, beyond the clip", scaled(sparse, _BEYOND), scaled(sparse, -_BEYOND))
    yield InputPair("dense and zero", scaled(dense, _BEYOND), np.zeros(d))
    yield InputPair("dense and its opposite, beyond the clip", scaled(dense, _BEYOND), scaled(dense, -_BEYOND))
    yield InputPair("tiny and huge", scaled(dense, _TINY), scaled(dense, _HUGE))
    yield InputPair("dense and sparse", scaled(dense, _BEYOND), scaled(sparse, _BEYOND))
    yield InputPair("two dense", scaled(dense, _BEYOND), scaled(other, _BEYOND))
    yield InputPair("one coordinate and its opposite", scaled(axis, _BEYOND), scaled(axis, -_BEYOND))
    yield InputPair("one coordinate and zero", scaled(axis, _INSIDE), np.zeros(d))


def _one_coordinate(d: int, quiet: int, guarantee: Guarantee, rng: np.random.Generator) -> Iterator[InputPair]:
    """Return pairs that differ in one coordinate only: the quietest, the last, or any."""
    dense, nothing = _scaled(rng.standard_normal(d), _INSIDE, guarantee), np.zeros(d)
    any_, last = int(rng.integers(d)), d - 1
    for name, rest, place, one, two in (
        ("coordinate {} of a dense one, up and down", dense, quiet, _INSIDE, -_INSIDE),
        ("coordinate {} of a dense one, up and down, beyond the clip", dense, any_, _BEYOND, -_BEYOND),
        ("coordinate {} of zeros, up and down", nothing, quiet, _BEYOND, -_BEYOND),
        ("coordinate {} of a dense one, beyond the clip and zero", dense, last, _BEYOND, 0.0),
        ("coordinate {} of zeros, huge and zero", nothing, last, _HUGE, 0.0),
        ("coordinate {} of zeros, tiny and huge", nothing, any_, _TINY, _HUGE),
    ):
        first, second = rest.copy(), rest.copy()
        first[place], second[place] = one * guarantee.bound, two * guarantee.bound
        yield InputPair(name.format(place), first, second)


def _one_record(d: int, quiet: int, guarantee: Guarantee, rng: np.random.Generator) -> Iterator[InputPair]:
    """Return pairs of tables that differ in their first row only."""

    def scaled(direction: FloatArray, level: float) -> FloatArray:
        return _scaled(direction, level, guarantee)

    dense, axes, sparse, uneven = rng.standard_normal(d), np.eye(d), np.zeros(d), scaled(rng.standard_normal(d), 1.0)
    # A norm that forgets a tensor shows only where the record is much larger in this tensor than in all others.
    places = dict.fromkeys([quiet, *(tensor_ends(d) - 1).tolist()])
    alone = [
        (f"coordinate {place} and its opposite", scaled(axes[place], _BEYOND), scaled(axes[place], -_BEYOND))
        for place in places
    ]
    sparse[:: (d - 1) // (PARTS[d] - 1)] = 1.0  # one in every tensor
    uneven[0] = _HUGE
    nothing, alike = np.zeros((ROWS - 1, d)), np.tile(scaled(dense, _INSIDE), (ROWS - 1, 1))
    large = np.stack([scaled(rng.standard_normal(d), _BEYOND) for _ in range(ROWS - 1)])
    for name, one, two, others in (
        ("dense and its opposite", scaled(dense, _INSIDE), scaled(dense, -_INSIDE), nothing),
        ("sparse and its opposite, beyond the clip", scaled(sparse, _BEYOND), scaled(sparse, -_BEYOND), nothing),
        ("huge in the first layer and large in others, and its opposite", _BEYOND * uneven, -_BEYOND * uneven, nothing),
        ("dense and its opposite, beyond the clip", scaled(dense, _BEYOND), scaled(dense, -_BEYOND), nothing),
        ("dense and its opposite among large ones", scaled(dense, _BEYOND), scaled(dense, -_BEYOND), large),
        ("tiny and huge among identical ones", scaled(dense, _TINY), scaled(dense, _HUGE), alike),
        ("dense and its opposite among identical ones", scaled(dense, _INSIDE), scaled(dense, -_INSIDE), alike),
        ("dense and zero", scaled(dense, _BEYOND), np.zeros(d), nothing),
        ("dense and sparse", scaled(dense, _BEYOND), scaled(sparse, _BEYOND), large),
        *((*one, nothing) for one in alone),
    ):
        yield InputPair(f"one record, {name}", np.vstack([one, others]), np.vstack([two, others]))


def _scaled(direction: FloatArray, level: float, guarantee: Guarantee) -> FloatArray:
    order = {"l1": 1, "l2": 2, "linf": np.inf}[guarantee.norm]
    return direction * (level * guarantee.bound / float(np.linalg.norm(direction, order)))


def _echo(noise: FloatArray) -> list[tuple[int, float]]:
    """Return after how many numbers the noise resembles itself most, and how much; nothing if it does not."""
    series = (noise - noise.mean(axis=0)).ravel()
    power = np.abs(np.fft.rfft(series, 2 * series.size)) ** 2
    likeness = np.fft.irfft(power)[: min(_ECHOES * MANY, series.size // 2) + 1]
    if likeness[0] <= 0.0:
        return []
    likeness /= likeness[0]
    lag = int(np.argmax(np.abs(likeness[1:]))) + 1
    # Five standard deviations: among a few hundred lags of independent noise, none gets there.
    return [(lag, float(likeness[lag]))] if abs(likeness[lag]) > 5.0 / math.sqrt(series.size) else []
