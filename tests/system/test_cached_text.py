"""A text that is kept in the user's cache: made once, made again if the file is of no use, and never a fault."""

import os
from pathlib import Path

import pytest

from pausefl.system.cached_text import cached_text, user_cache


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return []


def text(made: list[str], made_from: str = "source") -> str:
    def make() -> str:
        made.append(made_from)
        return f"é of {made_from}"

    return cached_text("script", made_from, make)


def test_it_is_made_once_for_what_it_is_made_from(made: list[str]) -> None:
    assert [text(made), text(made), text(made, "other"), text(made)] == ["é of source"] * 2 + [
        "é of other",
        "é of source",
    ]
    assert made == ["source", "other"]


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"pausefl state 1 00\n{}\n"])
def test_a_damaged_file_is_made_again(made: list[str], damage: bytes) -> None:
    text(made)
    [kept] = user_cache().rglob("*.state")
    kept.write_bytes(damage)
    assert text(made) == text(made) == "é of source"
    assert made == ["source", "source"]


def test_an_altered_file_is_made_again(made: list[str]) -> None:
    text(made)
    [kept] = user_cache().rglob("*.state")
    kept.write_bytes(kept.read_bytes().replace(b"source", b"danger"))
    assert text(made) == "é of source"


def test_a_folder_that_cannot_be_made_is_no_fault(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert [text(made), text(made)] == ["é of source"] * 2
    assert made == ["source", "source"]


def test_it_is_kept_for_its_user_alone_where_new_files_are_for_a_group(made: list[str]) -> None:
    before = os.umask(0o002)
    try:
        assert text(made) == text(made)
    finally:
        os.umask(before)
    [kept] = user_cache().rglob("*.state")
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert made == ["source"]


@pytest.mark.parametrize("opened", ["the file", "its folder", "the cache"])
def test_a_text_that_others_could_have_written_is_made_again(made: list[str], opened: str) -> None:
    text(made)
    [kept] = user_cache().rglob("*.state")
    {"the file": kept, "its folder": kept.parent, "the cache": user_cache()}[opened].chmod(0o777)
    assert text(made) == "é of source"
    assert made == ["source", "source"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("whole", [False, True])
def test_a_text_of_another_user_is_made_again_and_nothing_is_written_there(made: list[str], whole: bool) -> None:
    text(made)
    [kept] = user_cache().rglob("*.state")
    given = kept.parent if whole else kept
    os.chown(given, 12345, -1)
    assert text(made) == "é of source"
    assert made == ["source", "source"]
    precious = user_cache() / "precious"
    precious.write_text("all that I have")
    if whole:
        kept.unlink()
        kept.symlink_to(precious)
        text(made)
    assert precious.read_text() == "all that I have"
