"""States, checkpoints and ledgers that are cut short, flipped or of another version: refused, and left as they are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pausefl import Selector
from pausefl.errors import PauseError
from pausefl.privacy import Geometric, SqliteLedger
from pausefl.runs.config import make_config
from pausefl.runs.play import run

CONFIG = make_config({"run": {"rounds": 4, "checkpoint_every": 2}, "network": {"clients": 6}})
MORE = make_config({"run": {"rounds": 6, "checkpoint_every": 2}, "network": {"clients": 6}})


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    selector = Selector([5, 6, 7], per_round=2)
    selector.observe(dict.fromkeys(selector.select(), 0.3))
    selector.save(folder / "selector.state")
    ledger = SqliteLedger.create(folder / "ledger.db")
    for number in range(3):
        ledger.reserve("me", f"run/{number}", Geometric(4.0, 0.1))
    run(CONFIG, folder / "run")
    return folder


def use_selector(folder: Path) -> object:
    return Selector.load(folder / "selector.state")


def use_ledger(folder: Path) -> object:
    ledger = SqliteLedger(folder / "ledger.db")
    ledger.verify()
    return ledger.reserve("me", "run/new", Geometric(4.0, 0.1))


def use_checkpoint(folder: Path) -> object:
    return run(MORE, folder / "run")


USES: dict[str, Callable[[Path], object]] = {
    "selector.state": use_selector,
    "ledger.db": use_ledger,
    "run/checkpoint.state": use_checkpoint,
}


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    at = draw(st.floats(0.0, 0.999))
    cut, bit = draw(st.booleans()), draw(st.integers(0, 7))

    def damage(data: bytes) -> bytes:
        place = int(at * len(data))
        return data[:place] if cut else data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

    return damage


@pytest.mark.parametrize("name", USES)
def test_whole_files_are_used(name: str, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "copy")
    USES[name](tmp_path / "copy")


@pytest.mark.parametrize("name", USES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(damage=damages())
def test_damaged_files_are_refused_and_left_alone(
    name: str, good: Path, tmp_path_factory: pytest.TempPathFactory, damage: Callable[[bytes], bytes]
) -> None:
    folder = tmp_path_factory.mktemp("bad") / "copy"
    shutil.copytree(good, folder)
    path = folder / name
    harmed = damage(path.read_bytes())
    path.write_bytes(harmed)
    if name == "ledger.db" and not harmed:
        return  # an empty file is a new ledger, as SQLite has it
    try:
        USES[name](folder)
    except PauseError as refused:
        assert "\n" not in str(refused)
        assert path.read_bytes() == harmed
    else:
        # A database has room that nothing is kept in: what counts is that no charge is lost or changed.
        assert name == "ledger.db"
        before, after = (SqliteLedger(where / name).charges("me") for where in (good, folder))
        assert after[: len(before)] == before


@pytest.mark.parametrize("name", ["selector.state", "run/checkpoint.state"])
def test_another_version_is_refused(name: str, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "copy")
    path = tmp_path / "copy" / name
    older = path.read_bytes().replace(b"pausefl state 1 ", b"pausefl state 0 ", 1)
    path.write_bytes(older)
    with pytest.raises(PauseError, match="version 0, but this release reads version 1"):
        USES[name](tmp_path / "copy")
    assert path.read_bytes() == older
