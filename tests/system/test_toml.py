"""TOML files are read or refused in one line, and what is written reads back equal."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import ConfigError
from pausefl.system.toml_sections import read_toml, toml_text

VALUES = st.one_of(
    st.text(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.lists(st.text(max_size=4), max_size=3)
)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "does not exist; write it"), (b"a = ", "is not valid TOML"), (b"\xff", "is not valid TOML")],
)
def test_a_file_that_is_no_toml_is_refused_in_a_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_toml(path, "write it")
    assert said in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path, "write it")


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), VALUES, max_size=3), max_size=3))
def test_what_is_written_reads_back_equal(content: dict) -> None:
    assert tomllib.loads(toml_text(content)) == content
