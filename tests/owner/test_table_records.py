"""Records from a table: a line for each person, which no other person can change."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.cli import main
from pausefl.errors import ConfigError, PauseError
from pausefl.owner.data_records import count_records
from pausefl.owner.table_records import write_records

COLUMNS = ("age", "dose", "day", "seen", "note", "code")
VISITS: list[dict[str, Any]] = [
    {"who": 1, "age": 71, "dose": 2.0, "day": "2026-03-01", "seen": "2026-03-01 10:30:00", "note": "well", "code": "7"},
    {
        "who": 2,
        "age": 64,
        "dose": 1.0,
        "day": "2026-03-02",
        "seen": "2026-03-02 11:00:00",
        "note": 'a "b", c',
        "code": "8",
    },
    {"who": 1, "age": 72, "dose": 3.0, "day": "2026-04-01", "seen": "2026-04-01 09:00:00", "note": "", "code": "9"},
    {
        "who": 3,
        "age": 50,
        "dose": 4.0,
        "day": "2026-05-01",
        "seen": "2026-05-01 00:00:00",
        "note": "two\u2028lines",
        "code": "1",
    },
]
"""Visits of three persons.  The dose and the day are written in another way if one visit has a fraction or a time."""


def table_of(rows: list[dict[str, Any]], path: Path, **form: Any) -> Path:
    """Write a table as pandas does."""
    frame = pd.DataFrame(rows)
    for name in ("day", "seen"):
        frame[name] = pd.to_datetime(frame[name], format="ISO8601")
    frame.to_csv(path, index=False, **form)
    return path


def lines_of(rows: list[dict[str, Any]], folder: Path, **form: Any) -> list[str]:
    """Return the records of a table, each as it is in the file, ordered by person."""
    out = folder / "records"
    given_form = {"delimiter": form.get("sep", ","), "decimal": form.get("decimal", ".")}
    table = table_of(rows, folder / "table", **form)
    write_records(table, out, person="who", columns=COLUMNS, text=["note"], replace=True, **given_form)
    places = list(dict.fromkeys(row["who"] for row in rows))
    lines = dict(zip(places, out.read_text().splitlines(), strict=True))
    return [lines[who] for who in sorted(lines)]


CELLS = {
    "age": st.one_of(st.none(), st.integers(0, 10**12), st.floats(0, 1e6, allow_nan=False)),
    "dose": st.one_of(st.none(), st.floats(-1e300, 1e300), st.just(0.1 + 0.2), st.booleans()),
    "day": st.one_of(st.none(), st.datetimes(pd.Timestamp("1970-01-01"), pd.Timestamp("2100-01-01")).map(str)),
    "seen": st.one_of(
        st.none(), st.sampled_from(["2026-01-01", "2026-01-01 10:00:00.25", "2026-01-01 10:00:00.000000001"])
    ),
    "note": st.one_of(st.none(), st.text(max_size=6).map(lambda text: text.replace("\r", "").replace("\n", ""))),
    "code": st.one_of(st.none(), st.integers(-(10**17), 10**17).map(str)),
}


@settings(max_examples=200, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=4), place=st.integers(0, 4))
def test_one_person_changes_no_line_of_another(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], place: int
) -> None:
    """Law: whatever one person's rows say, and however many they are, the lines of all others have the same bytes."""
    folder = tmp_path_factory.mktemp("law")
    before = lines_of(VISITS, folder)
    others = [row for row in VISITS if row["who"] != 3]
    theirs = [{"who": 3} | row for row in rows]
    after = lines_of([*others[:place], *theirs, *others[place:]], folder)
    assert after[:2] == before[:2] and len(after) == 3


