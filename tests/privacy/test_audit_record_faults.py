"""Faults that a promise about single records can have, each written out, and the audit that finds it.

All run with simulated noise of a fixed seed.  The sound mechanism passes the same audits: ``test_audit.py``.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pausefl.privacy import Gaussian, SimulatedNoise
from pausefl.privacy.audit import audit


def clipped(rows):
    """Return the rows, each of a norm of at most 1."""
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


class ByHand(Gaussian):
    """Sound, but written out, so that the faults below differ from it in one thing."""

    __slots__ = ()

    def release_records(self, records, count, epsilon, noise, *, layers=None, clip=None):
        parts = [np.asarray(part, dtype=float) for part in records.values()]
        total = self._randomize(self.summed(parts, count), epsilon, noise)
        cuts = np.cumsum([part.shape[1] for part in parts])[:-1]
        return SimpleNamespace(update=dict(zip(records, np.split(total / count, cuts), strict=True)))

    def summed(self, parts, count):
        return clipped(np.hstack(parts)).sum(axis=0)


class ClippedSum(ByHand):
    """The mean of all records is clipped, and none of them."""

    __slots__ = ()

    def summed(self, parts, count):
        return clipped(np.hstack(parts).mean(axis=0, keepdims=True))[0] * count


class OneFactorForAll(ByHand):
    """All records are scaled by what the longest of them needs."""

    __slots__ = ()

    def summed(self, parts, count):
        rows = np.hstack(parts)
        return (rows / max(1.0, float(np.linalg.norm(rows, axis=1).max()))).sum(axis=0)


class FirstLayerNotClipped(ByHand):
    """The factor is right, and one layer is forgotten."""

    __slots__ = ()
    forgotten = 0

    def summed(self, parts, count):
        sums = np.split(clipped(np.hstack(parts)).sum(axis=0), np.cumsum([part.shape[1] for part in parts])[:-1])
        sums[self.forgotten] = parts[self.forgotten].sum(axis=0)
        return np.concatenate(sums)


class LastLayerNotClipped(FirstLayerNotClipped):
    """The same of a layer that is larger."""

    __slots__ = ()
    forgotten = -1


class NormForgetsLast(ByHand):
    """The factor is used everywhere, but the norm from which it follows misses a tensor."""

    __slots__ = ()
    forgotten = -1

    def summed(self, parts, count):
        seen = [part for part in parts if part is not parts[self.forgotten]]
        norms = np.linalg.norm(np.hstack(seen), axis=1, keepdims=True)
        return (np.hstack(parts) / np.maximum(1.0, norms)).sum(axis=0)


class NormForgetsMiddle(NormForgetsLast):
    """The same of one of the others."""

    __slots__ = ()
    forgotten = 2


class NormPerLayer(ByHand):
    """Each layer is clipped on its own, so that the record as a whole is longer."""

    __slots__ = ()

    def summed(self, parts, count):
        return np.hstack([clipped(part) for part in parts]).sum(axis=0)


class OneRadius(Gaussian):
    """Noise for a record that is added or removed, where one is replaced."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        noise.gaussian(vector, self.l2, self._multiplier(epsilon), coordinates=vector.size)
        return vector


class NoiseOfTheMean(ByHand):
    """The noise is divided by the count, and then the noised sum is, too."""

    __slots__ = ()

    def _randomize(self, vector, epsilon, noise):
        return vector + Gaussian._randomize(self, np.zeros(vector.size), epsilon, noise) / 12.0


class SameNoise(SimulatedNoise):
    """Seeded anew at every call."""

    def gaussian(self, vector, sensitivity, multiplier, *, coordinates):
        SimulatedNoise(np.random.default_rng(9)).gaussian(vector, sensitivity, multiplier, coordinates=coordinates)


GROSS = [
    ClippedSum,
    OneFactorForAll,
    FirstLayerNotClipped,
    LastLayerNotClipped,
    NormForgetsLast,
    NormForgetsMiddle,
    NoiseOfTheMean,
]
SUBTLE = [NormPerLayer, OneRadius]


@pytest.mark.parametrize(("kind", "runs"), [*((one, 1000) for one in GROSS), *((one, 4000) for one in SUBTLE)])
def test_a_fault_of_the_record_unit_is_found(kind, runs):
    """A fortieth or a tenth of the runs that the audit makes if it is not told otherwise is enough."""
    found = audit(kind(1.0, 1e-5, "record"), 1.0, SimulatedNoise(np.random.default_rng(1)), runs=runs)
    assert found.verdict == "BROKEN", found


@pytest.mark.parametrize("mechanism", [Gaussian(1.0, 1e-5, "record"), Gaussian(1.0, 1e-5, account="zcdp")], ids=repr)
def test_the_same_noise_at_every_release_is_found(mechanism):
    found = audit(mechanism, 1.0, SameNoise(np.random.default_rng(1)), runs=1000)
    assert found.verdict == "BROKEN", found


def test_what_the_faults_are_made_from_is_sound():
    """With as many runs as find the subtlest of the faults."""
    found = audit(ByHand(1.0, 1e-5, "record"), 1.0, SimulatedNoise(np.random.default_rng(1)), runs=4000)
    assert found.verdict == "not refuted", found
