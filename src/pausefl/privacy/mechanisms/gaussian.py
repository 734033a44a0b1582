"""The Gaussian mechanism, for the whole update or for single records, paid release by release or in rho for life.

References: Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (2018), Theorem 8, for releases
that are added up; Bun and Steinke (2016) for those that are paid in rho.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, get_args

from scipy.special import erfcx, ndtr

from pausefl.errors import require
from pausefl.privacy.mechanisms.base import Account, Guarantee, Mechanism, clip_norm, require_bound
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.zcdp import zcdp_within
from pausefl.types import Epsilon, FloatArray

_CLOSE = 2e-5


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Scale to an L2 norm of at most ``l2``, then add the least Gaussian noise that gives (epsilon, delta).

    Args:
        l2: The largest norm of the update, or of one record's contribution to it.
        delta: The small allowance on top of epsilon.  It is for each release with ``account="sum"``, and for all
            releases together with ``"zcdp"``.
        unit: ``"update"`` scales and noises the update.  ``"record"`` scales the contribution of each record and noises
            their sum; neighbours differ in one replaced record.
        account: How releases add up.  With ``"sum"`` their epsilons and deltas are added.  With ``"zcdp"`` they are
            paid in rho, which is much cheaper for many releases.  If you leave it out, it is ``"zcdp"`` for records and
            ``"sum"`` for updates.

    Use it with ``unit="record"`` to protect single records.  In both units two inputs differ by up to 2 x l2, and the
    noise is calibrated to that.

    >>> round(Gaussian(l2=1.0, delta=1e-5).sigma(1.0), 3)
    7.461
    >>> Gaussian(l2=1.0, delta=1e-5, unit="record")
    Gaussian(l2=1.0, delta=1e-05, unit='record', account='zcdp')
    """

    name: ClassVar[str] = "gaussian"
    least_epsilon: ClassVar[Epsilon] = 1e-6
    loss: ClassVar[Literal["gaussian"]] = "gaussian"
    l2: float
    delta: float
    unit: Literal["update", "record"] = "update"
    account: Account | None = None

    def __post_init__(self) -> None:
        what = "one record's contribution" if self.unit == "record" else "a typical update"
        require_bound(self, "l2", f"it is the norm of {what}")
        require_bound(self, "delta", "1e-6 is common", 1e-12, 0.1)
        require(
            self.unit in ("update", "record"), "unit", self.unit, "'update' or 'record'", "use Laplace for 'coordinate'"
        )
        fine = self.account in (None, *get_args(Account))
        require(fine, "account", self.account, "'sum' or 'zcdp'", "leave it out to get the better one")
        if self.account is None:
            object.__setattr__(self, "account", "zcdp" if self.unit == "record" else "sum")

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """Take ``clip`` as the bound; any unit but ``record`` protects the whole update."""
        unit: Literal["update", "record"] = "record" if values["unit"] == "record" else "update"
        return cls(values["clip"], values["delta"], unit, values.get("account"))

    @classmethod
    def audited(cls) -> dict[str, Self]:
        """Return both accounts for the whole update, and the one for records."""
        return {
            "gaussian": cls(l2=1.0, delta=1e-5),
            "gaussian-zcdp": cls(l2=1.0, delta=1e-5, account="zcdp"),
            "gaussian-record": cls(l2=1.0, delta=1e-5, unit="record"),
        }

    @property
    def guarantee(self) -> Guarantee:
        """A promise up to delta, for any two inputs, or for any two that differ in one record."""
        return Guarantee(self.unit, "l2", self.l2, self.delta)

    @property
    def composition(self) -> Account:
        """As ``account`` says."""
        return self.account or "sum"

    def sigma(self, epsilon: Epsilon, passes: int = 1) -> float:
        """Return the standard deviation of the noise at this epsilon.

        With several ``passes`` over the data in one release, each is noised, and all of them together cost epsilon.
        """
        return 2.0 * self.l2 * self._multiplier(epsilon, passes)

    def noise_to_signal(self, dimension: int, epsilon: Epsilon) -> float:
        """Return sqrt(d) x sigma / l2."""
        return math.sqrt(dimension) * self.sigma(epsilon) / self.l2

    def _randomize(self, vector: FloatArray, epsilon: Epsilon, noise: Noise) -> FloatArray:
        if self.unit == "update":
            clip_norm(vector, 2, self.l2)
        noise.gaussian(vector, 2.0 * self.l2, self._multiplier(epsilon), coordinates=vector.size)
        return vector

    def _multiplier(self, epsilon: Epsilon, passes: int = 1) -> float:
        if self.composition == "sum":
            return noise_multiplier(epsilon / passes, self.delta / passes)
        rho = zcdp_within(epsilon, self.delta) / passes
        return 1.0 / math.sqrt(2.0 * rho) * (1.0 + 1e-9)


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
