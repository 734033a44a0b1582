"""The Laplace mechanism, per coordinate as in the paper's experiments, or for the whole update.

Reference: Dwork, McSherry, Nissim and Smith (2006); PAUSE, Theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from pausefl.errors import require
from pausefl.privacy.mechanisms.base import Guarantee, Mechanism, clip_norm, require_bound
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.types import Epsilon, FloatArray


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism):
    """Clip, then add Laplace noise: pure epsilon-LDP.

    Args:
        unit: ``"coordinate"`` repeats the experiments of the paper, and promises something about one coordinate only.
            ``"update"`` promises something about the whole update.
        width: With ``unit="coordinate"``: every coordinate is clamped to ±width/2, and the noise has scale
            width/epsilon.
        l1: With ``unit="update"``: the update is scaled to an L1 norm of at most l1.  Two such updates differ by up to
            2 l1, so the noise has scale 2 l1/epsilon.

    Use this mechanism to repeat the paper.  For the whole update :class:`~pausefl.privacy.PrivUnit` needs far less
    noise.

    >>> from pausefl.privacy import SimulatedNoise
    >>> mechanism = Laplace(unit="coordinate", width=0.003)
    >>> released = mechanism.release(np.array([0.1, 0.0]), 1.5, SimulatedNoise(np.random.default_rng(0)))
    >>> released.update.round(4).tolist(), released.record()["note"]
    ([0.0001, -0.002], 'not private (simulated noise)')
    """

    name: ClassVar[str] = "laplace"
    loss: ClassVar[Literal["laplace"]] = "laplace"
    unit: Literal["coordinate", "update"]
    width: float | None = None
    l1: float | None = None

    def __post_init__(self) -> None:
        fine = self.unit in ("coordinate", "update")
        require(fine, "unit", self.unit, "'coordinate' or 'update'", "use the Gaussian mechanism for 'record'")
        clip, other = ("width", "l1") if self.unit == "coordinate" else ("l1", "width")
        wanted, stray = getattr(self, clip), getattr(self, other)
        require(stray is None, other, stray, f"left out with unit={self.unit!r}", f"pass {clip} instead")
        require(wanted is not None, clip, wanted, f"given with unit={self.unit!r}", "it sets the clip and the noise")
        require_bound(self, clip, "it is the size of a typical update")

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """Take ``width`` for the unit of one coordinate, and ``clip`` for the whole update."""
        if values["unit"] == "coordinate":
            return cls(unit="coordinate", width=values["width"])
        return cls(unit=values["unit"], l1=values["clip"])

    @classmethod
    def audited(cls) -> dict[str, Self]:
        """Return both units; the plain name is the one of the paper's experiments."""
        coordinate = cls(unit="coordinate", width=1.0)
        return {"laplace": coordinate, "laplace-coordinate": coordinate, "laplace-update": cls(unit="update", l1=1.0)}

    @property
    def clip_field(self) -> str:
        """The field that holds the clip."""
        return "width" if self.unit == "coordinate" else "l1"

    @property
    def guarantee(self) -> Guarantee:
        """A promise without delta, for any two inputs."""
        if self.unit == "coordinate":
            return Guarantee("coordinate", "linf", self._size / 2.0)
        return Guarantee("update", "l1", self._size)

    def noise_to_signal(self, dimension: int, epsilon: Epsilon) -> float:
        """Return sqrt(8) / epsilon for a coordinate, and sqrt(d) times that for the whole update."""
        return math.sqrt(8.0 * (1 if self.unit == "coordinate" else dimension)) / epsilon

    @property
    def _size(self) -> float:
        # Asked for several times at each release, and not by the name in `clip_field`, which takes twice as long.
        return float((self.width if self.unit == "coordinate" else self.l1) or 0.0)

    def _randomize(self, vector: FloatArray, epsilon: Epsilon, noise: Noise) -> FloatArray:
        if self.unit == "coordinate":
            np.clip(vector, -self._size / 2.0, self._size / 2.0, out=vector)
            noise.laplace(vector, self._size, epsilon, coordinates=1)
        else:
            clip_norm(vector, 1, self._size)
            noise.laplace(vector, 2.0 * self._size, epsilon, coordinates=vector.size)
        return vector
