"""What may not be a record of its own: odd files and lines, and columns that one person may change for all others."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.owner.data_records import DataRecords, files_below
from pausefl.types import FloatArray

_LOOKED_AT, _CELLS, _LONGEST = 100_000, 2_000_000, 1 << 20
"""Lines that are looked at; cells of theirs; and bytes of a line whose cells are looked at."""
_FEW = 20
"""Numbers from which on a column can be seen to be computed from all of its values."""
_NUMBER, _WHOLE = (
    re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE),
    re.compile(r"-?\d+[.,]0"),
)
"""A number, and how programs write whole numbers if one of them is missing."""
_SCALES = (1000, 15, 31, 63, 100, 127, 255, 256, 1023, 1024, 4095, 4096, 65535, 65536)
"""Fixed numbers by which pictures and shares are divided."""
_NAMED, _NAME = 3, 60
"""Columns that are named, and letters of a name: one long name must not be written again for each of many cells."""
_OPEN = {b"{": b"}", b"[": b"]"}
_ESCAPED = re.compile(rb"\\.")
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_STRAY = re.compile(r"/[.#]|(~|\.bak|\.swp|\.tmp|\.orig|\.old|\.form|/Thumbs\.db|/desktop\.ini)$", re.IGNORECASE)
"""Paths of files that editors, shares and systems leave behind."""


def doubtful_records(path: Path) -> list[str]:
    """Return what may not be a record of its own: odd lines of a file, or odd files of a folder."""
    return _doubtful_files(path) if path.is_dir() else [*_doubtful_lines(path), *_doubtful_columns(path)]


def _doubtful_files(top: Path) -> list[str]:
    names, seen, twice = list(files_below(top)), set[tuple[int, int]](), 0
    for name in names:
        with suppress(OSError):
            about = (top / name).stat()
            twice += (about.st_dev, about.st_ino) in seen
            seen.add((about.st_dev, about.st_ino))
    odd = [name for name in names if _STRAY.search(f"/{name}")]
    found = []
    if odd:
        found.append(
            f"{top} has {len(odd)} files such as {odd[0]!a:.100}, which programs leave behind, and each counts "
            "as a record; remove them"
        )
    numbers = [int(stem) for name in names if (stem := Path(name).stem).isascii() and stem.isdigit() and len(stem) < 16]
    if len(numbers) == len(names) >= _FEW and _counts(np.array(numbers, dtype=float)):
        found.append(
            f"the names of the files in {top} seem to number them; if so, a record tells how many others are before "
            "it, so name each file by something of its own person"
        )
    if twice:
        found.append(f"{top} has {twice} files that are another file under a second name; remove one of the names")
    return found


def _lines(path: Path) -> Iterator[bytes]:
    with DataRecords(path) as records:
        for record in islice(records, _LOOKED_AT):
            yield b"0" if record is None else record.data


def _doubtful_lines(path: Path) -> list[str]:
    empty, open_quotes, open_lines, control, first = 0, 0, 0, 0, b""
    for number, line in enumerate(_lines(path)):
        first = first if number else line
        empty += not line.strip()
        control += _CONTROL.search(line) is not None
        open_quotes += _ESCAPED.sub(b"", line).count(b'"') % 2
        open_lines += line.endswith(b"\\") or _OPEN.get(line.strip()[:1], b"") not in line.strip()[-1:]
    found = []
    if empty:
        lines = "an empty line, which counts as a record; remove it if it belongs to nobody"
        many = f"{empty} empty lines, and each counts as a record; remove those that belong to nobody"
        found.append(f"{path} has {lines if empty == 1 else many}")
    if control:
        found.append(
            f"{path} has {control} lines with a control character, so it may not be plain text, and may be cut in "
            "wrong places; correct each such line by itself, because to convert the file may change all others"
        )
    if open_quotes:
        found.append(
            f'{path} has {open_quotes} lines with an odd number of quotes ("), so a record may go on in the next line; '
            "write each record in one line"
        )
    if open_lines:
        found.append(
            f"{path} has {open_lines} lines that end in a backslash, or begin with a bracket that is not closed, so "
            "a record may go on in the next line; write each record in one line"
        )
    if first.strip()[:1] not in _OPEN and first.strip() and not any(chr(one) in "0123456789" for one in first):
        found.append(
            f"the first line of {path} has no digit, and counts as a record; remove it if it holds titles, or write "
            "the file with 'pausefl owner records'"
        )
    return found


def _doubtful_columns(path: Path) -> list[str]:
    """Return which columns look as if one person's value could change those of all others."""
    columns: dict[str, array[float]] = {}
    written, broken, cells = dict[str, None](), set[str](), 0
    for line in _lines(path):
        for name, text in _cells(line):
            cells += 1
            if _NUMBER.fullmatch(text := text.replace(",", ".") if _WHOLE.fullmatch(text) else text):
                columns.setdefault(name, array("d")).append(float(text))
                written.setdefault(name) if _WHOLE.fullmatch(text) else broken.add(name)
            elif text:
                broken.add(name)
        if cells > _CELLS:
            break
    found = []
    if odd := [name for name in written if name not in broken]:
        found.append(
            f"all lines of {path} have numbers with .0 in {_named(odd)}; some programs write whole numbers so if one "
            "is missing, and then one record changes all lines; take the table straight from its source, and write "
            "the file with 'pausefl owner records'"
        )
    for test, seen, todo in _TESTS:
        with np.errstate(all="ignore"):  # of numbers that are too large for a mean
            odd = [name for name, found_in in columns.items() if len(found_in) >= _FEW and test(np.array(found_in))]
        if odd:
            found.append(f"in {path}, {_named(odd)}: {seen}; {todo}")
    return found


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _cells(line: bytes) -> Iterator[tuple[str, str]]:
    """Return the name and the text of each cell of a line: of JSON its keys, of others what is between the signs."""
    if len(line) > _LONGEST:
        return
    if line.strip()[:1] in _OPEN:
        try:
            yield from _inside(json.loads(line, parse_float=str, parse_int=str, parse_constant=str), "")
            return
        except (ValueError, RecursionError):
            pass
    sign = ";" if b";" in line else ","
    for number, cell in enumerate(line.decode("ascii", "replace").split(sign), start=1):
        yield f"field {number}", cell.strip()