@pytest.mark.parametrize(
    ("row", "column"),
    [({"dose": None}, "dose"), ({"age": None}, "age"), ({"day": "2026-05-01 12:00:00"}, "day"),
     ({"seen": "2026-05-01 00:00:00.5"}, "seen")],
)  # fmt: skip
def test_the_tables_of_these_tests_do_change_in_all_lines(tmp_path: Path, row: dict[str, Any], column: str) -> None:
    """Or else the law above would say nothing of the form of a column."""
    visits = VISITS if column != "age" else [*VISITS[:3], VISITS[3] | {"age": 50}]
    changed = [*visits[:3], visits[3] | row]
    if column == "dose":
        visits = [row | {"dose": int(row["dose"])} for row in visits]
        changed = [*visits[:3], visits[3] | {"dose": None}]
    before = table_of(visits, tmp_path / "before").read_text().splitlines()
    after = table_of(changed, tmp_path / "after").read_text().splitlines()
    assert all(one != other for one, other in zip(before[1:4], after[1:4], strict=True))
    assert lines_of(visits, tmp_path)[:2] == lines_of(changed, tmp_path)[:2]


def test_the_order_of_rows_and_columns_and_the_form_of_the_table_change_no_line(tmp_path: Path) -> None:
    expected = lines_of(VISITS, tmp_path)
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows = [VISITS[place] for place in rng.permutation(len(VISITS))]
        names = list(rng.permutation([*VISITS[0]]))
        assert lines_of([{name: row[name] for name in names} for row in rows], tmp_path) == expected
    (tmp_path / "other").mkdir()
    assert lines_of(VISITS, tmp_path / "other", sep=";", decimal=",") == expected
    assert lines_of(VISITS, tmp_path, lineterminator="\r\n", encoding="utf-8-sig", quoting=1) == expected


def test_a_line_says_what_the_rows_of_a_person_say(tmp_path: Path) -> None:
    records = [json.loads(line) for line in lines_of(VISITS, tmp_path)]
    assert records[0] == [
        {"age": 71, "dose": 2, "day": "2026-03-01", "seen": "2026-03-01 10:30:00", "note": "well", "code": 7},
        {"age": 72, "dose": 3, "day": "2026-04-01", "seen": "2026-04-01 09:00:00", "note": "", "code": 9},
    ]
    assert records[2][0]["note"] == "two\u2028lines" and records[2][0]["seen"] == "2026-05-01"
    assert count_records(tmp_path / "records") == 3, "a line break inside a text begins no record"
    assert (tmp_path / "records").stat().st_mode & 0o777 == 0o600


