"""A Flower user's first minutes: the README's own lines and commands, in an app like Flower's quickstart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pausefl
from pausefl.privacy import SqliteLedger

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(Path(__file__).parent)]

from blocks import Block, blocks, commands  # noqa: E402 - the folders are known only now
from quickstart_app import CLIENT, SERVER, replaced, write_app  # noqa: E402
from test_flower import alone, load_script, patience  # noqa: E402, F401 - a fixture: one deployment at a time


def steps() -> list[list[Block]]:
    """The blocks of the README's steps 1, 2 and 3."""
    page = (ROOT / "README.md").read_text()
    section = page[page.index("## With Flower") : page.index("## A run")]
    parts = re.split(r"^\*\*\d\. ", section, flags=re.M)[1:]
    assert len(parts) == 3
    return [blocks(part) for part in parts]


def lines(step: list[Block], title: str) -> str:
    [text] = [block.text for block in step if block.title == title]
    return text


def typed(step: list[Block]) -> list[str]:
    return [one for block in step if block.kind == "console" for one, _ in commands(block)]


def command(step: list[Block], start: str) -> str:
    [found] = [one for one in typed(step) if one.startswith(start)]
    return found


def private_app(folder: Path, step: list[Block]) -> Path:
    return write_app(
        folder,
        server=replaced(SERVER, "strategy = FedAvg()", lines(step, "server_app.py")),
        client=replaced(CLIENT, "app = ClientApp()", lines(step, "client_app.py")),
    )


@pytest.fixture(scope="module")
def engine(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:  # noqa: F811
    """A SuperLink that simulates, in an environment that names no owner's file, with a home of its own."""
    folder = tmp_path_factory.mktemp("first")
    made = load_script().Deployment(folder / "d", 10, simulation=True)
    del made.env["PAUSEFL_OWNER"]
    # The workers of its Ray do not give way to everybody else.
    made.env |= {"HOME": str(folder), "RAY_worker_niceness": "0"}
    made.env["PYTHONPATH"] = str(Path(pausefl.__file__).parents[1])
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Typed:
    """What a reader types; it must succeed, and whatever happens its processes are gone at the end."""

    def __init__(self, env: dict[str, str], words: str, folder: Path) -> None:
        self.log = folder.with_suffix(".log")
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                ["bash", "-c", words], cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def end(self) -> str:
        try:
            code = self.process.wait(patience(120))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        said = self.log.read_text(errors="replace")
        assert code == 0, said
        return said


def picked(said: str) -> list[list[str]]:
    """Who was picked in each round, all of whom must have answered, without a word of warning."""
    assert not [line for line in said.splitlines() if "WARNING" in line and "pausefl:" in line], said
    rounds = re.findall(r"pausefl: round \d: picked ([^()]+) \(.*\); answered: (.*)", said)
    assert all(len(re.findall(r"\d s\b", answered)) == 2 and ";" not in answered for _, answered in rounds), said
    members = [members.split(", ") for members, _ in rounds]
    assert [len(one) for one in members] == [2, 2, 2], said
    return members


@pytest.mark.thorough  # siblings without a deployment: tests/flower/test_strategy.py, test_kept_out.py
def test_selection_only_and_private_with_the_lines_of_the_readme(engine: Any, tmp_path: Path) -> None:
    first, second, _ = steps()
    run = command(first, "flwr run")
    plain = write_app(tmp_path / "plain", server=replaced(SERVER, "strategy = FedAvg()", lines(first, "server_app.py")))
    private = private_app(tmp_path / "private", second)
    Typed(engine.env, command(second, "pausefl owner init"), private).end()
    runs = [Typed(engine.env, run, app) for app in (plain, private)]
    said, said_in_private = (one.end() for one in runs)

    members = picked(said)
    assert len({node for one in members for node in one}) == 6  # those never tried come first
    assert said.count("aggregate_evaluate: Received 10 results and 0 failures") == 3, said
    with np.load(engine.folder / "plain.npz") as saved:
        assert 1.0 < saved["arr_0"].item() < 4.0  # one, and a number from 0 to 1 in each round

    members = picked(said_in_private)
    [path] = (Path(engine.env["HOME"]) / "trial" / "simulated").glob("*.db")
    ledger = SqliteLedger(path)
    assert ledger.simulation
    for name in {name for one in members for name in one}:
        rows = ledger.charges(name)
        assert len(rows) == sum(name in one for one in members)
        assert {(row.unit, row.noise, row.budget) for row in rows} == {("update", "secure", 8.0)}
        assert ledger.spent(name) == pytest.approx(len(rows))


@pytest.mark.thorough  # its sibling with another app: tests/e2e/test_flower.py
def test_private_on_real_machines_with_the_commands_of_the_readme(alone: None, tmp_path: Path) -> None:  # noqa: F811
    _, second, third = steps()
    home = tmp_path / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FLWR_", "PAUSEFL_"))}
    env |= {
        "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(pausefl.__file__).parents[1]), "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
    }  # fmt: skip
    members = picked(Typed(env, "\n".join(["set -e", *typed(third)]), private_app(tmp_path / "real", second)).end())
    assert [sorted(one) for one in members] == [["client-0", "client-1"]] * 3
    for name in members[0]:
        ledger = SqliteLedger(home / name / "ledger.db")
        assert not ledger.simulation
        assert [(row.unit, row.noise) for row in ledger.charges(name)] == [("update", "secure")] * 3
