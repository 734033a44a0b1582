"""Text that others wrote, for a terminal: one line of letters that are shown and not obeyed."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text that others wrote as one line that a terminal shows and does not obey.

    >>> printable("clinic\\x1b[2J\\nspent 0")
    'clinic [2J spent 0'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)
