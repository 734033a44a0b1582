"""In which encoding a table is: one for all of it, named by the owner and never guessed."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from pausefl.errors import ConfigError, require

_KNOWN = re.compile(r"utf-(8|16)|cp\d+|iso8859-\d+|mac-\w+|koi8-\w")
"""Encodings in which no letter depends on the letters before it."""
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NO_GUESS = "do not convert the table with a program that guesses, because that changes the text of all persons"


def encoding_of(name: str) -> str:
    """Return the usual name of an encoding.

    >>> [encoding_of(name) for name in ("UTF8", "latin1", "windows-1252")]
    ['utf-8', 'iso8859-1', 'cp1252']
    """
    try:
        found = codecs.lookup(name).name.replace("_", "-")
    except LookupError:
        found = ""
    fine = _KNOWN.fullmatch(found) is not None
    require(fine, "encoding", name, "utf-8, utf-16, or one such as cp1252", "ask who wrote the table")
    return found


def require_encoding(table: Path, encoding: str) -> None:
    """Refuse a table that is not in this encoding, also if single lines are in another one.

    One odd byte of one person must not make an owner read the text of all others in another way.  So an error that
    names another encoding comes only if no line says that it is the wrong one; and a table in another encoding has no
    line that could be in UTF-8.
    """
    with table.open("rb") as file:
        begin = file.read(4)
        if begin == b"PK\x03\x04":
            raise ConfigError(f"the table {table} is an Excel file or another archive; save it as CSV in UTF-8")
        if encoding == "utf-16" or begin[:2] in _WIDE:
            _require_utf_16(table, begin, encoding)
            return
        file.seek(0)
        first, others = 0, False
        for number, line in enumerate(file, start=1):
            if not line.isascii():
                in_utf_8 = _fits(line, "utf-8")
                fine = in_utf_8 if encoding == "utf-8" else not in_utf_8 and _fits(line, encoding)
                first, others = first if fine else first or number, others or fine
    if not first:
        return
    if encoding != "utf-8":
        raise ConfigError(
            f"the table {table}, line {first}, is not in {encoding}, or it is in UTF-8; correct this line at its "
            f"source, or pass the encoding of the whole table; {_NO_GUESS}"
        )
    if others:
        raise ConfigError(
            f"the table {table}, line {first}, is not in UTF-8, but others are; correct this line at its source; "
            f"{_NO_GUESS}"
        )
    raise ConfigError(
        f"the table {table} is not in UTF-8 (see line {first}); ask in which encoding it was written, and pass it, for "
        f"example --encoding cp1252; {_NO_GUESS}"
    )


def _fits(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _require_utf_16(table: Path, begin: bytes, encoding: str) -> None:
    if encoding != "utf-16":
        raise ConfigError(f"the table {table} is in UTF-16; pass --encoding utf-16")
    if begin[:2] not in _WIDE:
        raise ConfigError(f"the table {table} is not in UTF-16, or its mark at the beginning is missing")
    try:
        with table.open(encoding="utf-16", newline="\n") as file:
            for _ in file:
                pass
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the table {table} is not in UTF-16 ({error.reason}); let the program that writes it write it anew"
        ) from None
