"""``pausefl owner``: made once and for good, and what the terms mean is told before anything leaves."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError, LedgerError, PauseError
from pausefl.owner.gate import Gate
from pausefl.owner.ledger_identity import retire_for_ever
from pausefl.owner.noted_heads import read_note, read_witness
from pausefl.owner.owner_check import check_owner
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner, init_simulation
from pausefl.owner.request_and_reply import Refused, TrainingRequest
from pausefl.owner.second_note_place import second_note_folder
from pausefl.privacy import FixedHorizon, Gaussian, PrivUnit, SqliteLedger
from pausefl.privacy.ledger import sqlite
from pausefl.privacy.ledger.charge import alone_epsilon

MODEL = {"w": np.zeros(100, dtype=np.float32)}


@pytest.fixture(autouse=True)
def a_disk_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the temporary folder of this machine lies on."""
    monkeypatch.setattr("pausefl.owner.second_note_place.forgetful_file_system", lambda path: None)


def test_a_ledger_or_second_note_that_will_be_forgotten_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = init_owner(tmp_path, "clinic").ledger
    for place, said in (
        (ledger, "the ledger is on tmpfs; move it to a permanent disk, or it will forget releases"),
        (second_note_folder(), "the second note is on tmpfs; set XDG_STATE_HOME to a folder on a permanent disk"),
    ):
        monkeypatch.setattr(
            "pausefl.owner.second_note_place.forgetful_file_system",
            lambda path, place=place: "tmpfs" if path == place else None,
        )
        [warning] = check_owner(tmp_path / "owner.toml").warnings
        assert warning.startswith(said)
        assert f"WARNING: {said}" in called(capsys, "ledger", "verify", ledger)[2]


def release(file: Path, number: int = 1) -> Any:
    return Gate(read_owner(file), "run").train(TrainingRequest("run", number), MODEL, lambda: (MODEL, {}))


