"""Faults that a mechanism or a source of noise can have, each written out, and the audit that finds it.

The gross ones passed an audit that looked at four coordinates of axis-aligned inputs and at one call of the source.
All run with simulated noise of a fixed seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pausefl.privacy import Gaussian, Laplace, Mechanism, PrivUnit, SimulatedNoise
from pausefl.privacy.audit import audit
from pausefl.privacy.mechanisms.base import clip_norm
from pausefl.privacy.mechanisms.privunit import best_levels

COORDINATE, UPDATE = Laplace(unit="coordinate", width=1.0), Laplace(unit="update", l1=1.0)
GAUSSIAN, UNIT = Gaussian(l2=1.0, delta=1e-5), PrivUnit(l2=1.0)


@dataclass(frozen=True, slots=True)
class Faulty(Mechanism):
    """Claims what ``inner`` claims.  Like a stranger's mechanism, it states no shape of its loss."""

    inner: Mechanism
    name = "faulty"

    @property
    def guarantee(self):
        return self.inner.guarantee


class NoiseOnTheFirst(Faulty):
    """The other coordinates leave bare."""

    __slots__ = ()
    count = 1

    def _randomize(self, vector, epsilon, noise):
        bare = vector.copy()
        self.inner._tighten(bare, 1.0)
        noised = self.inner._randomize(vector, epsilon, noise)
        noised[self.count :] = bare[self.count :]
        return noised


class NoiseOnTheFirstFour(NoiseOnTheFirst):
    """The audit must look beyond a few coordinates."""

    __slots__ = ()
    count = 4


class DenseBare(Faulty):
    """Noise only if most of the update is zero."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        if np.count_nonzero(vector) <= vector.size // 2:
            return self.inner._randomize(vector, epsilon, noise)
        self.inner._tighten(vector, 1.0)
        return vector


class TwiceEpsilon(Faulty):
    """Noise calibrated to twice the epsilon that is claimed."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        return self.inner._randomize(vector, 2.0 * epsilon, noise)


class TwiceEpsilonGaussian(Gaussian):
    """The same as a subclass, which claims the Gaussian curve as well."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        return Gaussian._randomize(self, vector, 2.0 * epsilon, noise)


class NoiseBeforeTheClip(Faulty):
    """The right noise in the wrong order: what lies outside the clip shines through."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        noise.laplace(vector, 2.0, epsilon, coordinates=vector.size)
        clip_norm(vector, 1, 1.0)
        return vector


class WrongNorm(Faulty):
    """Clipped in L2 where the noise is for L1."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        clip_norm(vector, 2, 1.0)
        noise.laplace(vector, 2.0, epsilon, coordinates=vector.size)
        return vector


class OneRadius(Faulty):
    """Noise for C where two clipped updates differ by 2C."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        clip_norm(vector, 1, 1.0)
        noise.laplace(vector, 1.0, epsilon, coordinates=vector.size)
        return vector


class TensorByTensor(Faulty):
    """Each tensor is clipped on its own, so the whole update is not."""

    __slots__ = ()

    def release(self, update, epsilon, noise, *, layers=None, clip=None):
        if layers is None:
            return self.inner.release(update, epsilon, noise, clip=clip)
        parts = {name: self.inner.release(part.ravel(), epsilon, noise).update for name, part in update.items()}
        return replace(self.inner.release(update, epsilon, noise, layers=layers), update=parts)

    def _randomize(self, vector, epsilon, noise):
        return self.inner._randomize(vector, epsilon, noise)


class SignKept(Faulty):
    """One coordinate keeps its sign."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        place = vector.size * 2 // 3
        sign = math.copysign(1.0, vector[place])
        noised = self.inner._randomize(vector, epsilon, noise)
        noised[place] = math.copysign(noised[place], sign)
        return noised


class ZeroBare(Faulty):
    """A zero update is answered with zeros: nothing to hide, somebody thought."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        return self.inner._randomize(vector, epsilon, noise) if vector.any() else vector


class NoiseLikeTheData(Faulty):
    """Noise in proportion to the update's own norm."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        clip_norm(vector, 1, 1.0)
        noise.laplace(vector, 2.0 * max(float(np.abs(vector).sum()), 1e-6), epsilon, coordinates=vector.size)
        return vector


class OneBareSomewhere(Faulty):
    """One coordinate, another one each time, misses its noise."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        bare = vector.copy()
        self.inner._tighten(bare, 1.0)
        noised = self.inner._randomize(vector, epsilon, noise)
        place = int(noise.uniform(1)[0] * vector.size)
        noised[place] = bare[place]
        return noised


class OneNumberForAll(Faulty):
    """One number of noise for all coordinates."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        clip_norm(vector, 1, 1.0)
        one = np.zeros(1)
        noise.laplace(one, 2.0, epsilon, coordinates=vector.size)
        return vector + one


class CapTooOften(PrivUnit):
    """PrivUnit that lands beyond the cut with odds that are e times too high."""

    __slots__ = ()

    def cap(self, dimension, epsilon):
        good = PrivUnit.cap(self, dimension, epsilon)
        odds = math.e * good.inside / (1.0 - good.inside)
        return replace(good, inside=odds / (1.0 + odds))


class NormInTheClear(PrivUnit):
    """PrivUnit whose norm is multiplied on without noise."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        length = min(float(np.linalg.norm(vector)) / self.l2, 1.0)
        return PrivUnit(l2=self.l2)._randomize(vector, epsilon, noise) * max(length, 1e-3)