def test_text_is_copied_and_equal_names_of_persons_are_one_person(tmp_path: Path) -> None:
    table, out = tmp_path / "table", tmp_path / "records"
    table.write_text("who,code\n007,01.0\n7,2\n7.0,3\nb ,3\nb,4\n12345678901234567,5\n12345678901234568,6\n")
    assert write_records(table, out, person="who", columns=["code"], text=["code"]).records == 4
    assert json.loads(out.read_text().splitlines()[0]) == [{"code": "01.0"}, {"code": "2"}, {"code": "3"}]
    out = tmp_path / "others"
    for other in ("7.0", "7,0", "7.", "+7", "7e0", "0007.00", "70e-1"):
        table.write_text(f'who,code\n7,2\n"{other}",3\n')
        with pytest.raises(ConfigError, match="in 'who', which may be one person in two forms") as refused:
            write_records(table, out, person="who", columns=["code"], text=["who"])
        assert f"has '7' and '{other}'" in str(refused.value)
    table.write_text("who,code\n7,1.0\n7,2\n7,3\nb ,3\nb,4\n12345678901234567,5\n12345678901234568,6\n71E20,7\n")
    assert write_records(table, out, person="who", columns=["code"], text=["who"]).records == 5


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("who,age\n1,2,3\n", {}, "line 2, has 3 cells, but must have 2, as many as titles"),
        ("who,age\n1,2\n ,3\n", {}, "line 3, has an empty cell in 'who'; say whose row it is"),
        ("who,größe\n1,2\n", {}, "has no column 'age'; check how it is written; its titles are 'who', 'größe'"),
        ("who;age\n1;2\n", {}, "has no column 'who'; pass --delimiter ';'; its titles are 'who;age'"),
        ("who\tage\n1\t2\n", {}, "pass --delimiter tab"),
        ("sep=;\nwho;age\n1;2\n", {"delimiter": ";"}, "is for Excel only (sep=); remove it"),
        ("who,age,age\n1,2,3\n", {}, "has 2 columns 'age'; give each its own title"),
        ("who,age\n", {}, "rows of the table"),
        ("", {}, "has no column 'who'"),
        (
            'who,age\n1,2\n1,"2\n3,4\n',
            {},
            "line 3, is no row of CSV (unexpected end of data); write each row in one line",
        ),
        ('who,age\n1,"2\n3",4\n', {}, "line 2, is no row of CSV"),
        ("who,age\n1,2\r3,4\n", {}, "line 2, is no row of CSV"),
        ("who,age\n1,2\nNA,3\n", {}, "line 3, has 'NA' in 'who', which names nobody; say whose row it is"),
        ("who,age\n1,2\n1e-99999999999999999999,3\n", {}, "its exponent is too large"),
        ("who,age\n1,2\n", {"columns": []}, "columns is 0, but must be 1 or more"),
        ("who,age\n1,2\n", {"columns": ["age", "age"]}, "columns has 'age' twice"),
        ("who,age\n1,2\n", {"columns": ["age", "who"]}, "it names the person, and is left out"),
        ("who,age\n1,2\n", {"text": ["old"]}, "text has 'old', which is none of the columns"),
        ("who,age\n1,2\n", {"delimiter": "ab"}, "delimiter"),
        ("who,age\n1,2\n", {"delimiter": ";", "decimal": ";"}, "decimal"),
        ("who,age\n1,2\n", {"decimal": ","}, "delimiter and decimal are both ','; pass the delimiter, too"),
        ("who,age\n1,2\n", {"out": "missing/out"}, "does not exist; make it, or pass another --out"),
        ("who,age\n1,2\n", {"out": ".", "replace": True}, "is a folder; pass the path of a file"),
        ("who,age\n1,2\n", {"out": "table", "replace": True}, "was not written by this command"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path: Path, text: str, options: dict[str, Any], said: str) -> None:
    (tmp_path / "table").write_text(text)
    call = {"person": "who", "columns": ["age"]} | options
    with pytest.raises(PauseError) as refused:
        write_records(tmp_path / "table", tmp_path / call.pop("out", "out"), **call)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists() and (tmp_path / "table").read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("cell", "decimal"),
    [
        ("71,0", "."),
        ("1,234", "."),
        ("1,234.5", "."),
        ("71.0", ","),
        ("1.234,5", ","),
        ("1.234", ","),
        ("-1 234 567", "."),
    ],
)
def test_a_number_in_another_form_is_refused_and_not_taken_for_text(tmp_path: Path, cell: str, decimal: str) -> None:
    """As a text, it would keep the form that a program chose for the whole column."""
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_text(f"who;age\n1;5\n2;{cell}\n")
    form = {"person": "who", "columns": ["age"], "delimiter": ";", "decimal": decimal}
    with pytest.raises(ConfigError, match=f"line 3, has '{cell}' in 'age'; write numbers with ") as refused:
        write_records(table, out, **form)  # type: ignore[arg-type]
    # A number of another form is never offered as a word that stands for nothing.
    assert "--missing" not in str(refused.value)
    if cell in ("71,0", "1,234", "71.0", "1.234"):
        with pytest.raises(PauseError, match=f"missing is '{cell}', but must be a number with '{decimal}'"):
            write_records(table, out, missing=[cell], **form)  # type: ignore[arg-type]
    write_records(table, out, text=["age"], **form)  # type: ignore[arg-type]
    assert json.loads(out.read_text().splitlines()[1]) == [{"age": cell}]


