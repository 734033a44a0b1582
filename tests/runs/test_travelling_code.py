"""The user's own code reaches a process elsewhere as it is here, or is refused in one line."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.runs.config import make_config
from pausefl.runs.travelling_code import baggage_of, unpack, versions

POLICY = """
from travelled.helper import most
from pausefl import Policy

class Mine(Policy):
    name = "mine"

    def pick(self, candidates):
        return most(candidates)
"""
HELPER = "def most(candidates):\n    return list(range(candidates.m))\n"
CHILD = """
import pickle, sys
from pausefl.errors import PauseError
from pausefl.runs.travelling_code import unpack
try:
    unpack(pickle.load(sys.stdin.buffer), "10.0.0.2")
except PauseError as error:
    print(error)
else:
    from travelled.policy import Mine
    print(Mine.name, Mine.__module__)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here" / "travelled"
    folder.mkdir(parents=True)
    for name, text in {"__init__.py": "", "policy.py": POLICY, "helper.py": HELPER}.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(folder.parent))
    for name in [name for name in sys.modules if name.partition(".")[0] == "travelled"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def unpacked_elsewhere(baggage: object, *lines: str) -> str:
    """What another process says that knows nothing of the folder."""
    import pickle

    child = [sys.executable, "-c", "\n".join([*lines, CHILD])]
    done = subprocess.run(child, input=pickle.dumps(baggage), capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_what_a_policy_imports_travels_with_it(package: Path) -> None:
    baggage = baggage_of([make_config({"selection": {"policy": "travelled.policy:Mine"}})])
    assert set(baggage.files) == {"travelled/__init__.py", "travelled/policy.py", "travelled/helper.py"}
    assert unpacked_elsewhere(baggage) == "mine travelled.policy"


def test_another_version_of_it_is_refused(package: Path, tmp_path: Path) -> None:
    baggage = baggage_of([make_config({"selection": {"policy": "travelled.policy:Mine"}})])
    other = tmp_path / "there" / "travelled"
    other.mkdir(parents=True)
    for name, text in {"__init__.py": "", "policy.py": POLICY, "helper.py": HELPER + "# newer\n"}.items():
        (other / name).write_text(text)
    said = unpacked_elsewhere(baggage, "import sys", f"sys.path.insert(0, {str(other.parent)!r})")
    assert said == (
        "node 10.0.0.2 has another version of travelled/helper.py than this machine; remove it there, or install the "
        "same version"
    )


def test_what_cannot_be_imported_there_is_refused(package: Path) -> None:
    baggage = baggage_of([make_config({"selection": {"policy": "travelled.policy:Mine"}})])
    said = unpacked_elsewhere(replace(baggage, files={"travelled/policy.py": POLICY.encode()}))
    assert said == (
        "node 10.0.0.2 cannot import 'travelled.policy:Mine' (ModuleNotFoundError: No module named 'travelled.helper')"
        "; install on every node what it imports, and what it reads"
    )


def test_what_is_installed_does_not_travel() -> None:
    baggage = baggage_of([make_config({"learning": {"features": "numpy:ravel"}})])
    assert baggage.named == ("numpy:ravel",)
    assert list(baggage.hashes) and not baggage.files
    unpack(baggage, "here")


def test_without_code_of_ones_own_nothing_travels() -> None:
    baggage = baggage_of([make_config({})])
    assert (baggage.named, baggage.hashes, baggage.files) == ((), {}, {})


@pytest.mark.parametrize("name", list(versions()))
def test_another_version_of_what_the_numbers_depend_on_is_refused(name: str) -> None:
    baggage = baggage_of([make_config({})])
    other = replace(baggage, versions={**baggage.versions, name: "0.1"})
    with pytest.raises(ConfigError, match=rf"node n1 has {name} .*, but the command was called with 0\.1"):
        unpack(other, "n1")
