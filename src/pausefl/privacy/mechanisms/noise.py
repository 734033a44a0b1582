"""Where noise comes from: ``simulated`` (seeded, fast, not private) or ``secure`` (operating system, float-safe)."""

from __future__ import annotations

import math
import os
import secrets
from abc import ABC, abstractmethod
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from pausefl.errors import InvalidValueError, MissingExtraError
from pausefl.privacy.mechanisms.exact_cap import draw_exact_cap
from pausefl.system.threads import core_count, run_jobs
from pausefl.types import Epsilon, FloatArray

_BLOCK = 1 << 13
_SIGN, _SIGN_FROM = np.uint64(1 << 63), np.uint64(54)
_LEAST = 1e-300
_FINE = 40
"""Secure noise lives on a grid of 2^-40 of its scale."""
_SMALLEST_PART, _PARTS = 1024, 4
"""Coordinates that one call of OpenDP draws at least if it is one of several, and such calls for each core at most."""
_MEMORY_EACH = 200
"""Bytes that secure noise may take for each coordinate: up to 140 were seen."""


class Noise(ABC):
    """A source of noise; the mechanisms ask it for what they need and never touch a generator themselves.

    ``laplace`` and ``gaussian`` add to the vector in place and calibrate to the sensitivity they are given, because a
    source that rounds to a grid has to count its own rounding in.
    """

    __slots__ = ()
    name: ClassVar[str]
    private: ClassVar[bool]
    note: ClassVar[str]

    @abstractmethod
    def laplace(self, vector: FloatArray, sensitivity: float, epsilon: Epsilon, *, coordinates: int) -> None:
        """Add Laplace(sensitivity / epsilon) to every coordinate; two inputs may differ in ``coordinates`` of them."""

    @abstractmethod
    def gaussian(self, vector: FloatArray, sensitivity: float, multiplier: float, *, coordinates: int) -> None:
        """Add Normal(0, (multiplier x sensitivity)^2) to each; two inputs may differ in ``coordinates`` of them."""

    @abstractmethod
    def cap(self, direction: FloatArray, threshold: float, inside: float) -> FloatArray:
        """Return a standard normal vector whose part along ``direction`` is chosen differently.

        With probability ``inside`` that part is a normal number given that it is at least ``threshold``, otherwise one
        given that it is below.  ``direction`` may have any length but zero; ``threshold`` is a multiple of 2^-40 and
        not negative.
        """

    @abstractmethod
    def integer(self, below: int) -> int:
        """Return a uniform whole number from 0 to ``below`` - 1; ``below`` is at most 2^62."""

    @abstractmethod
    def uniform(self, size: int) -> FloatArray:
        """Return numbers strictly between 0 and 1, of at most 53 bits: not for odds that must be exact."""


class SimulatedNoise(Noise):
    """Seeded numpy noise for simulations only: whoever knows the seed can remove it, and its low bits reveal the input.

    Args:
        generator: Where the random numbers come from.

    >>> vector = np.zeros(3)
    >>> SimulatedNoise(np.random.default_rng(7)).laplace(vector, 1.0, 1.0, coordinates=3)
    >>> vector.round(3).tolist()
    [0.708, -1.025, -0.569]
    """

    __slots__ = ("_generator",)
    name = "simulated"
    private = False
    note = "not private (simulated noise)"

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def laplace(self, vector: FloatArray, sensitivity: float, epsilon: Epsilon, *, coordinates: int) -> None:
        """Add Laplace noise."""
        scale, buffer = sensitivity / epsilon, np.empty(min(_BLOCK, vector.size))
        # An exponential that takes its sign from the tenth bit of its own fraction, far below what any statistic
        # sees: a third of the time of numpy's laplace.  Blocks stay in the cache.
        for start in range(0, vector.size, _BLOCK):
            part = vector[start : start + _BLOCK]
            size = self._generator.standard_exponential(out=buffer[: part.size])
            bits = size.view(np.uint64)
            bits ^= (bits << _SIGN_FROM) & _SIGN
            size *= scale
            part += size

    def gaussian(self, vector: FloatArray, sensitivity: float, multiplier: float, *, coordinates: int) -> None:
        """Add Gaussian noise."""
        sigma = multiplier * sensitivity
        for start in range(0, vector.size, _BLOCK):
            part = vector[start : start + _BLOCK]
            part += self._generator.normal(0.0, sigma, part.size)

    def cap(self, direction: FloatArray, threshold: float, inside: float) -> FloatArray:
        """Return a vector of plain floats, its part along the direction by inverting the distribution function."""
        coin, place = self.uniform(2)
        tail = float(ndtr(-threshold))
        above = tail * place if coin < inside else tail + (1.0 - tail) * place
        # Next to 1 the sum rounds to 1, and next to 0 the product to 0: either would be infinitely far out.
        along = -float(ndtri(min(max(above, _LEAST), 1.0 - 2.0**-53)))
        # Divided by the largest entry first: neither huge nor tiny updates may overflow or lose their direction.
        unit = direction / float(np.abs(direction).max())
        unit /= math.sqrt(float(np.dot(unit, unit)))
        drawn = self._generator.standard_normal(unit.size)
        drawn += (along - float(np.dot(drawn, unit))) * unit
        return drawn

    def integer(self, below: int) -> int:
        """Return a uniform whole number from 0 to ``below`` - 1."""
        return int(self._generator.integers(below))

    def uniform(self, size: int) -> FloatArray:
        """Return numbers strictly between 0 and 1."""
        return np.maximum(self._generator.random(size), 2.0**-54)


