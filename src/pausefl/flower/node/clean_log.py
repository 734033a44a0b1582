"""What others wrote, in the owner's log and terminal: one line each, of letters that are shown and not obeyed."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

from pausefl.system.printable_text import printable

_MOST = 1000


def clean_log() -> None:
    """Let this process log clean lines only, of bounded length: apps and servers choose names, and texts of errors.

    An error that nobody catches, in a thread of Flower's for instance, is a line, too; else Python would write its text
    as it is.  So it would what others log who have no handler.
    """
    for handler in (*logging.getLogger("flwr").handlers, logging.lastResort):
        if handler is not None:
            handler.addFilter(_clean)
    sys.excepthook = _uncaught
    threading.excepthook = lambda told: _uncaught(told.exc_type, told.exc_value, told.exc_traceback)


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if not issubclass(kind, SystemExit):  # as Python does it in a thread
        logging.getLogger("flwr").error("pausefl: not caught", exc_info=(kind, error or kind(), trace))


def _clean(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text += f" ({type(error).__name__}: {error})"
    record.msg, record.args = printable(text[:_MOST]), ()
    record.exc_info = record.exc_text = record.stack_info = None
    return True