class NoisyNormTooOften(PrivUnit):
    """The norm's randomised response spends the whole epsilon on top of the direction's."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        length = min(float(np.linalg.norm(vector)) / self.l2, 1.0)
        vector = PrivUnit(l2=self.l2)._randomize(vector, epsilon, noise)
        return vector * best_levels(epsilon).release(length, noise)


class SameNoise(SimulatedNoise):
    """Seeded anew at every call."""

    def laplace(self, vector, sensitivity, epsilon, *, coordinates):
        SimulatedNoise(np.random.default_rng(9)).laplace(vector, sensitivity, epsilon, coordinates=coordinates)

    def gaussian(self, vector, sensitivity, multiplier, *, coordinates):
        SimulatedNoise(np.random.default_rng(9)).gaussian(vector, sensitivity, multiplier, coordinates=coordinates)

    def normal(self, size):
        return np.random.default_rng(9).standard_normal(size)

    def uniform(self, size):
        return np.random.default_rng(9).random(size)


class NoiseWithAPeriod(SimulatedNoise):
    """A table of 300 numbers, read again and again."""

    def __init__(self, generator):
        super().__init__(generator)
        self.table, self.place = np.zeros(300), 0
        SimulatedNoise(generator).laplace(self.table, 1.0, 1.0, coordinates=1)

    def laplace(self, vector, sensitivity, epsilon, *, coordinates):
        places = (self.place + np.arange(vector.size)) % self.table.size
        self.place = int(places[-1]) + 1
        vector += sensitivity / epsilon * self.table[places]


class HalvesAlike(SimulatedNoise):
    """The second half of the noise is nine tenths of the first."""

    def laplace(self, vector, sensitivity, epsilon, *, coordinates):
        noise, half = np.zeros(vector.size), vector.size // 2
        SimulatedNoise.laplace(self, noise, sensitivity, epsilon, coordinates=coordinates)
        noise[half : 2 * half] = 0.9 * noise[:half] + math.sqrt(0.19) * noise[half : 2 * half]
        vector += noise


class SingleFloats(SimulatedNoise):
    """Noise from single floats that poses as private: its last bits are zero, so those of the sum are the input's."""

    private = True

    def laplace(self, vector, sensitivity, epsilon, *, coordinates):
        noise = np.zeros(vector.size)
        SimulatedNoise.laplace(self, noise, sensitivity, epsilon, coordinates=coordinates)
        vector += noise.astype(np.float32)


class DoubleFloats(SimulatedNoise):
    """Plain float noise that poses as private."""

    private = True


GROSS = [
    *(kind(inner) for kind in (NoiseOnTheFirst, NoiseOnTheFirstFour, DenseBare) for inner in (COORDINATE, GAUSSIAN)),
    TwiceEpsilon(COORDINATE), TwiceEpsilon(UPDATE), TwiceEpsilon(UNIT), NoiseBeforeTheClip(UPDATE), OneRadius(UPDATE),
    SignKept(UPDATE), SignKept(COORDINATE), ZeroBare(UPDATE), NoiseLikeTheData(UPDATE), OneBareSomewhere(UPDATE),
    OneNumberForAll(UPDATE), CapTooOften(l2=1.0), NormInTheClear(l2=1.0, norm="private"),
]  # fmt: skip
SUBTLE = [TwiceEpsilonGaussian(l2=1.0, delta=1e-5), WrongNorm(UPDATE), TensorByTensor(UPDATE)]
SUBTLEST = [
    TwiceEpsilon(GAUSSIAN), TensorByTensor(GAUSSIAN), NoisyNormTooOften(l2=1.0, norm="private"),
]  # fmt: skip
SOURCES = [
    *((mechanism, SameNoise) for mechanism in (COORDINATE, UPDATE, GAUSSIAN, UNIT)), (UPDATE, HalvesAlike),
    (COORDINATE, SingleFloats), (UPDATE, SingleFloats),
]  # fmt: skip


def name(one):
    return f"{type(one).__name__}-{one!r:.60}"


@pytest.mark.parametrize("faulty", GROSS, ids=name)
def test_a_faulty_mechanism_is_found(faulty):
    """A fortieth of the runs that the audit makes if it is not told otherwise is enough."""
    found = audit(faulty, 1.0, SimulatedNoise(np.random.default_rng(1)), runs=1000)
    assert found.verdict == "BROKEN", found


@pytest.mark.parametrize("faulty", SUBTLE, ids=name)
def test_a_subtle_fault_is_found(faulty):
    """A quarter of the runs that the audit makes if it is not told otherwise is enough."""
    found = audit(faulty, 1.0, SimulatedNoise(np.random.default_rng(1)), runs=10_000)
    assert found.verdict == "BROKEN", found


@pytest.mark.thorough
@pytest.mark.parametrize("faulty", SUBTLEST, ids=name)
def test_a_fault_that_needs_all_runs_is_found(faulty):
    """Each has a relative above that shows sooner: with Laplace noise, with the Gaussian curve, with a bare norm."""
    found = audit(faulty, 1.0, SimulatedNoise(np.random.default_rng(1)))
    assert found.verdict == "BROKEN", found


@pytest.mark.parametrize(("mechanism", "source"), SOURCES)
def test_a_faulty_source_is_found(mechanism, source):
    found = audit(mechanism, 1.0, source(np.random.default_rng(1)), runs=1000)
    assert found.verdict == "BROKEN", found


def test_double_floats_that_pose_as_private_are_found():
    found = audit(COORDINATE, 1.0, DoubleFloats(np.random.default_rng(1)), runs=10_000)
    assert found.verdict == "BROKEN", found


@pytest.mark.parametrize(("mechanism", "runs"), [(UPDATE, 10_000), (COORDINATE, 40_000)], ids=repr)
def test_a_source_with_a_period_is_found(mechanism, runs):
    """A single coordinate shows it only if the audit makes all its runs."""
    found = audit(mechanism, 1.0, NoiseWithAPeriod(np.random.default_rng(1)), runs=runs)
    assert found.verdict == "BROKEN", found
