"""How an update is bounded and noised before it leaves."""

from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.gaussian import Gaussian
from pausefl.privacy.mechanisms.laplace import Laplace
from pausefl.privacy.mechanisms.privunit import PrivUnit

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Laplace, Gaussian, PrivUnit)}
"""The mechanisms by name."""
