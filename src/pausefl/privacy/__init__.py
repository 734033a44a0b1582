"""How much leaks: schedules, mechanisms, a ledger that cannot forget, accounting, and an audit that can catch us."""

from pausefl.errors import AlreadyReservedError as AlreadyReserved
from pausefl.errors import BudgetExceededError as BudgetExceeded
from pausefl.errors import LedgerError
from pausefl.privacy.ledger import Charge, Ledger, MemoryLedger
from pausefl.privacy.schedule import FixedHorizon, Geometric, PowerLaw, Schedule
from pausefl.privacy.sqlite_ledger import SqliteLedger

__all__ = [
    "AlreadyReserved",
    "BudgetExceeded",
    "Charge",
    "FixedHorizon",
    "Geometric",
    "Ledger",
    "LedgerError",
    "MemoryLedger",
    "PowerLaw",
    "Schedule",
    "SqliteLedger",
]
