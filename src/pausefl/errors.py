"""The errors pausefl raises: each names the value, the bound and the remedy, and is a builtin error too."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real

_SHOWN = 200
_FEW = 100


class PauseError(Exception):
    """Root of the tree: ``except PauseError`` catches everything this package refuses."""

    def __str__(self) -> str:
        # KeyError would quote its message.
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidValueError(PauseError, ValueError):
    """An argument lies outside its bound."""


class UnknownClientError(PauseError, KeyError):
    """The cohort has no client with this id."""


class NotEnoughClientsError(PauseError, ValueError):
    """Fewer clients are available than a round needs."""


class OutOfOrderError(PauseError, RuntimeError):
    """The call is not allowed at this point of the round."""


class StateFileError(PauseError, ValueError):
    """A state file is damaged, cut short or of another version; the file is left as it is."""


class StateMissingError(StateFileError, FileNotFoundError):
    """A state file does not exist."""


class BudgetExceededError(PauseError, RuntimeError):
    """A release would leak more than the budget allows; nothing was released."""


class DataMissingError(PauseError, FileNotFoundError):
    """A data set is missing, or its checksum is wrong; the message says how to get it."""


class AlreadyReservedError(PauseError, ValueError):
    """A release of this name was charged before; fresh noise for it would be a free second look at the data."""


class ScheduleChangedError(PauseError, ValueError):
    """The budget, schedule or unit differs from that of the subject's first reservation; nothing was charged."""


class LedgerError(PauseError, OSError):
    """A ledger is locked, read-only, full, damaged or tampered with; nothing was charged."""


class DamagedLedgerError(LedgerError):
    """The file of a ledger does not hold what was charged, and no second try will change that."""


class NotPrivateError(PauseError, PermissionError):
    """Other users of the machine could change or replace a file; the message has the command that prevents it."""


class ConfigError(PauseError, ValueError):
    """A configuration file or override cannot be used; the message names the key and the nearest known key."""


class UserCodeError(PauseError, RuntimeError):
    """The user's own code, such as a policy, failed; the message names its file and line."""


class WorkerError(PauseError, RuntimeError):
    """A training process failed or died; the run can be resumed from its last checkpoint."""


class MissingExtraError(PauseError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


def is_finite(value: object) -> bool:
    """Return whether a value is a finite real number that a float can hold; strings and booleans are not."""
    if type(value) is float:  # nearly all of them are, and asking Real takes four times as long
        return math.isfinite(value)
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # 10**400
        return False


def require(condition: bool, name: str, value: object, bound: str, remedy: str) -> None:
    """Raise :class:`InvalidValueError` with the house's one-line message unless ``condition`` holds."""
    if not condition:
        raise InvalidValueError(f"{name} is {shown(value)}, but must be {bound}; {remedy}")


def shown(value: object) -> str:
    """Return the text of a value for a message: its repr on one line, and only the start of a long one.

    >>> shown("a"), len(shown({client: 0.5 for client in range(100_000)})) <= 200
    ("'a'", True)
    """
    if isinstance(value, (str, bytes)):
        text = repr(value[:_SHOWN])
    elif isinstance(value, (dict, list, tuple, set, frozenset)) and len(value) > _FEW:
        text = reprlib.repr(value)  # the whole repr of a million clients takes seconds
    else:
        text = repr(value)
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "check the spelling") -> str:
    """Return the end of an error about an unknown name: the nearest known name, or what to do if there is none.

    >>> did_you_mean("Fashion_MNIST", ["mnist", "fashion-mnist"])
    "did you mean 'fashion-mnist'?"
    """
    close = get_close_matches(name.lower().replace("_", "-"), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise
