"""Records from a table: all rows of one person become one line, in a form that no other person can change."""

from __future__ import annotations

import csv
import json
import os
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from pausefl.errors import ConfigError, require
from pausefl.owner.data_records import MOST_BYTES
from pausefl.owner.table_cells import Cell, MissingWords, as_number, cell_value, measured, names_nobody, person_key
from pausefl.owner.table_encoding import encoding_of, require_encoding
from pausefl.system.printable_text import printable
from pausefl.system.private_file import write_private

_SHOWN = 60
"""Letters of a cell that an error shows."""
_DELIMITERS = {"tab": "\t", r"\t": "\t"}


@dataclass(frozen=True, slots=True)
class Written:
    """How many records were written, and what an owner should look at."""

    records: int
    warnings: tuple[str, ...]


def write_records(
    table: Path, out: Path, *, person: str, columns: Sequence[str], text: Sequence[str] = (),
    missing: Sequence[str] = (), delimiter: str = ",", decimal: str = ".", encoding: str = "utf-8",
    replace: bool = False,
) -> Written:  # fmt: skip
    r"""Write a record for each person of a table, a line for each.

    The table is a CSV file with titles in its first line, in one ``encoding``.  A line of the new file is a JSON list
    with an object for each row of one ``person``, ordered by the columns.  The name of the person is left out.  An
    empty cell is null, and so is one of the ``missing`` words.

    Law: a line depends on what the rows of its own person say in the named columns, and on nothing else: not on other
    rows, not on the order of rows or columns, and not on the form in which a program writes a whole column.  So
    ``71.0`` and ``071`` become 71, and a midnight is left off its date.  A cell that is no number, no ISO date or time
    and no true or false is refused, because nothing tells which form it had.  Columns in ``text`` are copied as they
    are, but for blanks around them: there the law holds if no program between their source and this table guessed what
    they hold, or in which encoding.  The options are part of the form of all lines, so they are kept beside the file,
    and ``replace`` takes no others.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table, out = Path(folder, "visits.csv"), Path(folder, "records.jsonl")
    ...     _ = table.write_text("who,day,dose\na,2026-04-01 00:00:00,0.50\nb,2026-03-01,\na,2026-03-01,2.0\n")
    ...     write_records(table, out, person="who", columns=["day", "dose"]).records
    ...     print(out.read_text(), end="")
    2
    [{"day":"2026-03-01","dose":2},{"day":"2026-04-01","dose":0.5}]
    [{"day":"2026-03-01","dose":null}]
    """
    delimiter, encoding = _DELIMITERS.get(delimiter, delimiter), encoding_of(encoding)
    _check_form(person, columns, text, delimiter, decimal)
    empty = MissingWords(missing, decimal)
    form = {
        "person": person, "columns": [*columns], "text": sorted(text), "missing": empty.values, "decimal": decimal,
        "encoding": encoding,
    }  # fmt: skip
    _check_paths(table, out, form, replace=replace)
    try:
        require_encoding(table, encoding)
        with table.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="\n") as file, _long_cells():
            rows = _rows(file, table, delimiter, person, columns, empty)
            persons = _by_person(rows, table, person, frozenset(text), empty, decimal)
    except OSError as error:
        raise ConfigError(f"the table {table} cannot be read ({error.strerror}); check the path") from None
    require(bool(persons), "rows of the table", 0, "1 or more", f"check {table}")
    _refuse_two_forms(persons, table, person)
    lines = "".join(map(_line, persons.values()))
    try:
        write_private(_form_file(out), json.dumps(form, indent=1) + "\n")
        write_private(out, lines)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); free space, or pass another --out") from None
    return Written(len(persons), tuple(_alike(persons, person)))


