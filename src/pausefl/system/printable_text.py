"""Text that others wrote, for a terminal or a spreadsheet: one line of letters that are shown and not obeyed."""

from __future__ import annotations

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""With these a formula begins, also as the wide letters of East Asian keyboards."""


def printable(text: str) -> str:
    """Return text that others wrote as one line that a terminal shows and does not obey.

    >>> printable("clinic\\x1b[2J\\nspent 0")
    'clinic [2J spent 0'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)


def spreadsheet_cell(value: Any) -> Any:
    """Return a value for a cell of CSV: a text that a spreadsheet would compute begins with an apostrophe.

    Numbers stay what they are, negative ones too.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("\\t-a"), spreadsheet_cell("a-b"), spreadsheet_cell(-1.5)
    ("'=1+1", "' -a", 'a-b', -1.5)
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
