"""Code of one's own is known by the hashes of its files, however far away they lie."""

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from pausefl.runs.own_code_hashes import source_hashes

TREE = {
    "mine_x.py": "from pack_x.pol import P\nimport far_x\nimport numpy, json, pausefl.selection\n",
    "pack_x/__init__.py": "",
    "pack_x/pol.py": "from .sub import deep\nP = 1\ndef late():\n    from .later import x\n",
    "pack_x/later.py": "from . import *\n",
    "pack_x/unused.py": "",
    "pack_x/sub/deep.py": "from ..values import ALPHA\n",  # in a folder without an __init__.py
    "pack_x/values.py": "ALPHA = 1.0\nimport pack_x.sub.other as other\n",
    "pack_x/sub/other.py": "",
}
USED = sorted({*TREE, "far_x.py"} - {"pack_x/unused.py"})


def written(folder: Path, tree: dict[str, str]) -> None:
    for name, content in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    written(tmp_path / "here", TREE)
    written(tmp_path / "elsewhere", {"far_x.py": ""})
    for folder in ("here", "elsewhere"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mine_x", "pack_x", "far_x")]:
        monkeypatch.delitem(sys.modules, name)
    invalidate_caches()
    return tmp_path


def test_the_files_of_ones_own_code_are_all_that_it_imports_and_that_is_not_installed(tree: Path) -> None:
    import_module("mine_x")
    before = source_hashes("mine_x")
    assert sorted(before) == USED
    for file in USED:
        path = tree / ("elsewhere" if file == "far_x.py" else "here") / file
        path.write_text(path.read_text() + "# another\n")
        changed = source_hashes("mine_x")
        assert {name for name in before if before[name] != changed[name]} == {file}
        before = changed


def test_a_module_in_a_package_brings_its_packages(tree: Path) -> None:
    import_module("pack_x.sub.deep")
    assert sorted(source_hashes("pack_x.sub.deep")) == [
        "pack_x/__init__.py", "pack_x/sub/deep.py", "pack_x/sub/other.py", "pack_x/values.py",
    ]  # fmt: skip


def test_nothing_is_imported_for_it(tree: Path) -> None:
    (tree / "here" / "mine_x.py").write_text("def late():\n    import pack_x.pol\n")
    import_module("mine_x")
    assert sorted(source_hashes("mine_x")) == ["mine_x.py", "pack_x/__init__.py"]
    assert "pack_x" not in sys.modules


@pytest.mark.parametrize("module", ["nowhere_at_all", "nowhere.at_all", "", "sys", "json", "..", "pausefl.selection"])
def test_what_has_no_file_has_no_hash_and_what_is_installed_its_own(module: str) -> None:
    assert list(source_hashes(module)) == (["json/__init__.py"] if module == "json" else [])
