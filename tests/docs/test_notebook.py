"""The notebook runs from top to bottom without a network, and prints what is stored in it, up to numbers."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from notebook import play  # noqa: E402 - the folder is known only now


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise OSError("no network here")

    monkeypatch.setattr("socket.socket.connect", no_network)
    monkeypatch.chdir(tmp_path)
    notebook = ROOT / "examples" / "tutorial.ipynb"
    stored = [cell["outputs"] for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    for kept, real in zip(stored, play(notebook), strict=True):
        assert [text(one) for one in kept] == [text(one) for one in real]
    assert any("image/svg+xml" in output.get("data", {}) for cell in stored for output in cell)


def text(output: dict) -> str:
    lines = output.get("text") or output["data"]["text/plain"]
    return re.sub(r"-?\d+(\.\d+)?", "#", "".join(lines))
