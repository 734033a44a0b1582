"""The page of equations names files and things that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [line.split("|")[1:5] for line in (ROOT / "docs" / "equations.md").read_text().splitlines()[6:] if "|" in line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_a_row_leads_to_what_it_names(row: list[str]) -> None:
    text = ""
    for name in re.findall(r"`([^`]+)`", row[3]):
        [path] = [path for path in (ROOT / name, ROOT / "src" / "pausefl" / name) if path.is_file()]
        text += path.read_text()
    for name in re.findall(r"`([\w.]+)[^`]*`", row[2]):
        if name not in ("len", "python"):
            assert re.search(rf"\b{name.split('.')[-1]}", text), name
