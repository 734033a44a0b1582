"""Code of one's own is known by the hashes of its files."""

import sys
from pathlib import Path

import pytest

from pausefl.runs.own_code import source_hashes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import one, os\n", {"one.py"}),
        ("import one.deep\nfrom two import x\n", {"one.py", "two.py"}),
        ("from . import one\nfrom .two import x\n", {"one.py", "two.py"}),
        ("from pack_of_mine import one\nimport pack_of_mine.two\n", {"one.py", "two.py"}),
        ("from .. import one\n", set()),
        ("def late():\n    from .three import x\n", {"three.py", "one.py"}),
        ("1 +\n", set()),
    ],
)
def test_the_files_of_ones_own_code_are_it_and_what_it_imports_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: set[str]
) -> None:
    package = tmp_path / "pack_of_mine"
    packed = "pack_of_mine" in text or "from ." in text
    folder = package if packed else tmp_path
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, content in (("one", ""), ("two", ""), ("three", "from .one import x\n"), ("mine_x", text)):
        (folder / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pack_of_mine", raising=False)
    hashes = source_hashes("pack_of_mine.mine_x:thing" if packed else "mine_x:thing")
    assert set(hashes) == found | {"mine_x.py"}
    (folder / "mine_x.py").write_text(text + "\n")
    assert source_hashes("pack_of_mine.mine_x:thing" if packed else "mine_x:thing")["mine_x.py"] != hashes["mine_x.py"]


@pytest.mark.parametrize("path", ["nowhere_at_all:x", "nowhere.at_all:x", ":x", "sys:path", "math", "..:x"])
def test_what_has_no_file_has_no_hash_or_its_own(path: str) -> None:
    assert len(source_hashes(path)) <= 1
