"""What others wrote, in the owner's log and terminal: one line each, of letters that are shown and not obeyed."""

from __future__ import annotations

import logging

_MOST = 1000


def printable(text: str) -> str:
    """Return text that others wrote as one line that a terminal shows and does not obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def clean_log() -> None:
    """Let this process log clean lines only, of bounded length: apps and servers choose names, and texts of errors."""
    for handler in logging.getLogger("flwr").handlers:
        handler.addFilter(_clean)


def _clean(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text += f" ({type(error).__name__}: {error})"
    record.msg, record.args = printable(text[:_MOST]), ()
    record.exc_info = record.exc_text = record.stack_info = None
    return True
