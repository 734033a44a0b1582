"""Code of one's own is found by its import path, or refused in one line."""

from pathlib import Path

import pytest

from pausefl.errors import InvalidValueError
from pausefl.system.import_path import imported, reason


def test_code_of_ones_own_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_ok.py").write_text("def one():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert imported("mine_ok:one", "data.name")() == 1


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("x = 1\n", "mine_a:nothing", "has no attribute 'nothing'"),
        ("x = 1\n", "nowhere_at_all:x", "No module named 'nowhere_at_all'"),
        ("raise RuntimeError('first\\nsecond')\n", "mine_b:x", "(RuntimeError: first, at "),
        ("1 +\n", "mine_c:x", "mine_c.py:1)"),
        ("x = 1\n", "mine_d", "cannot be imported"),
        ("x = 1\n", ":x", "cannot be imported"),
    ],
)
def test_code_that_cannot_be_imported_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, path: str, said: str
) -> None:
    if not path.startswith("nowhere"):
        (tmp_path / f"{path.partition(':')[0]}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidValueError) as refused:
        imported(path, "learning.model")
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_the_place_is_the_innermost_line_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import json\n\ndef outer():\n    return inner()\n\ndef inner():\n    return json.loads('{')\n"
    (tmp_path / "mine_deep.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="Expecting") as raised:
        imported("mine_deep:outer", "data.name")()
    # This test's own frame is the user's too, but further out.
    assert reason(raised.value).endswith(", at mine_deep.py:7")


def test_an_exception_without_words_is_told_by_its_kind() -> None:
    assert reason(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("mine_r:Weigheed", "did you mean 'mine_r:Weighed'?"),
        ("mine_r:Zzz", "define 'Zzz' in mine_r"),
        ("mine_r.py:Weighed", "leave out '.py': mine_r:Weighed"),
        ("mine_nowhere:X", "put it beside the configuration"),
        ("mine_broken:X", "change its code so that it can be imported"),
        ("mine_needs:X", "change its code so that it can be imported"),
    ],
)
def test_each_mistake_has_its_own_remedy(
    name: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_r.py").write_text("class Weighed: ...\n")
    (tmp_path / "mine_broken.py").write_text("def x(:\n")
    (tmp_path / "mine_needs.py").write_text("import no_such_package_anywhere\n")
    with pytest.raises(InvalidValueError) as refused:
        imported(name, "selection.policy")
    assert str(refused.value).endswith(remedy) or f"; {remedy}" in str(refused.value)
