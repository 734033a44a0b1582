"""What a mechanism is: it bounds an update by its own clip, adds the noise this bound needs, and states what holds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.mechanisms.tensor_rules import Layers, Tensor, Update, pack, unpack
from pausefl.privacy.schedule import SHAVE
from pausefl.types import Epsilon, FloatArray

Unit: TypeAlias = Literal["coordinate", "update"]

_SMALL, _LARGE = 1e-30, 1e30
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What holds: for *any* two inputs (local DP), the outputs differ by at most e^epsilon, up to ``delta``.

    ``unit`` says for what: the whole update, or one coordinate of it with the others fixed.  In the second case basic
    composition gives d x epsilon for the whole update, which :meth:`whole_update` spells out.

    >>> Guarantee("coordinate", "linf", 0.0015).sentence(1.5, 25_818)
    'epsilon = 1.5 per coordinate, any two inputs, linf norm at most 0.0015; whole update (d = 25818): 38727'
    """

    unit: Unit
    norm: str
    bound: float
    delta: float = 0.0
    adjacency: str = "any two inputs"

    @property
    def pure(self) -> bool:
        """Whether no failure probability is left."""
        return self.delta == 0.0

    def whole_update(self, epsilon: Epsilon, dimension: int) -> Epsilon:
        """Return what ``epsilon`` in this unit means for an update of this dimension as a whole."""
        return epsilon * dimension if self.unit == "coordinate" else epsilon

    def longest(self, dimension: int) -> float:
        """Return the largest L2 norm of an update of this dimension within the bound."""
        return self.bound * math.sqrt(dimension) if self.norm == "linf" else self.bound

    def sentence(self, epsilon: Epsilon, dimension: int) -> str:
        """Say it in one line, for a report."""
        slack = "" if self.pure else f", delta = {self.delta:g}"
        per = f"epsilon = {epsilon:g} per {self.unit}{slack}, {self.adjacency}, {self.norm} norm at most {self.bound:g}"
        return f"{per}; whole update (d = {dimension}): {self.whole_update(epsilon, dimension):.10g}"


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """How loud a release is, by public numbers alone: squared L2 norms of its noise, and of the longest update."""

    noise: float
    signal: float

    def __post_init__(self) -> None:
        for name in ("noise", "signal"):
            value = getattr(self, name)
            require(is_finite(value) and value > 0.0, name, value, "a finite number above 0", "tell no level")


@dataclass(frozen=True, slots=True)
class Released:
    """What may leave, and what is to be said about it."""

    update: dict[str, Tensor] | Tensor
    epsilon: Epsilon
    dimension: int
    mechanism: str
    guarantee: Guarantee
    noise: Noise

    @property
    def private(self) -> bool:
        """Whether the noise came from a source that an attacker cannot replay."""
        return self.noise.private

    def record(self) -> dict[str, Any]:
        """Return everything but the update itself, ready for JSON."""
        return {
            "mechanism": self.mechanism,
            **asdict(self.guarantee),
            "epsilon": self.epsilon,
            "dimension": self.dimension,
            "whole_update_epsilon": self.guarantee.whole_update(self.epsilon, self.dimension),
            "source": self.noise.name,
            "private": self.noise.private,
            "note": self.noise.note,
        }