@pytest.mark.parametrize(
    ("cell", "read"),
    [("2026-03-01T00:00:00.000", "2026-03-01"), ("2026-03-01 10:00", "2026-03-01 10:00:00"), ("10:30", "10:30:00"),
     ("2026-03-01T10:00:00.50", "2026-03-01 10:00:00.5"), ("2026-03-01 10:00:00,5Z", "2026-03-01 10:00:00.5+00:00"),
     ("2026-03-01 00:00:00+0200", "2026-03-01 00:00:00+02:00"), ("2026-03-01 10:00:00.000", "2026-03-01 10:00:00"),
     ("1 days 00:00:00", "1 days"), ("-1 days +23:59:59", "-1 days 23:59:59"), ("12:30:00.100", "12:30:00.1"),
     ("7.1e1", 71), ("-0.0", 0), (".5", 0.5), ("12345678901234567", 1.23456789012346e16), ("071", 71),
     ("True", True), ("FALSE", False), ("NaN", None), ("<NA>", None), ("", None)],
)  # fmt: skip
def test_a_cell_is_written_in_one_way(tmp_path: Path, cell: str, read: object) -> None:
    (tmp_path / "table").write_text(f'who,x\n1," {cell} "\n')
    write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"])
    assert json.loads((tmp_path / "out").read_text()) == [{"x": read}]


@pytest.mark.parametrize(
    "cell",
    ["<5", "well", "03.07.2025", "03/15/2026", "1e999", "120.0/80", "F", "yes", "1_000", "0x1f", "Infinity", "\u0664"],
)
def test_a_cell_whose_form_is_not_known_is_refused(tmp_path: Path, cell: str) -> None:
    """A program that guesses what a column holds may have written all of it in another way because of one cell."""
    (tmp_path / "table").write_text(f"who,x\n1,5\n2,{cell}\n")
    with pytest.raises(ConfigError, match=r"line 3, has '.*' in 'x'; .*; correct it at its source"):
        write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"])
    assert write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"], text=["x"]).records == 2


@pytest.mark.parametrize("odd", [None, "<5", "unknown", "2026-03-01"])
def test_a_program_that_guesses_changes_no_line_or_is_refused(tmp_path: Path, odd: str | None) -> None:
    """One patient's cell makes pandas read all others in another way, also if it was cleaned before writing."""
    raw = {"lab": "14,70", "smoker": "TRUE", "day": "2026-03-15", "seen": "2026-03-15T10:00:00", "score": "7"}
    for column, usual in raw.items():
        found = []
        for cell in (usual, odd):
            source = pd.DataFrame({"who": range(40), column: [usual] * 39 + [cell]})
            source.to_csv(tmp_path / "source", index=False, sep=";")
            read = pd.read_csv(tmp_path / "source", sep=";", decimal=",")
            if column in ("day", "seen"):
                with suppress(ValueError):
                    read[column] = pd.to_datetime(read[column])
            for cleaned in (False, True):
                if cleaned and read[column].dtype == object:
                    read[column] = read[column].where(read[column] != odd)
                read.to_csv(tmp_path / "table", index=False)
                try:
                    write_records(tmp_path / "table", tmp_path / column, person="who", columns=[column], replace=True)
                except ConfigError:
                    continue
                found.append((tmp_path / column).read_text().splitlines()[:39])
        assert found and all(lines == found[0] for lines in found), column


def test_words_that_stand_for_an_empty_cell_change_no_other_cell(tmp_path: Path) -> None:
    """Before, one patient's odd cell made the command ask for --text, and then the lines of all others changed."""
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_text("who,x\n1,1.0\n2,<5\n3,-9.0\n4,-9\n5,NA\n6,7\n")
    call: dict[str, Any] = {"person": "who", "columns": ["x"]}
    with pytest.raises(ConfigError) as refused:
        write_records(table, out, **call)
    assert "pass --missing '<5' if it stands for an empty cell" in str(refused.value)
    assert "--text" not in str(refused.value)
    write_records(table, out, missing=["<5"], **call)
    assert [json.loads(line)[0]["x"] for line in out.read_text().splitlines()] == [1, None, -9, -9, None, 7]
    table.write_text(table.read_text().replace("1,1.0", "a,1.0"))
    write_records(table, tmp_path / "b", missing=["<5", "-9", "1"], **call)
    assert [json.loads(line)[0]["x"] for line in (tmp_path / "b").read_text().splitlines()] == [None] * 5 + [7]


