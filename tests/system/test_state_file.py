"""Files that are written whole or not at all, also where another user has put a link in their way."""

import os
from pathlib import Path

import pytest

from pausefl.system.state_file import write_whole, write_whole_bytes


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file that must stay as it is."""
    path = tmp_path / "precious"
    path.write_text("all that I have")
    return path


@pytest.mark.parametrize("name", [".config.toml.tmp", "config.toml"])
def test_a_planted_link_is_not_followed(tmp_path: Path, precious: Path, name: str) -> None:
    target = tmp_path / "config.toml"
    (tmp_path / name).symlink_to(precious)
    write_whole(target, "[run]\n")
    assert precious.read_text() == "all that I have"
    assert target.read_text() == "[run]\n" and not target.is_symlink()


def test_what_a_crash_left_is_replaced_and_the_mode_is_that_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / ".table.csv.tmp").write_bytes(b"half of")
    (tmp_path / ".table.csv.tmp").chmod(0o600)
    before = os.umask(0o027)
    try:
        write_whole_bytes(tmp_path / "table.csv", b"whole")
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
    assert (tmp_path / "table.csv").read_bytes() == b"whole"
    assert (tmp_path / "table.csv").stat().st_mode & 0o777 == 0o640
