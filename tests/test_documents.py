"""Every Python block in README and CONTRIBUTING runs, in order, as a reader would run it."""

import re
import tomllib
from pathlib import Path

import pytest

from pausefl.studies.config import make_config

ROOT = Path(__file__).parent.parent


def test_the_configuration_in_the_manual_is_valid() -> None:
    block = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "simulator.md").read_text(), re.S | re.M)[0]
    make_config(tomllib.loads(block))


def test_the_manual_tells_the_defaults() -> None:
    block = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "simulator.md").read_text(), re.S | re.M)[0]
    defaults = make_config({}).model_dump()
    for section, values in tomllib.loads(block).items():
        for key, value in values.items():
            line = next(line for line in block.splitlines() if line.startswith(f"{key} = "))
            assert (defaults[section][key] is None) if "# e.g." in line else defaults[section][key] == value, line


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.S | re.M)
    assert blocks
    scope: dict = {}
    for block in blocks:
        exec(compile(block, name, "exec"), scope)
