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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.S | re.M)
    assert blocks
    scope: dict = {}
    for block in blocks:
        exec(compile(block, name, "exec"), scope)
