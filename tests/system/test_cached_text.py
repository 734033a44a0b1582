"""A text that is kept in the user's cache: made once, made again if the file is of no use, and never a fault."""

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
    [kept] = user_cache().iterdir()
    kept.write_bytes(damage)
    assert text(made) == text(made) == "é of source"
    assert made == ["source", "source"]


def test_an_altered_file_is_made_again(made: list[str]) -> None:
    text(made)
    [kept] = user_cache().iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"source", b"danger"))
    assert text(made) == "é of source"


def test_a_folder_that_cannot_be_made_is_no_fault(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert [text(made), text(made)] == ["é of source"] * 2
    assert made == ["source", "source"]