def called(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_an_edit_in_the_moment_of_a_charge_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits the seal, so that a client goes on; this looks at every row."""
    init_owner(tmp_path, "clinic")
    file, ledger = tmp_path / "owner.toml", tmp_path / "ledger.db"
    release(file)
    check_owner(file)
    calls, honest = [], sqlite.hash_again

    def hash_edited(*words: Any) -> Any:
        calls.append(words)
        if len(calls) == 2:  # after the charge
            content = ledger.read_bytes()
            ledger.write_bytes(content.replace(b"run/1", b"rum/1"))
        return honest(*words)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "hash_again", hash_edited)
        patch.setattr(sqlite, "touched", lambda path: (1,))  # as after an edit through mapped memory
        release(file, 2)
    assert b"rum/1" in ledger.read_bytes()
    assert release(file, 3).releases == 3
    with pytest.raises(LedgerError, match="row 1 was edited"):
        check_owner(file)


def edited(file: Path, old: str, new: str) -> Path:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    return file


def test_what_is_made_can_be_used_at_once_and_is_for_its_owner_only(tmp_path: Path) -> None:
    owner = init_owner(tmp_path / "clinic", 'clinic "7" \\ ü')
    assert (owner.name, owner.schedule, owner.mechanism) == ('clinic "7" \\ ü', FixedHorizon(8.0, 8), PrivUnit(1.0))
    assert (owner.examples, owner.simulation, owner.mechanism.guarantee.unit) == (1, False, "update")
    for path in (tmp_path / "clinic").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (tmp_path / "clinic").stat().st_mode & 0o077 == 0
    note = read_note(owner.ledger)
    assert note is not None and (note.ledger_id, note.rows) == (owner.ledger_id, 0)
    assert release(tmp_path / "clinic" / "owner.toml").releases == 1


def test_who_counts_the_records_protects_each_of_them(tmp_path: Path) -> None:
    owner = init_owner(tmp_path / "clinic", "clinic", records=479)
    assert (owner.schedule, owner.mechanism) == (FixedHorizon(1.0, 20), Gaussian(1.0, 1e-6, "record"))
    assert (owner.examples, owner.mechanism.composition) == (479, "zcdp")
    assert release(tmp_path / "clinic" / "owner.toml").numbers == {"num-examples": 479}
    chosen = init_owner(
        tmp_path / "other", "other", unit="record", records=7, budget=4.0, releases=12, clip=0.5, delta=1e-5
    )  # fmt: skip
    assert (chosen.schedule, chosen.mechanism) == (FixedHorizon(4.0, 12), Gaussian(0.5, 1e-5, "record"))
    assert init_owner(tmp_path / "whole", "whole", unit="update").mechanism == PrivUnit(1.0)


@pytest.mark.parametrize("there", ["owner.toml", "ledger.db", "ledger.db-replies"])
@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_nothing_is_overwritten(tmp_path: Path, there: str, kind: str) -> None:
    if kind == "file":
        (tmp_path / there).write_text("mine")
    else:
        (tmp_path / there).symlink_to(tmp_path / "nowhere")
    with pytest.raises(PauseError, match="a second ledger would be a second budget"):
        init_owner(tmp_path, "clinic")
    assert [path.name for path in tmp_path.iterdir()] == [there]


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_in_which_others_may_write_is_refused_before_anything_is_made(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    with pytest.raises(PauseError, match="chmod go-w"):
        init_owner(tmp_path / "open", "clinic")
    assert list((tmp_path / "open").iterdir()) == []


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"name": ""}, "name is ''"), ({"name": "client-{partition-id}"}, "braces"), ({"budget": -1.0}, "budget"),
        ({"budget": float("inf")}, "budget"), ({"releases": 0}, "releases"), ({"clip": 0.0}, "l2"),
        ({"budget": 1e9}, "epsilon"), ({"budget": 1e-9}, "epsilon"), ({"name": "two\nlines"}, "name is"),
        ({"name": " "}, "no blanks at its ends"), ({"name": "clinic "}, "write 'clinic'"),
        ({"name": "clinic\N{SUPERSCRIPT SEVEN}"}, "write 'clinic7'"), ({"budget": 0.0}, "8 a weak one"),
        ({"budget": 1e-9, "releases": 4}, "raise the budget, or make fewer releases"),
        ({"unit": "record"}, "pass --records-from PATH"), ({"unit": "patient"}, "'update' or 'record'"),
        ({"unit": "update", "records": 7}, "records is 7, but must be left out"), ({"records": 0}, "examples"),
        ({"delta": 1e-6}, "delta is 1e-06, but must be left out"), ({"records": 7, "delta": 0.5}, "delta"),
        ({"records": 7, "delta": 0.01}, "delta is 0.01, but must be at most 0.001"),
        ({"records": 2**40 + 1}, "replies.examples is 1099511627777, but must be at most 1099511627776"),
        ({"records": 7, "budget": 1e-9}, "raise the budget, or make fewer releases"),
    ],
)  # fmt: skip
def test_terms_that_could_not_be_used_make_nothing(tmp_path: Path, terms: dict[str, Any], said: str) -> None:
    with pytest.raises(PauseError, match=said):
        init_owner(tmp_path / "clinic", **{"name": "clinic", **terms})
    assert list(tmp_path.iterdir()) == []


def test_the_check_tells_what_was_spent_and_what_is_next_and_charges_nothing(tmp_path: Path) -> None:
    file = init_owner(tmp_path, "clinic", budget=4.0, releases=4).ledger.with_name("owner.toml")
    before = check_owner(file)
    assert (before.releases, before.spent, before.dimension, before.noise_to_signal) == (0, 0.0, None, None)
    assert "from the first release on" in before.fixed
    release(file)
    found = check_owner(file)
    epsilon = FixedHorizon(4.0, 4).epsilon(1)
    assert (found.releases, found.spent, found.next) == (1, epsilon, (epsilon,) * 3)
    assert found.dimension == 100
    assert found.noise_to_signal == PrivUnit(1.0).noise_to_signal(100, epsilon)
    assert check_owner(file, 7).noise_to_signal == PrivUnit(1.0).noise_to_signal(7, epsilon)
    assert (found.whole_budget, found.warnings) == (4.0, ())
    assert found.fixed == "name, budget, schedule and unit for ever"
    for number in (2, 3):
        release(file, number)
    assert check_owner(file).next == (epsilon,)
    release(file, 4)
    assert check_owner(file).next == ()
    assert len(SqliteLedger(tmp_path / "ledger.db").charges("clinic")) == 4


PRIVUNIT = 'kind = "privunit"'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("budget = 8.0", "budget = 20.1", "a budget above 20 protects little"),
        (PRIVUNIT, 'kind = "gaussian"\ndelta = 1e-4', "delta is 0.0001 per release, which is near the limit of 0.001"),
        ('kind = "privunit"  # a promise about the whole update, not about each of its numbers alone\nl2 = 1.0',
         'kind = "laplace"\nunit = "coordinate"\nwidth = 1.0', "50 x 8 = 400, which protects nothing"),
    ],
)  # fmt: skip
def test_numbers_that_promise_nothing_are_warned_about(tmp_path: Path, old: str, new: str, said: str) -> None:
    init_owner(tmp_path, "clinic")
    [warning] = check_owner(edited(tmp_path / "owner.toml", old, new), 50).warnings
    assert said in warning


def lines(folder: Path, count: int = 479) -> Path:
    """A file of so many records: pausefl can cut it."""
    (folder / "patients.csv").write_text("71,0.5\n" * count)
    return folder / "patients.csv"


def test_an_app_that_is_trusted_to_clip_is_warned_about(tmp_path: Path) -> None:
    init_owner(tmp_path, "clinic", records=479)
    [warning] = check_owner(edited(tmp_path / "owner.toml", "[mechanism]", '[mechanism]\nclipped_by = "app"')).warnings
    assert "which the gate cannot check; attack the app with 'pausefl audit" in warning


def test_what_is_protected_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_owner(tmp_path / "whole", "whole")
    init_owner(tmp_path / "records", "records", records=479, records_from=lines(tmp_path))
    assert (
        "  protected: the whole update, any two inputs\n"
        in called(capsys, "owner", "check", tmp_path / "whole/owner.toml")[1]
    )
    for file in [tmp_path / "records" / "owner.toml"] * 2:  # before and after the first release
        told = called(capsys, "owner", "check", file, "--dimension", 100)[1]
        assert (
            "  protected: one record, any one record replaced; delta 1e-06 for life; the number of records, 479" in told
        )
        assert "  budget for the whole update: none: nothing is promised about all records together\n" in told
        assert "fixed: name, budget, delta, schedule and unit" in told and "WARNING" not in told
        release(file)
    found = check_owner(file)
    mechanism, [charge] = Gaussian(1.0, 1e-6, "record"), SqliteLedger(file.with_name("ledger.db")).charges("records")
    assert (found.unit, found.whole_budget, found.spent) == ("record", None, charge.epsilon)
    assert found.noise_to_signal == pytest.approx(
        mechanism.noise_to_signal(100, alone_epsilon(charge, mechanism)) / 479
    )


@pytest.mark.parametrize(
    ("records", "terms", "said"),
    [
        (1, {}, "cut into 1 record, and replies.examples is 1; if one record holds many persons"),
        (200_000, {}, "delta is 1e-06, but must be far below 1 / 200000"),
        (479, {"budget": 20.1}, "a budget above 4 protects little"),
        (9, {"delta": 8e-4}, "delta is 0.0008 for life, which is near the limit of 0.001"),
    ],
)  # fmt: skip
def test_terms_for_records_that_promise_nothing_are_warned_about(
    tmp_path: Path, records: int, terms: dict[str, Any], said: str
) -> None:
    init_owner(tmp_path, "clinic", records=records, records_from=lines(tmp_path, records), **terms)
    [warning] = check_owner(tmp_path / "owner.toml").warnings
    assert said in warning


@pytest.mark.parametrize(("count", "warned"), [(1, True), (47, True), (48, False)])
def test_data_that_was_cut_into_few_records_is_named(tmp_path: Path, count: int, warned: bool) -> None:
    """All persons in one line, say: with a larger number in the file the noise would hide the fault."""
    init_owner(tmp_path, "clinic", records=479, records_from=lines(tmp_path, count))
    assert [f"cut into {count} record" in said for said in check_owner(tmp_path / "owner.toml").warnings] == [
        True
    ] * warned


def test_the_budget_is_told_as_odds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, terms, odds in (
        (
            "one",
            {"records_from": lines(tmp_path), "records": 479},
            "about any one record can become about 73 % at most (apart from delta)",
        ),
        ("four", {"records_from": lines(tmp_path), "records": 479, "budget": 4.0}, "98 % at most"),
        ("whole", {}, "about your data can become near certainty\n"),
    ):
        init_owner(tmp_path / name, name, **terms)
        told = called(capsys, "owner", "check", tmp_path / name / "owner.toml")[1]
        assert "  in plain words: a suspicion of 50 % " in told and odds in told
        assert "WARNING" not in told


def test_what_is_given_by_mistake_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    init_owner(tmp_path / "a", "a")
    code, _, error = called(capsys, "owner", "check", tmp_path / "a" / "ledger.db")
    assert code == 2 and "is a database, not a TOML file" in error
    _, told, _ = called(capsys, "owner", "init", tmp_path / "b", "--name", "b / ü")
    assert f"WARNING: this user has another ledger ({SqliteLedger(tmp_path / 'a' / 'ledger.db').id}: 'a' at " in told
    _, more, _ = called(capsys, "owner", "init", tmp_path / "c", "--name", "c")
    assert re.search(rf"2 other ledgers .*: 'b / ü' at '{tmp_path}/b/ledger.db' on \d{{4}}-\d\d-\d\d", more)
    assert re.search(r"ledger backup \S+ b-\d{4}-\d\d-\d\d\.db\n", told)
    for arguments, words in (
        ([tmp_path / "none.db"], "pass the newest backup of it with --from BACKUP"),
        (
            [tmp_path / "a" / "ledger.db", "--from", tmp_path / "none.db"],
            "there is no such file; pass the path of your",
        ),
    ):
        code, _, error = called(capsys, "ledger", "restore", *arguments)
        assert code == 2 and words in error


def test_terms_within_the_bounds_are_not_warned_about(tmp_path: Path) -> None:
    init_owner(tmp_path, "clinic", budget=20.0)
    assert check_owner(tmp_path / "owner.toml").warnings == ()
    found = check_owner(edited(tmp_path / "owner.toml", PRIVUNIT, 'kind = "gaussian"\ndelta = 1e-6'))
    assert found.warnings == () and found.protected == "the whole update, any two inputs; delta 1e-06 per release"


def test_a_file_for_simulations_is_told_for_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "flower-digits" / "simulation.toml"
    code, out, _ = called(capsys, "owner", "check", example)
    assert code == 0
    assert "client-{partition-id}: a simulation" in out
    assert "WARNING: simulation is true, so this file protects nothing, and a deployment refuses it" in out


def test_a_check_that_fails_prints_the_line_that_a_client_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    (tmp_path / "ledger.db").rename(tmp_path / "away.db")
    code, out, err = called(capsys, "owner", "check", file)
    with pytest.raises(Refused) as logged:
        release(file)
    assert (code, out, err) == (2, "", f"pausefl: {logged.value}\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("budget = 8.0", "budget = 9.0", "was fixed to"), ("releases = 8", "releases = 9", "was fixed to"),
     (PRIVUNIT, 'kind = "laplace"\nunit = "coordinate"\nwidth = 1.0\n#', "unit is 'coordinate'"),
     ('name = "clinic"', 'name = "another"', "; write name = ")],
)  # fmt: skip
def test_terms_other_than_those_of_the_first_release_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    release(file)
    text = file.read_text().replace("l2 = 1.0", "" if "laplace" in new else "l2 = 1.0")
    file.write_text(text.replace(old, new))
    with pytest.raises(Refused) as logged:
        release(file, 2)
    with pytest.raises(PauseError, match=said) as told:
        check_owner(file)
    assert str(told.value) == str(logged.value)


def test_one_that_is_retired_has_no_next_release(tmp_path: Path) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    release(file)
    SqliteLedger(tmp_path / "ledger.db").retire("clinic")
    found = check_owner(file)
    assert (found.releases, found.next, found.dimension) == (1, (), 100)
    assert (found.spent, found.left) == (8.0, 0.0)


def test_one_that_was_retired_before_its_first_release_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    retired = SqliteLedger(tmp_path / "ledger.db").retire("clinic")
    found = check_owner(file)
    assert (found.releases, found.left, found.next, found.retired) == (0, 0.0, (), retired.when)
    told = called(capsys, "owner", "check", file)[1]
    assert f"no release was made; retired at {retired.when}, for ever" in told and "budget" not in told


def test_a_spent_budget_has_nothing_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = init_owner(tmp_path, "clinic", budget=8.0, releases=3).ledger.with_name("owner.toml")
    for number in (1, 2, 3):
        release(file, number)
    assert "spent 8 of 8 in 3 releases; 0 left" in called(capsys, "owner", "check", file)[1]
    assert "spent 8 of 8, 0 left" in called(capsys, "ledger", "show", tmp_path / "ledger.db")[1]


def stopped(folder: Path, most: int) -> int:
    """Begin to make file and ledger in another process, and kill it at its ``most``-th call that changes the disk."""
    child = os.fork()
    if child == 0:
        left = most

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            if event not in ("open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.chmod", "sqlite3.connect"):
                return
            left -= str(folder) in str(arguments[0]) or str(folder) in str(arguments[-1])
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            init_owner(folder, "clinic")
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_whatever_a_killed_init_leaves_the_next_one_finishes(tmp_path: Path) -> None:
    seen, most = set(), 1
    while stopped(tmp_path / f"{most}" / "clinic", most) != 0:
        folder = tmp_path / f"{most}" / "clinic"
        left = [path.name for path in folder.iterdir()] if folder.exists() else []
        seen.add(frozenset(name for name in left if not name.startswith(".")))
        if "owner.toml" not in left:
            init_owner(folder, "clinic")
        assert release(folder / "owner.toml").releases == 1
        with pytest.raises(PauseError, match="a second ledger would be a second budget"):
            init_owner(folder, "clinic")
        if "owner.toml" in left:  # whatever was written about it, its name is known
            assert sum(f"{folder}/" in about.read_text() for about in second_note_folder().glob("*.about")) == 1
        most += 1
    assert {frozenset(), frozenset({"ledger.db"}), frozenset({"ledger.db", "ledger.db-replies"})} <= seen


def test_a_ledger_that_was_used_is_not_taken_up_again(tmp_path: Path) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    empty = (tmp_path / "ledger.db").read_bytes()
    release(file)
    file.unlink()
    for content in (None, empty):  # the ledger itself, and one that has forgotten the release
        if content is not None:
            (tmp_path / "ledger.db").write_bytes(content)
        with pytest.raises(PauseError, match="a second ledger would be a second budget") as refused:
            init_owner(tmp_path, "clinic")
        assert "another folder" not in str(refused.value)
        assert not file.exists()


@pytest.mark.parametrize("kept", ["all", "owner.toml lost", "ledger alone"])
@pytest.mark.parametrize("retired", [False, True])
def test_an_older_empty_copy_of_a_used_ledger_is_not_taken_up(tmp_path: Path, kept: str, retired: bool) -> None:
    """The whole folder as it was after ``owner init``: only the note outside knows of what came then."""
    folder = tmp_path / "clinic"
    ledger = init_owner(folder, "clinic").ledger
    shutil.copytree(folder, tmp_path / "older")
    if retired:
        retire_for_ever(SqliteLedger(ledger), "clinic")
    else:
        release(folder / "owner.toml")
    witness = read_witness(SqliteLedger(ledger).id)
    shutil.copytree(tmp_path / "older", folder, dirs_exist_ok=True)  # in place: the inodes stay
    if kept != "all":
        (folder / "owner.toml").unlink()
    if kept == "ledger alone":
        shutil.rmtree(folder / "ledger.db-replies")
    with pytest.raises(PauseError, match="a second ledger would be a second budget"):
        init_owner(folder, "clinic")
    assert (folder / "owner.toml").exists() == (kept == "all")
    assert witness is not None and read_witness(witness.ledger_id) == witness and witness.rows == 1


def test_a_new_ledger_in_another_place_is_not_taken_up(tmp_path: Path) -> None:
    init_owner(tmp_path / "one", "clinic")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "owner.toml").unlink()
    with pytest.raises(PauseError, match="an older copy, or it was moved"):
        init_owner(tmp_path / "two", "clinic")


@pytest.fixture(autouse=True)
def state_of_this_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test be the first of its user: no name gets a second ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def test_no_name_gets_a_second_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even if the first one is lost with its folder: nothing else would notice that it was there."""
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic")[0] == 0
    for lost in (False, True):
        if lost:
            shutil.rmtree(tmp_path / "one")
        for folder in ("one", "two"):
            code, _, err = called(capsys, "owner", "init", tmp_path / folder, "--name", "clinic")
            assert code == 2 and not (tmp_path / "two").exists() and (tmp_path / "one").exists() is not lost
            if lost or folder == "two":
                assert f"has made a ledger for 'clinic' before, at '{tmp_path}/one/ledger.db' on 2" in err
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "Clinic")[0] == 2
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "trial")[0] == 0