@pytest.mark.parametrize(
    ("other", "named"),
    [({"person": "x"}, "person"), ({"columns": ["y", "x"]}, "columns"), ({"text": ["x"]}, "text"),
     ({"missing": ["7"]}, "missing"), ({"decimal": ",", "delimiter": ";"}, "decimal")],
)  # fmt: skip
def test_a_file_is_written_again_in_the_same_form_only(tmp_path: Path, other: dict[str, Any], named: str) -> None:
    """One patient's odd cell must not make an owner write the lines of all others in another form."""
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_text("who,x,y\n1,1,2\n2,3,4\n")
    call: dict[str, Any] = {"person": "who", "columns": ["x", "y"]}
    write_records(table, out, **call)
    before = out.read_bytes()
    changed = call | other | ({"columns": ["y"]} if named == "person" else {})
    with pytest.raises(ConfigError, match=rf"{named} is .*, but .* has another {named} for .*; pass the same"):
        write_records(table, out, replace=True, **changed)
    assert out.read_bytes() == before
    write_records(table, out, replace=True, missing=["unknown"], **call)
    out.unlink()
    with pytest.raises(ConfigError, match=rf"{named} is .*, but .* has another {named} for"):
        write_records(table, out, **changed)
    write_records(table, out, **call)
    (tmp_path / "out.form").unlink()
    with pytest.raises(ConfigError, match=r"was not written by this command, or .* is lost"):
        write_records(table, out, replace=True, **call)


def test_a_file_that_is_called_like_a_form_is_not_written_over(tmp_path: Path) -> None:
    table, form = tmp_path / "table", tmp_path / "visits.form"
    table.write_text("who,x\n1,1\n")
    form.write_text("letters to patients")
    with pytest.raises(ConfigError, match=r"visits.form was not written by this command"):
        write_records(table, tmp_path / "visits", person="who", columns=["x"])
    assert form.read_text() == "letters to patients" and not (tmp_path / "visits").exists()


@pytest.mark.parametrize(
    "name", ["NA", "null", "None", ".", "-", "?", r"\N", "#REF!", "Unknown", "absent", "-9.0", "Total", "Gesamt"]
)
def test_a_row_that_names_nobody_is_refused(tmp_path: Path, name: str) -> None:
    """All such rows would be one person, and a patient would be in two records."""
    (tmp_path / "table").write_text(f"who,x\n1,2\n{name},3\n")
    with pytest.raises(ConfigError, match=r"line 3, has .*, which names nobody"):
        write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"], missing=["absent", "-9"])