def _inside(found: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from _inside(value, (f"{name}.{key}" if name else str(key))[:_NAME])
    elif isinstance(found, list):
        for number, value in enumerate(found, start=1):
            yield from _inside(value, name if isinstance(value, Mapping) else f"{name or 'field'} {number}")
    else:
        yield ascii(name)[:_NAME], found if isinstance(found, str) else ""


def _counts(values: FloatArray) -> bool:
    """Whether each of the first whole numbers is there once, as in the first column of many exported tables."""
    ordered = np.sort(values)
    return bool(np.array_equal(ordered - ordered[0], np.arange(len(values))) and ordered[0] in (0.0, 1.0))


def _standardised(values: FloatArray) -> bool:
    """Whether the mean is 0 and the standard deviation 1: of numbers that nobody scaled, that is rare."""
    near = 1e-3 if len(values) < _LOOKED_AT // 2 else 1e-2
    return bool(abs(values.mean()) < near and min(abs(values.std(ddof=free) - 1.0) for free in (0, 1)) < near)


def _stretched(values: FloatArray) -> bool:
    """Whether the numbers go from 0 or -1 to 1 exactly, and were not divided by a usual fixed number."""
    if values.max() != 1.0 or values.min() not in (0.0, -1.0):
        return False
    return not any(
        np.allclose(values * scale, np.rint(values * scale), rtol=0.0, atol=1e-6 * scale) for scale in _SCALES
    )


_RAW = "if it was, each record depends on all: write what was measured, and let the app scale it by fixed numbers"
_TESTS: Sequence[tuple[Callable[[FloatArray], bool], str, str]] = (
    (
        _counts,
        "this seems to number the records",
        "leave it out, because a record then tells how many others are before it",
    ),
    (_standardised, "its mean is 0 and its standard deviation 1, as if it was scaled by those of all records", _RAW),
    (_stretched, "it goes from 0 or -1 to 1, as if it was scaled by the smallest and largest of all records", _RAW),
)