def _check_form(person: str, columns: Sequence[str], text: Sequence[str], delimiter: str, decimal: str) -> None:
    fine = len(delimiter) == 1 and not delimiter.isalnum() and delimiter not in '"\r\n '
    require(fine, "delimiter", delimiter, "one character such as , or ;, or 'tab'", "name what is between the cells")
    require(decimal in (".", ","), "decimal", decimal, ". or ,", "name what is before the digits of a fraction")
    if decimal == delimiter:
        raise ConfigError(f"delimiter and decimal are both {decimal!r}; pass the delimiter, too, for example ';'")
    require(bool(columns), "columns", 0, "1 or more", "name what shall be in a record")
    if person in columns:
        raise ConfigError(f"columns has {person!r}, but it names the person, and is left out; leave it out of columns")
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ConfigError(f"columns has {twice[0]!r} twice; name each column once")
    if other := [name for name in text if name not in (person, *columns)]:
        raise ConfigError(f"text has {other[0]!r}, which is none of the columns; check how it is written")


def _check_paths(table: Path, out: Path, form: dict[str, Any], *, replace: bool) -> None:
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"the folder {out.absolute().parent} does not exist; make it, or pass another --out")
    if out.is_dir():
        raise ConfigError(f"{out} is a folder; pass the path of a file as --out")
    before, new = _form_file(out), not os.path.lexists(out)
    if new and not os.path.lexists(before):
        return
    if not new and not replace:
        raise ConfigError(f"{out} exists; pass --replace to write over it, or another --out")
    try:
        known = json.loads(before.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigError(
            f"{before if new else out} was not written by this command, or {before} is lost; it is not written over; "
            "pass another --out, and the same options as ever"
        ) from None
    for name, value in form.items():
        if not isinstance(known, dict) or known.get(name) != value:
            raise ConfigError(
                f"{name} is {value!r}, but {before} has another {name} for {out}, and another form changes the "
                f"lines of all persons; pass the same; if the new form was agreed before anybody saw the new cells, "
                f"first remove {before} and {out}"
            )


def _form_file(out: Path) -> Path:
    """Return where the options are kept by which a file was written."""
    return out.with_name(f"{out.name}.form")


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let a cell be as long as a record may be."""
    before = csv.field_size_limit(MOST_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _rows(
    lines: Iterable[str], table: Path, delimiter: str, person: str, columns: Sequence[str], missing: MissingWords
) -> Iterator[tuple[int, dict[str, str]]]:
    """Return the line of each row, and its named cells.

    A row is one line: otherwise a quote that is not closed would take the rows of other persons with it.
    """
    titles: list[str] = []
    for line, text in enumerate(lines, start=1):
        try:
            row = next(csv.reader([text.removesuffix("\n").removesuffix("\r")], delimiter=delimiter, strict=True), [])
        except csv.Error as error:
            raise ConfigError(
                f"the table {table}, line {line}, is no row of CSV ({error}); write each row in one line, with a blank "
                'for each line break in a text, and each quote (") inside of a text twice'
            ) from None
        if line == 1:
            titles = _titles(row, table, (person, *columns))
        elif row and len(row) != len(titles):
            raise ConfigError(
                f"the table {table}, line {line}, has {len(row)} cells, but must have {len(titles)}, as many "
                'as titles; check the delimiter, and write texts with a delimiter in quotes (")'
            )
        elif row:
            cells = dict(zip(titles, row, strict=True))
            if names_nobody(named := cells[person].strip()) or missing.stands_for(named):
                what = (
                    f"has {named!r} in {person!r}, which names nobody" if named else f"has an empty cell in {person!r}"
                )
                raise ConfigError(
                    f"the table {table}, line {line}, {what}; say whose row it is, or leave it out if it is nobody's"
                )
            yield line, {name: cells[name] for name in (person, *columns)}
    if not titles:
        _titles([], table, (person, *columns))


def _titles(row: Sequence[str], table: Path, needed: Sequence[str]) -> list[str]:
    titles = [title.strip() for title in row]
    if titles and titles[0].startswith("sep="):
        raise ConfigError(f"the first line of {table} is for Excel only (sep=); remove it")
    for name in needed:
        if titles.count(name) > 1:
            raise ConfigError(f"the table {table} has {titles.count(name)} columns {name!r}; give each its own title")
        if name not in titles:
            between = [sign for sign in (";", "\t", "|", ",") if len(titles) == 1 and sign in titles[0]]
            shown = ["tab" if sign == "\t" else shlex.quote(sign) for sign in between]
            todo = f"pass --delimiter {shown[0]}" if shown else "check how it is written"
            raise ConfigError(
                f"the table {table} has no column {name!r}; {todo}; its titles are "
                + ", ".join(repr(printable(title)) for title in titles)[:300]
            )
    return titles


def _by_person(
    rows: Iterable[tuple[int, dict[str, str]]], table: Path, person: str, text: frozenset[str], missing: MissingWords,
    decimal: str,
) -> dict[Decimal | str, list[dict[str, Cell]]]:  # fmt: skip
    found: dict[Decimal | str, list[dict[str, Cell]]] = {}
    spelled: dict[Decimal | str, str] = {}
    for line, row in rows:
        name = person
        try:
            named = row[person].strip() if person in text else person_key(row[person], decimal)
            plain: dict[str, Cell] = {}
            for name in row.keys() - {person}:
                plain[name] = (
                    row[name].strip() if name in text else
                    None if missing.stands_for(row[name]) else cell_value(row[name], decimal)
                )  # fmt: skip
        except ValueError as error:
            cell = row[name].strip()
            # Never --text for a cell: whoever passes it because of one person changes the lines of all others.
            todo = "correct it at its source"
            if name == person:
                todo = f"write the table anew from its source; if all names are codes, pass --text {shlex.quote(name)}"
            elif cell.isascii() and cell.isprintable() and len(cell) <= _SHOWN and not measured(cell):
                todo += f", or pass --missing {shlex.quote(cell)} if it stands for an empty cell"
            raise ConfigError(
                f"the table {table}, line {line}, has {cell[:_SHOWN]!a} in {name!r}; {error}; {todo}"
            ) from None
        other, own = spelled.setdefault(named, row[person].strip()), row[person].strip()
        if other != own and "e" in f"{other}{own}".lower():  # a code such as 1E2 beside 100 may name somebody else
            _refuse_two_names(other, own, table, person)
        found.setdefault(named, []).append({name: plain[name] for name in row if name != person})
    return found


def _refuse_two_forms(persons: Iterable[Decimal | str], table: Path, person: str) -> None:
    """Refuse names that are one number in two forms: else it would depend on the options whether they are one."""
    seen: dict[Decimal | str, str] = {}
    for name in map(str, persons):
        if (other := seen.setdefault(as_number(name), name)) != name:
            _refuse_two_names(other, name, table, person)


def _refuse_two_names(one: str, other: str, table: Path, person: str) -> NoReturn:
    raise ConfigError(
        f"the table {table} has {one!a} and {other!a} in {person!r}, which may be one person in two forms; write each "
        "name in one way"
    )


def _alike(persons: Iterable[Decimal | str], person: str) -> Iterable[str]:
    """Name persons who may be one: their names differ only in case, in blanks or in how their letters are stored."""
    seen: dict[str, str] = {}
    for name in map(str, persons):
        folded = unicodedata.normalize("NFKC", name).casefold()
        plain = "".join(letter for letter in folded if letter.isprintable() and not letter.isspace())
        if (other := seen.setdefault(plain, name)) != name:
            yield (
                f"{other!a} and {name!a} in {person!r} may be one person, who has two records then; write each name "
                "in one way"
            )
            return


def _line(rows: list[dict[str, Cell]]) -> str:
    rows.sort(key=lambda row: [_place(cell) for cell in row.values()])
    line = json.dumps(rows, separators=(",", ":"), allow_nan=False) + "\n"
    require(len(line) <= MOST_BYTES, "bytes of a record", len(line), f"at most {MOST_BYTES}", "shorten its texts")
    return line


def _place(cell: Cell) -> tuple[int, Cell]:
    """Put empty cells first, then true and false, then numbers, then texts."""
    if cell is None:
        return 0, 0
    return 1 if isinstance(cell, bool) else 3 if isinstance(cell, str) else 2, cell