def test_a_cell_that_cannot_be_shown_names_no_other_word(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("who,x\n1,1900-01-01\u200b\n")
    with pytest.raises(ConfigError) as refused:
        write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"])
    assert r"1900-01-01\u200b" in str(refused.value) and "--missing" not in str(refused.value)


def test_a_quote_that_is_not_closed_takes_no_row_of_others(tmp_path: Path) -> None:
    """The notes of other patients lay between: 253 right of 300."""
    table = tmp_path / "table"
    table.write_text('who,note,x\n1,"cut,1\n2,well,2\n3,cut of 1",3\n')
    with pytest.raises(ConfigError, match=r"line 2, is no row of CSV"):
        write_records(table, tmp_path / "out", person="who", columns=["x"])


def test_a_cell_may_be_as_long_as_a_record(tmp_path: Path) -> None:
    (tmp_path / "table").write_text(f"who,x\n1,{'a' * 300_000}\n")
    write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"], text=["x"])
    assert len((tmp_path / "out").read_text()) > 300_000


def test_names_of_persons_are_compared_exactly_and_look_alikes_are_named(tmp_path: Path) -> None:
    table, call = tmp_path / "table", {"person": "who", "columns": ["x"], "replace": True}
    table.write_text("who,x\n1234567890123456,1\n1234567890123456,2\n1234567890123457,3\n-7.50,4\n-7.5,5\n")
    assert write_records(table, tmp_path / "out", **call).records == 3  # type: ignore[arg-type]
    for name in ("1234567890123456.0", "1.234567890123456e+15", "1e9999999"):
        table.write_text(f"who,x\n1234567890123456,1\n{name},2\n")
        with pytest.raises(ConfigError, match=r"has .1.*. in .who.; it may have lost its last digits; write the"):
            write_records(table, tmp_path / "out", **call)  # type: ignore[arg-type]
    for one, other in (("P-1", "p-1"), ("M\u00fcller", "Mu\u0308ller"), ("P 1", "P\u200b1"), ("\uff21", "A")):
        table.write_text(f"who,x\n{one},1\nQ-1,1\n{other},2\n")
        found = write_records(table, tmp_path / "out", **call)  # type: ignore[arg-type]
        assert found.records == 3 and "may be one person, who has two records then" in found.warnings[0]
    table.write_text("who,x\nP-1,1\nP-2,1\n")
    assert write_records(table, tmp_path / "out", **call).warnings == ()  # type: ignore[arg-type]


def test_rows_that_look_alike_have_one_order(tmp_path: Path) -> None:
    """True and 1 are equal for Python."""
    for cells in (("1", "TRUE", "", "0"), ("", "TRUE", "0", "1")):
        (tmp_path / "table").write_text("who,x\n" + "".join(f"a,{cell}\n" for cell in cells))
        write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"], replace=True)
        assert (tmp_path / "out").read_text() == '[{"x":null},{"x":true},{"x":0},{"x":1}]\n'


def test_odd_files_are_refused_and_nothing_is_written_over(tmp_path: Path) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    call = {"person": "who", "columns": ["age"]}
    with pytest.raises(ConfigError, match="cannot be read"):
        write_records(table, out, **call)  # type: ignore[arg-type]
    for content, said in (
        (b"who,age\n1,\xff\n", r"is not in UTF-8 \(see line 2\); ask in which encoding it was written, and pass it"),
        (b"who,age\n1,\xff\n2,\xc3\xa4\n", "line 2, is not in UTF-8, but others are; correct this line at its source"),
        ("who,age\n1,2\n".encode("utf-16"), "is in UTF-16; pass --encoding utf-16"),
        (b"PK\x03\x04\xff", "is an Excel file or another archive; save it"),
    ):
        table.write_bytes(content)
        with pytest.raises(ConfigError, match=said):
            write_records(table, out, **call)  # type: ignore[arg-type]
    table.write_text("who,age\n1,2\n")
    out.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="exists; pass --replace"):
        write_records(table, out, **call)  # type: ignore[arg-type]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("encoding", ["cp1252", "latin1", "utf-16", "UTF8"])
def test_a_table_is_read_in_the_encoding_that_is_named(tmp_path: Path, encoding: str) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes("who,note\n1,Öl\n2,plain\n".encode(encoding))
    call: dict[str, Any] = {"person": "who", "columns": ["note"], "text": ["note"]}
    write_records(table, out, encoding=encoding, **call)
    assert [json.loads(line)[0]["note"] for line in out.read_text().splitlines()] == ["Öl", "plain"]
    with pytest.raises(ConfigError, match=r"encoding is .*, but .* has another encoding"):
        write_records(table, out, encoding="cp850", replace=True, **call)


@pytest.mark.parametrize("day", ["08.01.2026", "13/02/2026", "2026/02/13", "8.1.26", "08.01.2026 10:00"])
def test_a_day_in_another_form_is_told_for_what_it_is(tmp_path: Path, day: str) -> None:
    """It was told to be a number, and to be one of those words that stand for nothing."""
    (tmp_path / "table").write_text(f"who;x\n1;{day}\n")
    with pytest.raises(ConfigError, match=r"it looks like a day; let the program .* like 2026-03-01") as refused:
        write_records(tmp_path / "table", tmp_path / "o", person="who", columns=["x"], delimiter=";", decimal=",")
    assert "--missing" not in str(refused.value)


