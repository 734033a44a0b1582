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
from pausefl.privacy.mechanisms.record_sum import RecordSum, check_count, first_record, row_size
from pausefl.privacy.mechanisms.tensor_rules import Layers, Tensor, Update, checked_tensors, pack, unpack
from pausefl.privacy.schedule import SHAVE
from pausefl.types import Epsilon, FloatArray

Unit: TypeAlias = Literal["coordinate", "update", "record"]
Account: TypeAlias = Literal["sum", "zcdp"]
PROTECTED: dict[str, str] = {
    "coordinate": "one number of the update, any two inputs",
    "update": "the whole update, any two inputs",
    "record": "one record, any one record replaced",
}
"""What each unit protects, in words: what may differ between two inputs that nobody shall tell apart."""

_SMALL, _LARGE = 1e-30, 1e30
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The promise: for any two neighbouring inputs, the outputs differ by at most e^epsilon, up to ``delta``.

    Attributes:
        unit: Which inputs are neighbours.  With ``update`` *any* two are (local DP of the whole update).  With
            ``coordinate`` they differ in one coordinate of the update; basic composition then gives d x epsilon for the
            whole update, which :meth:`whole_update` spells out.  With ``record`` one record of the data set is replaced
            by another, and the number of records is the same; nothing is promised about the data set as a whole.
        norm: The name of the norm in which ``bound`` is measured.
        bound: The largest norm of what is protected: of an update, or of one record's contribution to it.
        delta: The small allowance on top of epsilon; 0 means none.

    >>> Guarantee("coordinate", "linf", 0.0015).sentence(1.5, 25_818)
    'epsilon = 1.5 per coordinate, any two inputs, linf norm at most 0.0015; whole update (d = 25818): 38727'
    >>> Guarantee("record", "l2", 1.0, 1e-5).sentence(1.0, 1290)
    'epsilon = 1 per record, delta = 1e-05, any one record replaced, l2 norm of its contribution at most 1'
    """

    unit: Unit
    norm: str
    bound: float
    delta: float = 0.0

    @property
    def adjacency(self) -> str:
        """Which two inputs are neighbours, in words."""
        return PROTECTED[self.unit].partition(", ")[2]

    @property
    def pure(self) -> bool:
        """Whether the promise never fails, so that delta is 0."""
        return self.delta == 0.0

    def whole_update(self, epsilon: Epsilon, dimension: int) -> Epsilon:
        """Return what ``epsilon`` in this unit means for an update as a whole; infinity where nothing is promised."""
        if self.unit == "record":
            return math.inf
        return epsilon * dimension if self.unit == "coordinate" else epsilon

    def longest(self, dimension: int) -> float:
        """Return the largest L2 norm of an update of this dimension within the bound."""
        return self.bound * math.sqrt(dimension) if self.norm == "linf" else self.bound

    def sentence(self, epsilon: Epsilon, dimension: int) -> str:
        """Say it in one line, for a report."""
        slack = "" if self.pure else f", delta = {self.delta:g}"
        of = " of its contribution" if self.unit == "record" else ""
        norm = f"{self.norm} norm{of} at most {self.bound:g}"
        per = f"epsilon = {epsilon:g} per {self.unit}{slack}, {self.adjacency}, {norm}"
        if self.unit == "record":
            return per
        return f"{per}; whole update (d = {dimension}): {self.whole_update(epsilon, dimension):.10g}"


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """How loud a release is, by public numbers alone: squared L2 norms of its noise, and of the longest update."""

    noise: float
    signal: float

    def __post_init__(self) -> None:
        for name in ("noise", "signal"):
            value = getattr(self, name)
            require(
                is_finite(value) and value > 0.0,
                name,
                value,
                "a finite number above 0",
                "pass None if the level is unknown",
            )


@dataclass(frozen=True, slots=True)
class Released:
    """A noised update that may leave, and what holds for it.

    Attributes:
        update: The noised update: this may leave.
        epsilon: What this release may leak.
        dimension: How many numbers of the update leave.
        mechanism: The name of the mechanism.
        guarantee: What holds for this release.
        noise: Where the noise came from.

    >>> from pausefl.privacy import Laplace, SimulatedNoise
    >>> noise = SimulatedNoise(np.random.default_rng(0))
    >>> released = Laplace(unit="coordinate", width=1.0).release(np.zeros(3), 1.5, noise)
    >>> released.update.shape, released.private, released.record()["whole_update_epsilon"]
    ((3,), False, 4.5)
    """

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
        whole = self.guarantee.whole_update(self.epsilon, self.dimension)
        return {
            "mechanism": self.mechanism,
            **asdict(self.guarantee),
            "adjacency": self.guarantee.adjacency,
            "epsilon": self.epsilon,
            "dimension": self.dimension,
            "whole_update_epsilon": whole if math.isfinite(whole) else None,
            "source": self.noise.name,
            "private": self.noise.private,
            "note": self.noise.note,
        }


class Mechanism(ABC):
    """Turns an update into something that may leave; an implementation defines ``_randomize`` and ``guarantee``.

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
    def composition(self) -> Account:
        """How releases add up in a ledger.

        With ``sum`` each release has its own epsilon and delta, and both are added up.  With ``zcdp`` releases are paid
        in rho, and the delta is for all of them together.
        """
        return "sum"

    @property
    def clip_field(self) -> str:
        """The field that holds the clip."""
        return "l2"

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds at each release."""

    def noise_to_signal(self, dimension: int, epsilon: Epsilon) -> float:
        """Return the root mean square of the noise's L2 norm over the largest L2 norm of what is bounded.

        It is NaN if the mechanism does not state it.
        """
        return math.nan

    def noise_level(self, dimension: int, epsilon: Epsilon, count: int = 1) -> NoiseLevel | None:
        """Return how loud a release is, from public numbers only; None if the mechanism does not state it.

        ``count`` matters only for the unit ``record``, where a mean over so many records leaves.
        """
        guarantee = self.guarantee
        ratio, signal = self.noise_to_signal(dimension, epsilon), guarantee.longest(dimension) ** 2
        ratio /= count if guarantee.unit == "record" else 1
        return NoiseLevel(ratio**2 * signal, signal) if is_finite(ratio) and ratio > 0.0 else None

    def release(
        self, update: Update, epsilon: Epsilon, noise: Noise, *, layers: Layers | None = None, clip: float | None = None
    ) -> Released:
        """Bound and randomise an update: a flat float array, or a mapping by name with its ``layers``.

        Args:
            update: The update.
            epsilon: What this release may leak.
            noise: Where the noise comes from.
            layers: The tensors that it must have, and which of them never leave; for a mapping only.
            clip: Bounds the update tighter, in the unit of the mechanism's own clip; a larger one is ignored.  The
                noise stays that of the mechanism's own clip: who may choose the clip cannot choose the noise.
        """
        guarantee = self.guarantee
        fine = guarantee.unit != "record"
        require(fine, "unit", guarantee.unit, "'update' or 'coordinate' here", "call release_records instead")
        self._require_epsilon(epsilon)
        share = self._share(clip)
        # An app may have made numpy raise where floats overflow or underflow: that would depend on the data.
        with np.errstate(all="ignore"):
            vector = pack(update, layers)
            if share < 1.0:
                self._tighten(vector, share)
            vector = self._randomize(vector, float(epsilon), noise)
            # A mapping's dtype may be narrower: casting what is already randomised costs no privacy.
            outcome = unpack(vector, update, layers)
        return Released(outcome, float(epsilon), vector.size, repr(self), guarantee, noise)

    def release_records(
        self, records: Update, count: int, epsilon: Epsilon, noise: Noise, *,
        layers: Layers | None = None, clip: float | None = None,
    ) -> Released:  # fmt: skip
        """Clip each record's contribution, add them up, randomise the sum, and divide it by the public ``count``.

        Args:
            records: A row per record: an array of two dimensions, or a mapping by name whose tensors have one dimension
                more than those of ``layers``.  A row that is not finite counts as zeros.  Each record may contribute to
                one row only, which nobody can check from here.
            count: The public number of records.  More rows are refused; fewer are no fault.
            epsilon: What this release may leak.
            noise: Where the noise comes from.
            layers: The tensors that it must have, and which of them never leave; for a mapping only.
            clip: As for ``release``.
        """
        tensors = checked_tensors(records, layers, rows=True)
        total = self.record_sum(row_size(tensors), count, clip)
        with np.errstate(all="ignore"):
            total.add(tensors)
        return self.release_sum(total, first_record(records), epsilon, noise, layers=layers)

    def record_sum(self, dimension: int, count: int, clip: float | None = None) -> RecordSum:
        """Return an empty sum of what records contribute, to be released with ``release_sum``.

        Args:
            dimension: How many numbers a record contributes.
            count: The public number of records.
            clip: As for ``release``.
        """
        fine = self.guarantee.unit == "record"
        require(fine, "unit", self.guarantee.unit, "'record' here", "call release instead")
        return RecordSum(dimension, self.guarantee.bound * self._share(clip), count)

    def release_sum(
        self, total: RecordSum, like: Update, epsilon: Epsilon, noise: Noise, *, layers: Layers | None = None
    ) -> Released:
        """Randomise a sum that this mechanism's ``record_sum`` began, and divide it by its public count.

        Args:
            total: The sum.
            like: Has the shape and the type of what leaves; its numbers do not matter.
            epsilon: What this release may leak.
            noise: Where the noise comes from.
            layers: As for ``release``.
        """
        fine = self.guarantee.unit == "record"
        require(fine, "unit", self.guarantee.unit, "'record' here", "call release instead")
        self._require_epsilon(epsilon)
        fine = total.bound <= self.guarantee.bound
        require(fine, "bound of the sum", total.bound, f"at most {self.guarantee.bound:g}", "begin it with record_sum")
        with np.errstate(all="ignore"):
            vector = self._randomize(total.value, float(epsilon), noise)
            outcome = unpack(vector / total.count, like, layers)
        return Released(outcome, float(epsilon), vector.size, repr(self), self.guarantee, noise)

    def release_mean(
        self, mean: Update, count: int, epsilon: Epsilon, noise: Noise, *,
        layers: Layers | None = None, clip: float | None = None,
    ) -> Released:  # fmt: skip
        """Randomise a mean over the public ``count`` of contributions that somebody else has clipped and added up.

        The guarantee holds only if each contribution had a norm of at most the mechanism's clip, which nobody can check
        from here.  The mean is projected on the ball of that norm: this moves no two means farther apart.

        Args:
            mean: The mean.
            count: The public number of records.
            epsilon: What this release may leak.
            noise: Where the noise comes from.
            layers: The tensors that it must have, and which of them never leave; for a mapping only.
            clip: As for ``release``.
        """
        fine = self.guarantee.unit == "record"
        require(fine, "unit", self.guarantee.unit, "'record' here", "call release instead")
        check_count(count)
        self._require_epsilon(epsilon)
        share = self._share(clip)
        with np.errstate(all="ignore"):
            vector = pack(mean, layers)
            self._tighten(vector, share)
            vector = self._randomize(vector * count, float(epsilon), noise)
            outcome = unpack(vector / count, mean, layers)
        return Released(outcome, float(epsilon), vector.size, repr(self), self.guarantee, noise)

    def _share(self, clip: float | None) -> float:
        """Return which share of the mechanism's own clip is asked for, at most 1; refuse what cannot be done."""
        fine = clip is None or (is_finite(clip) and clip > 0.0)
        require(fine, "clip", clip, "a finite number above 0", "leave it out for the mechanism's own clip")
        return 1.0 if clip is None else min(1.0, float(clip) / float(getattr(self, self.clip_field)))

    def _require_epsilon(self, epsilon: Epsilon) -> None:
        require(
            is_finite(epsilon) and self.least_epsilon <= epsilon <= self.most_epsilon, "epsilon", epsilon,
            f"between {self.least_epsilon:g} and {self.most_epsilon:g}", "release nothing if no epsilon is left",
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
        """Return the randomised vector; ``vector`` is finite, not empty, and the mechanism's to overwrite.

        With the record unit it is the sum of contributions that are clipped already.
        """


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
    share = top or 1.0  # no way out for zeros: the time it takes must not tell that training changed nothing
    # Divided by the largest entry, nothing overflows.  Blocks, since one long sum loses what is small beside it: a
    # block of 2^16 terms loses at most 2^-37 of its sum, and the sum over the blocks is exact.
    with np.errstate(under="ignore"):
        blocks = (vector[start : start + _BLOCK] / share for start in range(0, vector.size, _BLOCK))
        # Not np.dot: it wakes threads that go on to spin, for long vectors and for some only.
        total = math.fsum(float((np.abs(part) if order == 1 else np.square(part)).sum()) for part in blocks)
    return top * (total if order == 1 else math.sqrt(total))


def require_bound(mechanism: Mechanism, name: str, remedy: str, least: float = _SMALL, most: float = _LARGE) -> None:
    """Refuse a field that is no number or beyond its bounds (floats carry no clip beyond these); make it a float."""
    value = getattr(mechanism, name)
    require(is_finite(value) and least <= value <= most, name, value, f"between {least:g} and {most:g}", remedy)
    object.__setattr__(mechanism, name, float(value))
