"""The Gaussian mechanism with the analytic calibration, which holds for every epsilon.

Reference: Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (2018), Theorem 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

from scipy.special import erfcx, ndtr

from pausefl.privacy.mechanisms.base import Guarantee, Mechanism, clip_norm, require_bound
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.types import Epsilon, FloatArray

_CLOSE = 2e-5


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Scale the update to an L2 norm of at most ``l2``, then add the least Gaussian noise that gives (epsilon, delta).

    Two such updates differ by up to 2 x l2, and the noise is calibrated to that.

    >>> round(Gaussian(l2=1.0, delta=1e-5).sigma(1.0), 3)
    7.461
    """

    name: ClassVar[str] = "gaussian"
    least_epsilon: ClassVar[Epsilon] = 1e-6
    loss: ClassVar[Literal["gaussian"]] = "gaussian"
    l2: float
    delta: float

    def __post_init__(self) -> None:
        require_bound(self, "l2", "it is the norm of a typical update")
        require_bound(self, "delta", "1e-6 is common", 1e-12, 0.1)

    @classmethod
    def audited(cls) -> dict[str, Self]:
        """Return the only variant."""
        return {"gaussian": cls(l2=1.0, delta=1e-5)}

    @property
    def guarantee(self) -> Guarantee:
        """Up to delta, for any two inputs."""
        return Guarantee("update", "l2", self.l2, self.delta)

    def sigma(self, epsilon: Epsilon) -> float:
        """Return the standard deviation of the noise at this epsilon."""
        return 2.0 * self.l2 * noise_multiplier(epsilon, self.delta)

    def noise_to_signal(self, dimension: int, epsilon: Epsilon) -> float:
        """Return sqrt(d) x sigma / l2."""
        return math.sqrt(dimension) * self.sigma(epsilon) / self.l2

    def _randomize(self, vector: FloatArray, epsilon: Epsilon, noise: Noise) -> FloatArray:
        clip_norm(vector, 2, self.l2)
        noise.gaussian(vector, 2.0 * self.l2, noise_multiplier(epsilon, self.delta), coordinates=vector.size)
        return vector


def gaussian_delta(epsilon: Epsilon, multiplier: float) -> float:
    """Return the exact delta of Gaussian noise of ``multiplier`` x sensitivity."""
    # Balle and Wang (2018), eq. (6), is ndtr(a - b) - e^epsilon ndtr(-a - b).  Both terms are e^-(a - b)^2 / 2 times
    # the scaled erfcx, which neither overflows nor takes the exponent's rounding into their difference.
    a, b = 0.5 / multiplier, epsilon * multiplier
    near, far = (b - a) / math.sqrt(2.0), (b + a) / math.sqrt(2.0)
    factor = 0.5 * math.exp(-near * near)
    if near < 0.0:
        return float(ndtr(a - b)) - factor * float(erfcx(far))
    if far - near > _CLOSE:
        return factor * float(erfcx(near) - erfcx(far))
    # They nearly cancel: the derivative half way, times the distance, errs by less than 10^-10.
    half = b / math.sqrt(2.0)
    return factor * (far - near) * 2.0 * (1.0 / math.sqrt(math.pi) - half * float(erfcx(half)))


@lru_cache(maxsize=1024)
def noise_multiplier(epsilon: Epsilon, delta: float) -> float:
    """Return the least sigma / sensitivity that gives (epsilon, delta), rounded up."""
    low, high = 1e-6, 1e12
    while high / low > 1.0 + 1e-12:
        middle = math.sqrt(low * high)
        if gaussian_delta(epsilon, middle) <= delta:
            high = middle
        else:
            low = middle
    return high * (1.0 + 1e-9)
