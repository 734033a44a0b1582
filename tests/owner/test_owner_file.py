"""The owner's file: read strictly, and nobody else's word counts."""

from __future__ import annotations

import pytest

from pausefl.errors import ConfigError, PauseError
from pausefl.owner.owner_file import read_owner
from pausefl.privacy import FixedHorizon, Laplace

ID = "0123456789abcdef0123456789abcdef"
GOOD = f"""
name = "clinic"
ledger_id = "{ID}"
[schedule]
kind = "fixed-horizon"
budget = 8
releases = 4
[mechanism]
kind = "laplace"
unit = "coordinate"
width = 0.5
batch_norm = "keep-local"
"""


def read(tmp_path, text):
    (tmp_path / "owner.toml").write_text(text)
    (tmp_path / "owner.toml").chmod(0o600)
    return read_owner(tmp_path / "owner.toml", {"partition-id": 3})


SIMULATED = GOOD.replace('"clinic"', '"clinic-{partition-id}"').replace(f'ledger_id = "{ID}"', "simulation = true")


def test_everything_is_read_and_what_is_not_said_is_forbidden(tmp_path):
    owner = read(tmp_path, GOOD)
    assert owner.name == "clinic"
    assert (owner.ledger, owner.ledger_id) == (tmp_path / "ledger.db", ID)
    assert owner.ledger_of("run") == owner.ledger
    assert (owner.examples, owner.keep, owner.simulation) == (1, 2, False)
    assert owner.schedule == FixedHorizon(8.0, 4)
    assert owner.mechanism == Laplace(unit="coordinate", width=0.5)
    assert owner.batch_norm == "keep-local"
    assert owner.allow == owner.messages == frozenset()


@pytest.mark.parametrize(("line", "by", "rows"), [("", "gate", True), ('clipped_by = "app"', "app", False)])
def test_who_clips_what_a_record_contributes(tmp_path, line, by, rows):
    record = f'kind = "gaussian"\nunit = "record"\nl2 = 1.0\ndelta = 1e-6\n{line}\n'
    owner = read(tmp_path, GOOD.partition('kind = "laplace"')[0] + record)
    assert (owner.clipped_by, owner.rows) == (by, rows)
    assert not read(tmp_path, GOOD).rows


def test_a_file_for_simulations_has_places_in_its_name_and_a_ledger_per_run(tmp_path):
    owner = read(tmp_path, SIMULATED + "[replies]\nallow = ['loss']\nmessages = ['query']\n")
    assert (owner.name, owner.simulation) == ("clinic-3", True)
    assert owner.ledger_of("run") == tmp_path / "simulated" / "run.db"
    assert (owner.allow, owner.messages) == (frozenset(["loss"]), frozenset(["query"]))