def test_titles_may_begin_like_an_archive(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("PKZ,x\n1,1\n")
    assert write_records(tmp_path / "table", tmp_path / "out", person="PKZ", columns=["x"]).records == 1


@pytest.mark.parametrize("odd", [b"\x96", b"\xd6l", b""])
def test_one_odd_byte_never_makes_an_owner_read_all_others_in_another_way(tmp_path: Path, odd: bytes) -> None:
    """Told to save the table as UTF-8, an owner let a program guess, and 394 of 400 lines changed."""
    table = tmp_path / "table"
    call: dict[str, Any] = {"person": "who", "columns": ["note"], "text": ["note"]}
    table.write_bytes("who,note\n1,Öl\n".encode() + b"2," + odd + b"\n")
    with pytest.raises(ConfigError, match=r"line 2, is not in cp1252, or it is in UTF-8; correct this line"):
        write_records(table, tmp_path / "out", encoding="cp1252", **call)
    if odd:
        with pytest.raises(ConfigError, match=r"line 3, is not in UTF-8, but others are; .*; do not convert the table"):
            write_records(table, tmp_path / "out", **call)
    table.write_bytes("who,note\n1,Öl\n2,Ã¶\n".encode("cp1252"))  # which is also ö in UTF-8
    with pytest.raises(ConfigError, match="line 3, is not in cp1252, or it is in UTF-8"):
        write_records(table, tmp_path / "out", encoding="cp1252", **call)


@pytest.mark.parametrize("encoding", ["utf-7", "iso2022_jp", "hz", "nonsense", "rot13", "hex"])
def test_an_encoding_in_which_a_letter_depends_on_others_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "table").write_text("who,x\n1,1\n")
    with pytest.raises(PauseError, match=f"encoding is '{encoding}', but must be utf-8, utf-16, or one such as cp1252"):
        write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"], encoding=encoding)


def test_utf_16_without_its_mark_or_with_half_a_letter_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for content, said in (
        ("who,x\n1,1\n".encode("utf-16-le"), "its mark at the beginning is missing"),
        ("who,x\n1,1\n".encode("utf-16") + b"1", "is not in UTF-16"),
    ):
        table.write_bytes(content)
        with pytest.raises(ConfigError, match=said):
            write_records(table, tmp_path / "out", person="who", columns=["x"], encoding="utf-16")


def test_two_codes_that_are_one_number_are_not_joined_in_silence(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("who,x\n1E2,1\n10E1,2\n")
    with pytest.raises(ConfigError, match="has '1E2' and '10E1' in 'who', which may be one person in two forms"):
        write_records(tmp_path / "table", tmp_path / "out", person="who", columns=["x"])


def called(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code or 0


def test_the_command_writes_records_that_owner_init_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table_of(VISITS, tmp_path / "visits.csv")
    ask = [
        "owner",
        "records",
        "visits.csv",
        "--person",
        "who",
        "--columns",
        'age, dose,"code"',
        "--out",
        "patients.jsonl",
    ]
    assert called(ask) == 0
    assert "wrote patients.jsonl: 3 records, one in each line. Look at some of them." in capsys.readouterr().out
    assert called(["owner", "init", "clinic", "--name", "clinic-7", "--records-from", "patients.jsonl"]) == 0
    assert "WARNING" not in capsys.readouterr().out
    assert called(ask) == 2
    assert "patients.jsonl exists; pass --replace" in capsys.readouterr().err
    assert called([*ask, "--replace", "--missing", "8"]) == 2
    assert called([*ask, "--replace", "--missing", "unknown"]) == 0
    assert "as numbers, days, times, or true and false: age, dose, code; as text: none" in capsys.readouterr().out
    assert count_records(tmp_path / "patients.jsonl") == 3
