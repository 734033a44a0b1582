"""What may not be a record of its own, or depends on other records, is named; usual data is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pausefl.owner.doubtful_records import doubtful_records


def test_lines_that_may_be_no_records_of_their_own_are_named(tmp_path: Path) -> None:
    (tmp_path / "fine").write_bytes(b'71,"x, y"\n{"tall": "5\\" 9"}\nno digit here\n')
    assert doubtful_records(tmp_path / "fine") == [] == doubtful_records(tmp_path)
    (tmp_path / "odd").write_bytes(b'name,age\n1,"x\ny",3\n\n  \n')
    empty, quotes, titles = doubtful_records(tmp_path / "odd")
    assert "has 2 empty lines" in empty and "has 2 lines with an odd number of quotes" in quotes
    assert "has no digit, and counts as a record; remove it if it holds titles" in titles
    (tmp_path / "wide").write_text("1,Ċ\n2,b\n", encoding="utf-16")
    assert "lines with a control character, so it may not be plain text" in doubtful_records(tmp_path / "wide")[0]
    for text in (b'{"age": 7,\n"visits": 2}\n', b"[1,\n2]\n", b"1,two\\\nlines\n"):
        (tmp_path / "open").write_bytes(text)
        assert "1 lines that end in a backslash, or begin with a bracket" in doubtful_records(tmp_path / "open")[0]


def test_a_column_that_a_program_wrote_is_named(tmp_path: Path) -> None:
    """pandas writes 2.0 in all lines if the number of one patient is missing."""
    (tmp_path / "table").write_text("7,2.0,0.5\n8,,3.0\n9,4.0,1.5\n")
    [found] = doubtful_records(tmp_path / "table")
    assert "have numbers with .0 in field 2;" in found and "pausefl owner records" in found
    (tmp_path / "fine").write_text("7,2.0,0.5\n8,1.5,3.0\n9,,1.5\n")
    assert doubtful_records(tmp_path / "fine") == []
    (tmp_path / "german").write_text("7;2,0;0,5\n8;;3,0\n9;4,0;1,5\n")
    [found] = doubtful_records(tmp_path / "german")
    assert "have numbers with .0 in field 2;" in found
    (tmp_path / "json").write_text('[{"age":71.0,"stay":[2.5]}]\n[{"age":null,"stay":[]},{"age":3.0,"stay":[1]}]\n')
    [found] = doubtful_records(tmp_path / "json")
    assert "have numbers with .0 in 'age';" in found


def scaled(values: np.ndarray, how: str) -> np.ndarray:
    """Return values that were computed from all of them."""
    if how == "mean":
        return (values - values.mean()) / values.std()
    if how == "range":
        return (values - values.min()) / (values.max() - values.min())
    if how == "symmetric range":
        return (values - values.min()) / (values.max() - values.min()) * 2 - 1
    return np.argsort(np.argsort(values)) + 1


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("mean", "its mean is 0 and its standard deviation 1"),
        ("range", "it goes from 0 or -1 to 1"),
        ("symmetric range", "it goes from 0 or -1 to 1"),
        ("rank", "this seems to number the records"),
    ],
)
def test_a_column_that_is_computed_from_all_records_is_named(tmp_path: Path, form: str, how: str, said: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        raw = rng.gamma(2.0, 3.0, 300)
        computed = scaled(raw, how)
        for values, expected in ((raw, False), (computed, True)):
            with (tmp_path / "records").open("w") as file:
                for number, value in enumerate(values.tolist()):
                    fields = {"id": int(rng.integers(10**6)), "x": value, "text": f"on day {number}"}
                    file.write(json.dumps(fields) if form == "json" else ",".join(map(str, fields.values())))
                    file.write("\n")
            found = doubtful_records(tmp_path / "records")
            assert [said in warning for warning in found] == [True] * expected
            assert all(("'x'" if form == "json" else "field 2") in warning for warning in found)


@pytest.mark.parametrize("kind", ["shares", "grey levels", "zero or one", "constant", "few lines"])
def test_usual_columns_are_not_named(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(5)
    values = {
        "shares": rng.integers(0, 101, 400) / 100,
        "grey levels": rng.integers(0, 256, 4000) / 255,
        "zero or one": rng.integers(0, 2, 400),
        "constant": np.full(400, 7),
        "few lines": np.array([0.0, 0.123, 1.0]),
    }[kind]
    (tmp_path / "records").write_text("".join(f"{value}\n" for value in values.tolist()))
    assert doubtful_records(tmp_path / "records") == []


@pytest.mark.parametrize("name", [".p1.json.swp", "p1.json~", ".DS_Store", "Thumbs.db", "deep/#p1#", "p1.BAK"])
def test_files_that_programs_leave_behind_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "p1.json").write_bytes(b"1")
    assert doubtful_records(tmp_path) == []
    (tmp_path / name).touch()
    [found] = doubtful_records(tmp_path)
    assert f"has 1 files such as {name!r}" in found


def test_a_second_name_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "p1.json").write_bytes(b"1")
    (tmp_path / "p2.json").hardlink_to(tmp_path / "p1.json")
    assert "has 1 files that are another file under a second name" in doubtful_records(tmp_path)[0]