class Mechanism(ABC):
    """Turns an update into something that may leave; an implementation fills in ``_randomize`` and its guarantee.

    Law: whatever the input, ``release`` either raises :class:`~pausefl.errors.InvalidValueError` and releases nothing,
    or returns an output whose distribution obeys ``guarantee`` at that ``epsilon``.  The sensitivity follows from the
    mechanism's own clip.  The input is never changed.

    A mechanism of the package is a frozen dataclass with a line in ``MECHANISMS``: the owner's file, the configuration
    of a run and the audit then know it by its ``name``.
    """

    __slots__ = ()
    name: ClassVar[str]
    loss: ClassVar[Literal["laplace", "gaussian", "pure", "unstated"]] = "unstated"
    """The shape of the privacy loss, for tight accounting: ``pure`` fits any mechanism without delta."""
    least_epsilon: ClassVar[Epsilon] = 1e-9
    most_epsilon: ClassVar[Epsilon] = 1e6

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """Return the mechanism that a run's ``[privacy]`` section describes; override it where keys and fields differ.

        The keys are ``unit``, ``width``, ``clip`` (a bound on the norm of the update, and here the field ``l2``) and
        ``delta``.
        """
        known = {**values, "l2": values["clip"]}
        return cls(**{field.name: known[field.name] for field in fields(cast(Any, cls)) if field.name in known})

    @classmethod
    def audited(cls) -> dict[str, Self]:
        """Return the variants that ``pausefl audit`` can attack, each by its name there."""
        return {}

    @property
    def clip_field(self) -> str:
        """The field that holds the clip."""
        return "l2"

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds at each release."""

    def noise_to_signal(self, dimension: int, epsilon: Epsilon) -> float:
        """Return the root mean square of the noise's L2 norm over the largest L2 norm of a bounded update.

        NaN stands for a mechanism that does not state it.
        """
        return math.nan

    def noise_level(self, dimension: int, epsilon: Epsilon) -> NoiseLevel | None:
        """Return how loud a release is, which follows from public numbers; None if the mechanism does not state it."""
        ratio, signal = self.noise_to_signal(dimension, epsilon), self.guarantee.longest(dimension) ** 2
        return NoiseLevel(ratio**2 * signal, signal) if is_finite(ratio) and ratio > 0.0 else None

    def release(
        self, update: Update, epsilon: Epsilon, noise: Noise, *, layers: Layers | None = None, clip: float | None = None
    ) -> Released:
        """Bound and randomise an update: a flat float array, or a mapping by name with its ``layers``.

        ``clip`` bounds it tighter, in the unit of the mechanism's own clip; a larger one is ignored.  The noise stays
        that of the mechanism's own clip: who may choose the clip cannot choose the noise.
        """
        self._require_epsilon(epsilon)
        fine = clip is None or (is_finite(clip) and clip > 0.0)
        require(fine, "clip", clip, "a finite number above 0", "leave it out")
        # An app may have made numpy raise where floats overflow or underflow: that would depend on the data.
        with np.errstate(all="ignore"):
            vector = pack(update, layers)
            if clip is not None and clip < getattr(self, self.clip_field):
                self._tighten(vector, float(clip) / getattr(self, self.clip_field))
            vector = self._randomize(vector, float(epsilon), noise)
            # A mapping's dtype may be narrower: casting what is already randomised costs no privacy.
            outcome = unpack(vector, update, layers)
        return Released(outcome, float(epsilon), vector.size, repr(self), self.guarantee, noise)

    def _require_epsilon(self, epsilon: Epsilon) -> None:
        require(
            is_finite(epsilon) and self.least_epsilon <= epsilon <= self.most_epsilon, "epsilon", epsilon,
            f"between {self.least_epsilon:g} and {self.most_epsilon:g}", "release nothing where none is left",
        )  # fmt: skip

    def _tighten(self, vector: FloatArray, share: float) -> None:
        """Bound the vector in place by a share of the guarantee's bound, in its norm."""
        bound = share * self.guarantee.bound
        if self.guarantee.norm == "linf":
            np.clip(vector, -bound, bound, out=vector)
        else:
            clip_norm(vector, 1 if self.guarantee.norm == "l1" else 2, bound)

    @abstractmethod
    def _randomize(self, vector: FloatArray, epsilon: Epsilon, noise: Noise) -> FloatArray:
        """Return the randomised vector; ``vector`` is finite, not empty, and the mechanism's to overwrite."""


def clip_norm(vector: FloatArray, order: Literal[1, 2], bound: float) -> None:
    """Scale the vector in place so that its L1 or L2 norm is at most ``bound``, for certain.

    Rounding in the norm and in the product is far below the shave, whatever the dimension, so the exact norm of the
    floats that result keeps the bound.
    """
    norm = vector_norm(vector, order)
    if norm > bound * SHAVE:
        # Dividing first by the largest entry keeps huge updates from overflowing.
        vector /= float(np.abs(vector).max())
        vector *= bound * SHAVE / vector_norm(vector, order)


def vector_norm(vector: FloatArray, order: Literal[1, 2]) -> float:
    """Return the norm in float64, relatively exact to 2^-36; infinite only if it is beyond float64."""
    top = float(np.abs(vector).max())
    if top == 0.0:
        return 0.0
    # Divided by the largest entry, nothing overflows.  Blocks, since one long sum loses what is small beside it: a
    # block of 2^16 terms loses at most 2^-37 of its sum, and the sum over the blocks is exact.
    with np.errstate(under="ignore"):
        blocks = (vector[start : start + _BLOCK] / top for start in range(0, vector.size, _BLOCK))
        total = math.fsum(float(np.abs(part).sum() if order == 1 else np.dot(part, part)) for part in blocks)
    return top * (total if order == 1 else math.sqrt(total))


def require_bound(mechanism: Mechanism, name: str, remedy: str, least: float = _SMALL, most: float = _LARGE) -> None:
    """Refuse a field that is no number or beyond its bounds (floats carry no clip beyond these); make it a float."""
    value = getattr(mechanism, name)
    require(is_finite(value) and least <= value <= most, name, value, f"between {least:g} and {most:g}", remedy)
    object.__setattr__(mechanism, name, float(value))
