"""How much leaks: schedules, mechanisms, a ledger that cannot forget, accounting, and an audit that can catch us."""

from typing import TYPE_CHECKING, Any

from pausefl.errors import AlreadyReservedError as AlreadyReserved
from pausefl.errors import BudgetExceededError as BudgetExceeded
from pausefl.errors import LedgerError
from pausefl.privacy.charge import Charge
from pausefl.privacy.gaussian import Gaussian
from pausefl.privacy.laplace import Laplace
from pausefl.privacy.layers import Layers
from pausefl.privacy.ledger import Ledger, MemoryLedger
from pausefl.privacy.mechanism import Guarantee, Mechanism, Released
from pausefl.privacy.noise import Noise, SecureNoise, SimulatedNoise
from pausefl.privacy.privunit import PrivUnit
from pausefl.privacy.schedule import SCHEDULES, FixedHorizon, Geometric, PowerLaw, Schedule

if TYPE_CHECKING:
    from pausefl.privacy.sqlite_ledger import SqliteLedger

__all__ = [
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
    "Ledger",
    "LedgerError",
    "Mechanism",
    "MemoryLedger",
    "Noise",
    "PowerLaw",
    "PrivUnit",
    "Released",
    "Schedule",
    "SecureNoise",
    "SimulatedNoise",
    "SqliteLedger",
]


def __getattr__(name: str) -> Any:
    # Only those who keep a durable ledger need the database.
    if name == "SqliteLedger":
        from pausefl.privacy.sqlite_ledger import SqliteLedger

        return SqliteLedger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