@pytest.mark.parametrize("about", [None, "", "[" * 99_999, '{"name": 1, "path": 2}', '{"odd": 3}'])
def test_a_ledger_of_which_no_name_is_known_is_named_by_its_id(
    about: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic")
    first = read_owner(tmp_path / "one" / "owner.toml").ledger_id
    [file] = Path(os.environ["XDG_STATE_HOME"]).rglob(f"{first}.about")
    if about is None:
        file.unlink()
    else:
        file.write_text(about)
    code, out, _ = called(capsys, "owner", "init", tmp_path / "two", "--name", "clinic")
    assert code == 0 and f"this user has another ledger ({first})" in out


def test_what_is_taken_up_is_not_said_to_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("owner", "init", tmp_path, "--name", "clinic")
    assert f"\nmade {tmp_path}/ledger.db (id" in called(capsys, *words)[1]
    (tmp_path / "owner.toml").unlink()
    assert f"\nkept the existing {tmp_path}/ledger.db (id" in called(capsys, *words)[1]


def test_a_new_ledger_is_retired_under_the_name_of_its_owner_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = init_owner(tmp_path, "clinic").ledger
    code, _, err = called(capsys, "ledger", "retire", ledger, "--subject", "clinci", "--yes")
    assert (code, "subject is 'clinci', but this ledger knows only 'clinic'" in err) == (2, True)
    assert SqliteLedger(ledger).head.rows == 0
    code, out, _ = called(capsys, "ledger", "retire", ledger, "--yes")
    assert (code, out.startswith("clinic is retired")) == (0, True)


def test_of_two_at_once_one_makes_it_and_the_other_is_told_so(tmp_path: Path) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                init_owner(tmp_path / "clinic", "clinic")
                os._exit(0)
            except PauseError as error:
                os._exit(7 if "owner.toml exists" in str(error) else 8)
        children.append(child)
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children) == [0, 7, 7, 7]
    assert release(tmp_path / "clinic" / "owner.toml").releases == 1


