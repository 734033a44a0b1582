"""What a cell of a table says, in a form that the other cells of its column cannot change."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from pausefl.errors import require

Cell: TypeAlias = str | int | float | bool | None
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "<NA>", "NaT", "NULL", "null", "None"})
"""What programs write for a cell with nothing in it."""
_NOBODY = {word.lower() for word in MISSING} | {
    r"\n", ".", "-", "--", "?", "(null)", "[null]", "unknown", "missing",
    "#ref!", "#value!", "#name?", "#num!", "#div/0!", "#null!", "total", "totals", "subtotal", "grand total", "sum",
    "mean", "average", "all", "gesamt", "summe", "mittelwert", "somme", "moyenne",
}  # fmt: skip
"""What programs and people write where nobody is named, in any case."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_OTHER_NUMBER = re.compile(r"[+-]?[\d., '\u2019\u00a0\u202f]*\d(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d|-?\d+ days|)(?:(?:^|[T ])\+?(\d\d:\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_OTHER_DAY = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}\.?( .*)?", re.ASCII)
_TRUTH = {"true": True, "false": False}
_DIGITS = 15
"""Of a number: what survives in every program, also in one that keeps whole numbers as floats."""


def cell_value(cell: str, decimal: str) -> Cell:
    """Return what a cell says; a ValueError tells why it is none of the things that have one form only.

    >>> [cell_value(cell, ".") for cell in ("71.0", "2026-04-01T00:00:00", "10:30", "TRUE", "NA")]
    [71, '2026-04-01', '10:30:00', True, None]
    """
    cell = cell.strip()
    if cell in MISSING:
        return None
    if _NUMBER.fullmatch(point := _with_point(cell, decimal)):
        number = float(f"{float(point):.{_DIGITS}g}")
        if not math.isfinite(number):
            raise ValueError("it is too large for a number")
        return int(number) if number.is_integer() and abs(number) <= 10**_DIGITS else number
    if cell.lower() in _TRUTH:
        return _TRUTH[cell.lower()]
    if found := _MOMENT.fullmatch(cell):
        return _moment(*found.groups(""))
    if _OTHER_DAY.fullmatch(cell):
        raise ValueError("it looks like a day; let the program that writes the table write all days like 2026-03-01")
    if _OTHER_NUMBER.fullmatch(cell):
        raise ValueError(
            f"write numbers with {decimal!r} before the fraction (of a whole table it may be another, see --decimal), "
            "and with nothing between thousands"
        )
    raise ValueError("it is no number, no day or time such as 2026-03-01 10:30:00, no true or false, and not empty")


def names_nobody(cell: str) -> bool:
    """Whether a cell that should name a person is empty, or says so."""
    return cell.strip().lower() in _NOBODY


def person_key(cell: str, decimal: str) -> Decimal | str:
    """Return who is named; numbers are compared exactly, so 7 and 7.0 are one person."""
    cell = cell.strip()
    if not _NUMBER.fullmatch(point := _with_point(cell, decimal)):
        return cell
    digits = point.lstrip("+-0").partition(".")[0].lower().partition("e")[0]
    if not point.lstrip("+-").isdigit() and (len(digits) > _DIGITS or abs(float(point)) >= 10**_DIGITS):
        raise ValueError("it may have lost its last digits")
    try:
        return Decimal(point)
    except InvalidOperation:
        raise ValueError("its exponent is too large") from None


def as_number(name: str) -> Decimal | str:
    """Return the number that a name is, whatever sign is before its fraction; else the name.

    >>> as_number("007,0") == as_number("7e0"), as_number("P-7")
    (True, 'P-7')
    """
    point = name.replace(",", ".")
    with suppress(InvalidOperation):
        return Decimal(point) if _NUMBER.fullmatch(point) else name
    return name


def measured(cell: str) -> bool:
    """Whether a cell looks like a day or a number, in whatever form: then it does not stand for nothing."""
    return bool(_OTHER_DAY.fullmatch(cell) or _OTHER_NUMBER.fullmatch(cell))


class MissingWords:
    """The words that stand for an empty cell: numbers and days among them in every form, others as they are written.

    >>> words = MissingWords(["-9.0", "<5"], ".")
    >>> [words.stands_for(cell) for cell in ("-9", "<5", " <5 ", "9", "<50")]
    [True, True, True, False, False]
    """

    __slots__ = ("_decimal", "_values", "_words")

    def __init__(self, words: Iterable[str], decimal: str) -> None:
        self._decimal, self._words = decimal, frozenset(word.strip() for word in words)
        self._values = {found for word in self._words if (found := self._typed(word)) is not None}
        for word in self._words:  # as a word it would not be found in the other forms of this number
            odd = self._typed(word) is None and isinstance(as_number(word), Decimal)
            require(not odd, "missing", word, f"a number with {decimal!r}", "write it like the numbers of the table")

    @property
    def values(self) -> list[str]:
        """Those that mean something else without this: they change the lines of all who have them."""
        return sorted(repr(value) for _, value in self._values if value is not None)

    def stands_for(self, cell: str) -> bool:
        """Whether a cell is one of the words."""
        return cell.strip() in self._words or self._typed(cell) in self._values

    def _typed(self, cell: str) -> tuple[type, Cell] | None:
        with suppress(ValueError):
            return type(value := cell_value(cell, self._decimal)), value
        return None


def _with_point(cell: str, decimal: str) -> str:
    return cell if decimal == "." else cell.replace(".", "?").replace(decimal, ".")


def _moment(day: str, minute: str, second: str, fraction: str, zone: str) -> str:
    """Write a day, a time or both in one way: a midnight and zeros at the end of a fraction are left out."""
    if not minute:
        return day
    time = f"{minute}:{second or '00'}" + (f".{fraction}".rstrip("0.") if fraction.strip("0") else "")
    zone = "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[-2:]}" if zone else ""
    if day and time == "00:00:00" and not zone:
        return day
    return f"{day} {time}{zone}".strip()
