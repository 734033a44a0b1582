"""How much leaks: schedules, mechanisms, a ledger that cannot forget, accounting, and an audit that can catch us."""

from typing import TYPE_CHECKING, Any

from pausefl.errors import AlreadyReservedError as AlreadyReserved
from pausefl.errors import BudgetExceededError as BudgetExceeded
from pausefl.errors import LedgerError
from pausefl.privacy.ledger.charge import Charge
from pausefl.privacy.mechanisms import MECHANISMS
from pausefl.privacy.mechanisms.base import Guarantee, Mechanism, Released
from pausefl.privacy.mechanisms.gaussian import Gaussian
from pausefl.privacy.mechanisms.laplace import Laplace
from pausefl.privacy.mechanisms.noise import Noise, SecureNoise, SimulatedNoise
from pausefl.privacy.mechanisms.privunit import PrivUnit
from pausefl.privacy.mechanisms.tensor_rules import Layers
from pausefl.privacy.release_plan import ReleasePlan, suggest
from pausefl.privacy.schedule import SCHEDULES, FixedHorizon, Geometric, PowerLaw, Schedule

if TYPE_CHECKING:
    from pausefl.privacy.ledger.sqlite import SqliteLedger

__all__ = [
    "MECHANISMS",
    "SCHEDULES",
    "AlreadyReserved",
    "BudgetExceeded",
    "Charge",
    "FixedHorizon",
    "Gaussian",
    "Geometric",
    "Guarantee",
    "Laplace",
    "Layers",
    "LedgerError",
    "Mechanism",
    "Noise",
    "PowerLaw",
    "PrivUnit",
    "ReleasePlan",
    "Released",
    "Schedule",
    "SecureNoise",
    "SimulatedNoise",
    "SqliteLedger",
    "suggest",
]


def __getattr__(name: str) -> Any:
    # Only those who keep a durable ledger need the database.
    if name == "SqliteLedger":
        from pausefl.privacy.ledger.sqlite import SqliteLedger

        return SqliteLedger
    gone = "; use SqliteLedger" if name in ("Ledger", "MemoryLedger") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{gone}")