def test_a_full_disk_is_told_in_one_line_and_finished_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the writes it is that does not fit any more."""
    real, failures = os.fsync, 0
    while True:
        left, folder = [failures], tmp_path / f"{failures}"

        def full(handle: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        try:
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", full)
                init_owner(folder, "clinic")
            break
        except PauseError as error:
            assert "No space left on device" in str(error) and "; free space on " in str(error), error
            failures += 1
        if not (folder / "owner.toml").exists():
            init_owner(folder, "clinic")
        assert release(folder / "owner.toml").releases == 1
    assert failures >= 3


def test_a_folder_of_snapshots_beside_the_replies_stays_and_does_no_harm(tmp_path: Path) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    (tmp_path / "ledger.db-replies" / ".snapshot").mkdir()
    (tmp_path / "ledger.db-replies" / ".head.tmp").touch()
    assert release(file).releases == 1
    assert check_owner(file).releases == 1
    assert (tmp_path / "ledger.db-replies" / ".snapshot").is_dir()
    assert not (tmp_path / "ledger.db-replies" / ".head.tmp").exists()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    ("mode", "what"),
    [(0o500, "."), (0o400, "ledger.db"), (0o500, "ledger.db-replies"), (0o400, "ledger.db-replies/lock")],
)
def test_the_check_refuses_what_the_gate_could_not_write(
    shared: Path, mode: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user for whom permissions count: not as root."""
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "state"))
    folder = shared / "clinic"
    file = init_owner(folder, "clinic").ledger.with_name("owner.toml")
    release(file)
    check_owner(file)
    (folder / what).chmod(mode)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                for path in (folder, *shared.rglob("*")):
                    os.chown(path, 65534, 65534)
                os.setuid(65534)
            with pytest.raises(PauseError):
                release(file, 2)
            with pytest.raises(PauseError):
                check_owner(file)
            os._exit(0)
        except BaseException as error:
            print(f"{error!r}", file=sys.stderr)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