def test_links_lead_to_one_ledger(tmp_path):
    """A link to the file in another folder gave the same data a second budget."""
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    (home / "owner.toml").write_text(GOOD)
    (other / "link.toml").symlink_to(home / "owner.toml")
    (tmp_path / "folder").symlink_to(home)
    for path in (other / "link.toml", tmp_path / "folder" / "owner.toml"):
        assert read_owner(path, {}).ledger == home / "ledger.db"
    (home / "real.db").touch()
    (home / "ledger.db").symlink_to(home / "real.db")
    assert read_owner(home / "owner.toml", {}).ledger == home / "real.db"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("simulation = true", "simulation = true\nledger = 'x.db'", "ledger is for a deployment"),
        ("simulation = true", f"simulation = true\nledger_id = '{ID}'", "ledger_id is for a deployment"),
        ("simulation = true", "simulation = 1", "simulation is 1, but must be a valid boolean"),
        ("clinic-{partition-id}", "clinic-{nowhere}", "asks for 'nowhere'"),
        ("clinic-{partition-id}", "clinic-{", "braces that name no key"),
        ("clinic-{partition-id}", "clinic-{{partition-id}}", "braces that name no key"),
        (
            "[schedule]",
            "[replies]\nmessages = ['train']\n[schedule]",
            "replies.messages.0 is 'train', but must be 'evaluate' or 'query'",
        ),
        ("[schedule]", "[replies]\nallow = 'all'\n[schedule]", "replies.allow is 'all', but must be a valid list"),
        ("[schedule]", "[replies]\nallow = ['']\n[schedule]", "replies.allow.0 is ''"),
    ],
)
def test_a_bad_file_for_simulations_is_refused_with_the_reason(tmp_path, old, new, said):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, SIMULATED.replace(old, new, 1))
    assert said in str(caught.value)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused_with_the_remedy(tmp_path, mode):
    read(tmp_path, GOOD)
    (tmp_path / "owner.toml").chmod(mode)
    with pytest.raises(PauseError, match="chmod"):
        read_owner(tmp_path / "owner.toml", {})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("budget = 8", "bugdet = 8", "did you mean 'schedule.budget'"),
        ("budget = 8", "budget = -8", "budget is -8"),
        ("budget = 8", "budget = true", "schedule.budget is True, but must be a valid number; change this key"),
        ("width = 0.5", 'width = "x"', "mechanism.width is 'x', but must be a valid number"),
        ("budget = 8", "budget = inf", "budget is inf"),
        ("releases = 4", "", "schedule.releases is missing"),
        ("releases = 4", "decay = 0.1\nreleases = 4", "schedule.decay is not a known key"),
        ('kind = "laplace"', 'kind = "nothing"', "mechanism.kind is 'nothing'"),
        ("releases = 4", "releases = 4.0", "schedule.releases is 4.0, but must be a valid integer"),
        ('unit = "coordinate"', 'unit = "all"', "mechanism.unit is 'all', but must be 'coordinate' or 'update'"),
        ("width = 0.5", "l1 = 0.5", "left out with unit='coordinate'"),
        ('"keep-local"', '"send"', "mechanism.batch_norm is 'send'"),
        ('"keep-local"', '"refuse"\nclipped_by = "app"', 'only a mechanism with unit = "record" clips records'),
        ('"keep-local"', '"refuse"\nclipped_by = "me"', "mechanism.clipped_by is 'me'"),
        ('"clinic"', '"clinic-{partition-id}"', "braces are for files with simulation = true; write the full name"),
        ('"clinic"', '"clinic-{"', "braces are for files with simulation = true"),
        ('"clinic"', '"clinic}"', "braces are for files with simulation = true"),
        ('"clinic"', '""', "name is ''"),
        (
            "[schedule]",
            "[replies]\nallow = ['num-examples']\n[schedule]",
            "replies.allow is for files with simulation = true, because numbers of the app carry no noise; remove it, "
            "and write replies.examples = N",
        ),
        ("[schedule]", "[replies]\nallow = []\n[schedule]", "replies.allow is for files with simulation = true"),
        (
            "[schedule]",
            "[replies]\nmessages = ['evaluate']\n[schedule]",
            "replies.messages is for files with simulation = true, because such answers carry no noise; remove it",
        ),
        ("[schedule]", "[replies]\nexamples = 0\n[schedule]", "replies.examples is 0"),
        ("[schedule]", "[replies]\nexamples = 1.5\n[schedule]", "replies.examples is 1.5"),
        (f'ledger_id = "{ID}"', "", "ledger_id is missing; run 'pausefl owner init'"),
        (ID, "0123", "ledger_id is '0123', but must be 32 hexadecimal digits"),
        (ID, ID.upper(), "but must be 32 hexadecimal digits"),
        ("[schedule]", "[replies]\nkeep = -1\n[schedule]", "replies.keep is -1"),
        ("[schedule]", "alow = 1\n[schedule]", "alow is not a known key"),
        ("[mechanism]", "[mechanisms]", "did you mean 'mechanism'"),
        ("[schedule]", "[schedule", "is not valid TOML"),
        (
            GOOD[GOOD.index("[schedule]") : GOOD.index("[mechanism]")],
            "schedule = 3\n",
            "schedule is 3, but must be a section",
        ),
        ("budget = 8", "budget = 1" + "0" * 400, "budget is 1000"),
        ("[schedule]", "replies = 3\n[schedule]", "replies is 3, but must be a section; write [replies]"),
        ('kind = "laplace"', "", "mechanism.kind is None, but must be one of laplace, gaussian, privunit"),
        ('name = "clinic"', "", "name is missing"),
        ('name = "clinic"', "name = 7", "name is 7, but must be a valid string"),
        ("[schedule]", "ledger = ''\n[schedule]", "ledger is ''"),
        ("[schedule]", "[replies]\nkeep = true\n[schedule]", "replies.keep is True"),
        ("[schedule]", "[replies]\nkep = 1\n[schedule]", "did you mean 'replies.keep'"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(tmp_path, old, new, said):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert said in str(caught.value)
    assert str(tmp_path / "owner.toml") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--set" not in str(caught.value)