class SecureNoise(Noise):
    """Noise for real data, from the operating system's randomness.

    Claimed: ``laplace`` and ``gaussian`` are OpenDP's exact discrete samplers on inputs rounded to a grid; its own
    privacy map, rounding included, is checked at every call, and a map above the claim is refused.  The Gaussian's
    (epsilon, delta) is that of the continuous one.  On a grid of g = 2^-40 of sigma or finer, sums over the grid differ
    from the integrals by terms of order g^2, about 10^-24 relative, and a billionth of sigma on top covers them.
    ``cap``, used by PrivUnit, is the exact distribution of a real vector that is rounded to a grid of 2^-20 at the very
    end: every comparison is made in exact numbers wherever floats are in doubt, and more random bits are drawn until it
    is decided.  ``integer`` is exact.  ``uniform`` has 52 random bits, so use it only for what needs no proof.

    Not claimed: constant time.  The duration of a call depends on the noise that was drawn.

    >>> drawn = SecureNoise().cap(np.ones(3), threshold=2.0, inside=1.0)
    >>> bool(drawn.sum() / math.sqrt(3.0) > 1.99), bool(np.all(drawn * 2**20 == np.rint(drawn * 2**20)))
    (True, True)
    """

    __slots__ = ()
    name = "secure"
    private = True
    note = "noise from the operating system"

    def laplace(self, vector: FloatArray, sensitivity: float, epsilon: Epsilon, *, coordinates: int) -> None:
        """Add OpenDP's discrete Laplace noise."""
        grid = _grid(sensitivity / epsilon)
        scale = _on_grid((sensitivity + coordinates * 2.0**grid) / epsilon * (1.0 + 2.0**-_FINE), grid)
        _check(_loss("laplace", coordinates, scale, grid, sensitivity), epsilon)
        _add("laplace", vector, scale, grid)

    def gaussian(self, vector: FloatArray, sensitivity: float, multiplier: float, *, coordinates: int) -> None:
        """Add OpenDP's discrete Gaussian noise."""
        grid = _grid(sensitivity * multiplier)
        sigma = (sensitivity + math.sqrt(coordinates) * 2.0**grid) * multiplier * (1.0 + 2.0**-_FINE)
        sigma = _on_grid(sigma, grid)
        _check(_loss("gaussian", coordinates, sigma, grid, sensitivity), 0.5 / multiplier**2)
        _add("gaussian", vector, sigma, grid)

    def cap(self, direction: FloatArray, threshold: float, inside: float) -> FloatArray:
        """Return the exact vector, rounded to a grid of 2^-20."""
        return draw_exact_cap(direction, threshold, inside)

    def integer(self, below: int) -> int:
        """Return a uniform whole number from 0 to ``below`` - 1."""
        return secrets.randbelow(below)

    def uniform(self, size: int) -> FloatArray:
        """Return numbers strictly between 0 and 1."""
        words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(12)
        # The half keeps 0 out, and 52 bits leave it room: with 53 the largest would round to 1.
        return (words.astype(np.float64) + 0.5) * 2.0**-52


def _grid(scale: float) -> int:
    return math.frexp(scale)[1] - 1 - _FINE


def _on_grid(scale: float, grid: int) -> float:
    """Round up to a multiple of the grid, by at most 2^-40: OpenDP computes with shorter fractions then."""
    return math.ldexp(math.ceil(math.ldexp(scale, -grid)), grid)


def _add(kind: Literal["laplace", "gaussian"], vector: FloatArray, scale: float, grid: int) -> None:
    """Add noise to every coordinate, in parts on all cores: each draw is independent of every other anyway."""
    parts = max(1, min(_PARTS * core_count(), vector.size // _SMALLEST_PART))
    length = max(1, math.ceil(vector.size / parts))

    def add(start: int) -> None:
        part = vector[start : start + length]
        part[:] = _sampler(kind, part.size, scale, grid)(part)

    run_jobs([partial(add, start) for start in range(0, vector.size, length)], _MEMORY_EACH * vector.size)


def _check(loss: float, claim: float) -> None:
    if not loss <= claim:
        raise InvalidValueError(
            f"privacy loss is {loss!r}, but the claim is {claim!r}; release nothing, and report this as a bug"
        )


@lru_cache(maxsize=128)
def _loss(kind: Literal["laplace", "gaussian"], size: int, scale: float, grid: int, sensitivity: float) -> float:
    return float(_sampler(kind, size, scale, grid).map(sensitivity))


@lru_cache(maxsize=128)
def _sampler(kind: Literal["laplace", "gaussian"], size: int, scale: float, grid: int) -> Any:
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    make, distance = (dp.m.make_laplace, dp.l1_distance) if kind == "laplace" else (dp.m.make_gaussian, dp.l2_distance)
    return make(domain, distance(T=float), scale=scale, k=grid)


@lru_cache(maxsize=1)
def _opendp() -> Any:
    # It takes seconds to load, and only those who release real data need it.
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingExtraError(
            "secure noise needs opendp, which is not installed; run: pip install 'pausefl[private]'"
        ) from None
    dp.enable_features("contrib")
    return dp