@pytest.mark.parametrize("what", [".", "ledger.db-replies"])
def test_folders_in_which_others_may_write_are_refused_by_gate_and_check(tmp_path: Path, mode: int, what: str) -> None:
    file = init_owner(tmp_path, "clinic").ledger.with_name("owner.toml")
    (tmp_path / what).chmod(mode)
    for use in (release, check_owner):
        with pytest.raises(PauseError, match="chmod"):
            use(file)
    (tmp_path / what).chmod(0o755)
    assert release(file).releases == 1


def test_the_file_on_the_owner_s_page_is_the_one_that_is_made(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "owner-reference.md").read_text()
    made = init_owner(tmp_path, "clinic-7", records=5000, records_from=lines(tmp_path, 5000))
    text = (tmp_path / "owner.toml").read_text().replace(made.ledger_id, "c0b28301716c6a1912909f190ad4831b")
    text = text.replace(str(tmp_path / "patients.csv"), "/srv/records/patients.jsonl")
    assert f"```toml\n{text}```\n" in page


def test_commands_that_are_printed_can_be_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "owner", "init", tmp_path / "a clinic", "--name", "clinic 7")
    for line, words in zip(out.splitlines()[:2], (4, 5), strict=True):
        command = shlex.split(line[line.index("pausefl ") :])
        assert len(command) == words
        command[-1] = str(tmp_path / command[-1])  # a backup goes to the current folder
        assert called(capsys, *command[1:])[0] == 0


