"""The owner's file: read strictly, and nobody else's word counts."""

from __future__ import annotations

import pytest

from pausefl.errors import ConfigError
from pausefl.owner.owner_file import read_owner
from pausefl.privacy import FixedHorizon, Laplace

GOOD = """
name = "clinic-{partition-id}"
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
    return read_owner(tmp_path / "owner.toml", {"partition-id": 3})


def test_everything_is_read_and_what_is_not_said_is_forbidden(tmp_path):
    owner = read(tmp_path, GOOD)
    assert owner.name == "clinic-3"
    assert owner.ledger == tmp_path / "ledger.db"
    assert owner.schedule == FixedHorizon(8.0, 4)
    assert owner.mechanism == Laplace(unit="coordinate", width=0.5)
    assert owner.batch_norm == "keep-local"
    assert owner.allow == owner.messages == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("budget = 8", "bugdet = 8", "did you mean 'schedule.budget'"),
        ("budget = 8", "budget = -8", "budget is -8"),
        ("budget = 8", "budget = true", "schedule.budget is True, but must be a valid number; change it"),
        ("width = 0.5", 'width = "x"', "mechanism.width is 'x', but must be a valid number"),
        ("budget = 8", "budget = inf", "budget is inf"),
        ("releases = 4", "", "schedule.releases is missing"),
        ("releases = 4", "decay = 0.1\nreleases = 4", "schedule.decay is not a known key"),
        ('kind = "laplace"', 'kind = "nothing"', "mechanism.kind is 'nothing'"),
        ("releases = 4", "releases = 4.0", "schedule.releases is 4.0, but must be a valid integer"),
        ('unit = "coordinate"', 'unit = "all"', "mechanism.unit is 'all', but must be 'coordinate' or 'update'"),
        ("width = 0.5", "l1 = 0.5", "left out with unit='coordinate'"),
        ('"keep-local"', '"send"', "mechanism.batch_norm is 'send'"),
        ("clinic-{partition-id}", "clinic-{nowhere}", "asks for 'nowhere'"),
        ("clinic-{partition-id}", "", "name is ''"),
        ("[schedule]", "[replies]\nallow = 'all'\n[schedule]", "replies.allow is 'all', but must be a valid list"),
        (
            "[schedule]",
            "[replies]\nmessages = ['train']\n[schedule]",
            "replies.messages.0 is 'train', but must be 'evaluate' or 'query'",
        ),
        ("[schedule]", "[replies]\nkeep = -1\n[schedule]", "replies.keep is -1"),
        ("[schedule]", "alow = 1\n[schedule]", "alow is not a known key"),
        ("[mechanism]", "[mechanisms]", "did you mean 'mechanism'"),
        ("[schedule]", "[schedule", "is no TOML file"),
        (
            GOOD[GOOD.index("[schedule]") : GOOD.index("[mechanism]")],
            "schedule = 3\n",
            "schedule is 3, but must be a section",
        ),
        ("budget = 8", "budget = 1" + "0" * 400, "budget is 1000"),
        ("[schedule]", "replies = 3\n[schedule]", "replies is 3, but must be a section; write [replies]"),
        ('kind = "laplace"', "", "mechanism.kind is None, but must be one of laplace, gaussian, privunit"),
        ('name = "clinic-{partition-id}"', "", "name is missing"),
        ('name = "clinic-{partition-id}"', "name = 7", "name is 7, but must be a valid string"),
        ("[schedule]", "ledger = ''\n[schedule]", "ledger is ''"),
        ("[schedule]", "[replies]\nallow = ['']\n[schedule]", "replies.allow.0 is ''"),
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