def test_the_commands_print_what_they_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code, out, _ = called(capsys, "owner", "init", tmp_path / "c", "--name", "clinic", "--budget", "2", "--releases", 2)
    assert (code, len(out.splitlines())) == (0, 3)
    code, out, _ = called(capsys, "owner", "check", tmp_path / "c" / "owner.toml", "--dimension", "2410", "--json")
    told = json.loads(out)
    assert (code, told["name"], told["next"], told["dimension"]) == (
        0,
        "clinic",
        [FixedHorizon(2.0, 2).epsilon(1)] * 2,
        2410,
    )
    code, _, err = called(capsys, "owner", "init", tmp_path / "c", "--name", "clinic")
    assert code == 2
    assert "exists" in err


def test_one_file_serves_all_clients_of_a_simulation(tmp_path: Path) -> None:
    """Its name has a place for the number of the client, and every run makes a ledger of its own."""
    made = init_simulation(tmp_path / "trial", budget=4.0, releases=3)
    assert (made.simulation, made.name, made.ledger_id) == (True, "client-{partition-id}", "")
    assert made.schedule == FixedHorizon(4.0, 3) and made.mechanism == PrivUnit(1.0)
    assert [one.name for one in (tmp_path / "trial").iterdir()] == ["owner.toml"]
    assert read_owner(tmp_path / "trial" / "owner.toml", {"partition-id": 7}).name == "client-7"
    with pytest.raises(
        ConfigError, match=r"owner\.toml exists, and pausefl does not overwrite it; pass another folder"
    ):
        init_simulation(tmp_path / "trial")
    records = init_simulation(tmp_path / "records", "site-{partition-id}", records=50)
    assert (records.mechanism.guarantee.unit, records.examples, records.name) == ("record", 50, "site-{partition-id}")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        init_simulation(tmp_path / "file" / "below")


def test_records_are_counted_and_stand_in_the_file(tmp_path: Path) -> None:
    data = tmp_path / "patients.csv"
    data.write_text("1\n2\n3\n")
    made = init_owner(tmp_path / "owner", "clinic", records_from=data)
    assert (made.records, made.examples, made.rows) == (data, 3, True)
    found = check_owner(tmp_path / "owner" / "owner.toml")
    assert (found.records, found.warnings) == (f"3 in {data}, handed to the app one at a time", ())
    more = init_owner(tmp_path / "more", "other", records_from=data, records=10)
    assert (more.records, more.examples) == (data, 10)
    data.write_text("1\n" * 11)
    [warning] = check_owner(tmp_path / "more" / "owner.toml").warnings
    assert "has 11 records, but replies.examples is 10, so each training leaves some out at random" in warning
    for wrong, why in (({"records": 5}, "records is 5, but must be at least 11"), ({"unit": "update"}, "left out")):
        with pytest.raises(PauseError, match=why):
            init_owner(tmp_path / "wrong", "third", records_from=data, **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "wrong").exists()


def test_an_app_that_cuts_the_data_itself_is_warned_of(tmp_path: Path) -> None:
    init_owner(tmp_path, "clinic", records=50)
    [warning] = check_owner(tmp_path / "owner.toml").warnings
    assert warning.startswith("the app cuts the data into records by itself") and "[records]" in warning


def test_a_ledger_is_not_among_the_records(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1").write_text("71")
    with pytest.raises(ConfigError, match=r"ledger.db is in this folder and is no record; keep the ledger"):
        init_owner(tmp_path / "data" / "owner", "clinic", records_from=tmp_path / "data")
    assert not (tmp_path / "data" / "owner").exists()
    init_owner(tmp_path / "owner", "clinic", records_from=tmp_path / "data")


def test_no_records_get_a_second_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not under another name, either, nor through a link."""
    (tmp_path / "data.csv").write_text("1\n2\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "data.csv")
    first = ("owner", "init", tmp_path / "one", "--name", "clinic", "--records-from", tmp_path / "data.csv")
    assert called(capsys, *first)[0] == 0
    for data in ("data.csv", "link.csv"):
        words = ("--name", "other", "--records-from", tmp_path / data)
        code, _, err = called(capsys, "owner", "init", tmp_path / "two", *words)
        assert code == 2 and "second budget" in err and f"records in '{tmp_path}/data.csv' before" in err
        assert not (tmp_path / "two").exists()


def test_a_name_that_was_changed_in_the_file_is_known_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic")[0] == 0
    file = tmp_path / "one" / "owner.toml"
    file.write_text(file.read_text().replace('"clinic"', '"ward"'))
    assert called(capsys, "owner", "check", file)[0] == 0
    code, _, err = called(capsys, "owner", "init", tmp_path / "two", "--name", "ward")
    assert code == 2 and "has made a ledger for 'ward' before" in err


def test_records_are_known_by_every_path_that_was_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link may lead to another file each month."""
    for month in ("may", "june"):
        (tmp_path / f"{month}.csv").write_text("1\n2\n")
    link = tmp_path / "data.csv"
    link.symlink_to(tmp_path / "may.csv")
    words = ("--records-from", link)
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic", *words)[0] == 0
    link.unlink()
    link.symlink_to(tmp_path / "june.csv")
    code, _, err = called(capsys, "owner", "init", tmp_path / "two", "--name", "other", *words)
    assert code == 2 and f"records in '{link}' before" in err
    assert called(capsys, "owner", "check", tmp_path / "one" / "owner.toml")[0] == 0
    for month in ("may", "june"):
        words = ("--records-from", tmp_path / f"{month}.csv")
        assert called(capsys, "owner", "init", tmp_path / "two", "--name", "other", *words)[0] == 2


def test_records_are_known_behind_links_on_the_way_and_after_a_restore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "far" / "data.csv").write_text("1\n2\n")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    words = ("--records-from", f"{tmp_path}/link/../data.csv")
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic", *words)[0] == 0
    again = ("owner", "init", tmp_path / "two", "--name", "other", "--records-from")
    assert called(capsys, *again, tmp_path / "far" / "data.csv")[0] == 2
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert called(capsys, "ledger", "restore", tmp_path / "one" / "ledger.db", "--releases", "0")[0] == 0
    assert called(capsys, *again, tmp_path / "far" / "data.csv")[0] == 2


def test_a_ledger_that_was_put_back_has_the_day_of_its_first_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state folder is lost: of two ledgers, the one that was put back must not look like the new one."""
    owner = init_owner(tmp_path / "one", "clinic")
    SqliteLedger(owner.ledger, clock=lambda: 1_700_000_000.0).reserve("clinic", "run/1", owner.schedule)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code, _, _ = called(capsys, "ledger", "restore", owner.ledger, "--releases", "1")
    assert code == 0
    _, out, _ = called(capsys, "owner", "init", tmp_path / "two", "--name", "other")
    assert "on 2023-11-14" in out and "go on with the one that has releases" in out


@pytest.mark.parametrize("how", ["inside", "around", "hard link"])
def test_records_that_are_part_of_known_ones_are_refused(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "part").mkdir(parents=True)
    (tmp_path / "data" / "part" / "1.csv").write_text("1\n2\n")
    known = tmp_path / "data" / "part" / "1.csv" if how == "hard link" else tmp_path / "data" / "part"
    new = {"inside": known / "1.csv", "around": tmp_path / "data", "hard link": tmp_path / "again.csv"}[how]
    if how == "hard link":
        new.hardlink_to(known)
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "a", "--records-from", known)[0] == 0
    code, _, err = called(capsys, "owner", "init", tmp_path / "two", "--name", "b", "--records-from", new)
    assert code == 2 and f"has made a ledger for the records in '{known}' before" in err


def test_a_ledger_that_was_moved_keeps_its_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owner = init_owner(tmp_path / "one", "clinic")
    about = second_note_folder() / f"{owner.ledger_id}.about"
    about.write_text(json.dumps({**json.loads(about.read_bytes()), "since": "2025-02-03"}))
    (tmp_path / "one").rename(tmp_path / "moved")
    assert called(capsys, "owner", "check", tmp_path / "moved" / "owner.toml")[0] == 0
    assert json.loads(about.read_bytes())["path"] == str(tmp_path / "moved" / "ledger.db")
    code, out, _ = called(capsys, "owner", "init", tmp_path / "two", "--name", "other")
    assert code == 0 and f"'clinic' at '{tmp_path}/moved/ledger.db' on 2025-02-03" in out


def test_only_the_ledger_of_the_stopped_call_is_taken_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not another one that was put in its place."""
    assert called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic")[0] == 0
    assert called(capsys, "owner", "init", tmp_path / "two", "--name", "other")[0] == 0
    (tmp_path / "one").rename(tmp_path / "away")
    (tmp_path / "two").rename(tmp_path / "one")
    (tmp_path / "one" / "owner.toml").unlink()
    code, _, err = called(capsys, "owner", "init", tmp_path / "one", "--name", "clinic")
    assert code == 2 and "has made a ledger for 'clinic' before" in err


def test_of_two_folders_at_once_one_gets_the_name(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pausefl", "owner", "init"]
    calls = [subprocess.Popen([*words, tmp_path / f"{n}", "--name", "clinic"], stderr=-1, stdout=-3) for n in range(3)]
    said = [call.communicate()[1].decode() for call in calls]
    assert sorted(call.returncode for call in calls) == [0, 2, 2]
    assert sum("has made a ledger for 'clinic' before" in one for one in said) == 2


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"[]", b'{"name": 1}', b"{}", b""])
def test_a_note_about_a_ledger_that_is_damaged_does_no_harm(
    tmp_path: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = init_owner(tmp_path / "one", "clinic")
    about = second_note_folder() / f"{owner.ledger_id}.about"
    about.write_bytes(damage)
    assert called(capsys, "owner", "check", tmp_path / "one" / "owner.toml")[0] == 0
    assert json.loads(about.read_bytes())["name"] == "clinic"


def test_lines_that_may_be_no_records_are_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.csv").write_text("name,age\n\n1,2\n")
    words = ("--name", "clinic", "--records-from", tmp_path / "data.csv")
    code, out, _ = called(capsys, "owner", "init", tmp_path / "one", *words)
    assert code == 0 and out.count("WARNING: ") == 2 and "has an empty line" in out and "if it holds titles" in out
