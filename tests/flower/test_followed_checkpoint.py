"""A checkpoint as others see it: the report's numbers, a follower of a run that goes on, and no need of Flower."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest
from flwr.app import Context, MetricRecord, RecordDict

import pausefl
from pausefl.cli import main
from pausefl.errors import StateFileError
from pausefl.flower import Checkpoint
from pausefl.flower.server.journal import KIND, Journal, Mark
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon
from pausefl.report.live.live_run import LiveRun
from pausefl.runs.progress.find import is_checkpoint, read_checkpoint
from pausefl.runs.progress.follow_checkpoint import CheckpointFollower
from pausefl.system.state_file import read_state, write_state


@pytest.fixture
def play(tools, start, tmp_path):
    """Rounds of five nodes, of which one never answers."""

    def played(name: str, rounds: int, crash: int = 0, accuracy=lambda number: number / 10) -> Path:
        context = Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})
        grid = MemoryGrid({node: lambda message: tools.trained(message, context) for node in range(5)})
        grid.nodes[3] = lambda message: None
        chooser = pausefl.Selector([1.0] * 5, 2, schedule=FixedHorizon(8.0, 4))
        strategy = tools.wrapped(chooser=chooser, names="node", checkpoint=tmp_path / name)
        if crash:
            tools.crashing(grid, crash)
        strategy.start(
            grid, start, num_rounds=rounds, timeout=0.02,
            evaluate_fn=lambda number, arrays: MetricRecord({"loss": 2.0, "Test-Acc": accuracy(number)}),
        )  # fmt: skip
        return tmp_path / name

    return played


def drained(follower: CheckpointFollower) -> CheckpointFollower:
    while follower.poll():
        pass
    return follower


def test_the_numbers_are_those_of_the_history(play):
    path = play("run.state", 5)
    found, history = read_checkpoint(path), Checkpoint.read(path).history
    assert is_checkpoint(path) and (found.rounds, found.head.planned, found.head.finished) == (5, 5, True)
    clients = found.clients
    for client in range(5):
        name = str(client)
        row = clients.row(name)
        assert clients.asked[row] == sum(client in played.members for played in history)
        assert clients.answered[row] == sum(name in played.seconds for played in history)
        spent = [played.spent[name] for played in history if name in played.spent]
        assert clients.left[row] == pytest.approx(1.0 - (spent[-1] if spent else 0.0) / 8.0)
    silent = sum("no answer" in played.refused.values() for played in history)
    assert silent > 0 and found.points["no answer"].sum() == silent
    assert found.points["scores"].tolist() == pytest.approx([10.0, 20.0, 30.0, 40.0, 50.0])
    assert found.clock == pytest.approx(sum(played.took for played in history))


def test_the_report_draws_six_charts_and_says_how_far_the_run_is(play, tools, tmp_path):
    path = play("run.state", 3)
    with pytest.raises(tools.CrashError):
        play("run.state", 9, crash=5)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(path), "--out", str(tmp_path / "r.html"), "--images", str(tmp_path / "drawn")])
    assert not stop.value.code
    text = (tmp_path / "r.html").read_text()
    assert "Flower run · 5 clients · 4 of 9 rounds" in text
    names = {"run-accuracy", "run-seconds", "run-budgets", "run-latency", "run-faults", "run-picks"}
    assert {p.stem for p in (tmp_path / "drawn").glob("*.svg")} == names
    assert ">3</text>" in (tmp_path / "drawn" / "run-picks.svg").read_text()


def test_an_altered_journal_is_refused_in_one_line(play, capsys):
    path = play("run.state", 2)
    journal = Journal(path).path
    journal.write_bytes(journal.read_bytes().replace(b'"round": 1', b'"round": 7', 1))
    with pytest.raises(SystemExit) as stop:
        main(["report", str(path)])
    assert stop.value.code == 2
    assert "was altered" in capsys.readouterr().err
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateFileError, match="damaged or cut short"):
        read_checkpoint(path)


@pytest.mark.parametrize("odd", [-1e308, 1e308, -0.1, 100.1, float("inf"), float("nan")])
def test_no_accuracy_that_a_client_may_claim_blinds_the_page(play, tmp_path, odd):
    """Clients answer evaluations, and the number becomes a percentage only here."""
    path = play("run.state", 3, accuracy=lambda number: odd if number == 2 else 0.5)
    assert read_checkpoint(path).points["scores"].tolist() == [50.0, 0.0, 50.0]
    live = LiveRun(path, lambda: 0.0)
    while live.poll():
        pass
    said = json.loads(live.news(-1, 0.0)[1])
    assert said["charts"]["run-accuracy"] == {"x": [1, 3], "y": [50.0, 50.0]} and said["best"] == 50.0


def test_a_checkpoint_is_read_where_flower_is_not_installed(play, tmp_path):
    path = play("run.state", 2)
    code = "import sys; sys.modules['flwr'] = None\nfrom pausefl.cli import main; main(['report', *sys.argv[1:]])"
    done = subprocess.run([sys.executable, "-c", code, path, "--out", tmp_path / "r.html"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert "Flower run · 5 clients · 2 rounds" in (tmp_path / "r.html").read_text()


def test_a_follower_sees_who_is_asked_in_the_round_that_has_begun(play, tools):
    path = play("run.state", 2)
    follower = drained(CheckpointFollower(path))
    assert (follower.progress.rounds, follower.now, follower.fault) == (2, None, "")
    with pytest.raises(tools.CrashError):
        play("run.state", 9, crash=4)
    drained(follower)
    assert follower.progress.rounds == 3 and follower.progress.head.planned == 9
    number, asked = follower.now
    assert number == 4 and len(asked) == 2 and set(asked) <= set("01234")
    assert [json.loads(line) for line in Journal(path).path.read_bytes().splitlines()][3]["asked"] == asked
    play("run.state", 4)  # the line does not count: the round is played as if it were not there
    assert drained(follower).progress.rounds == 4 == Checkpoint.read(path).round
    assert follower.now is None


def test_a_follower_lives_through_all_that_may_become_of_the_files(play, tmp_path):
    path = tmp_path / "run.state"
    follower = drained(CheckpointFollower(path))
    assert follower.progress is None and "does not exist yet" in follower.fault
    play("run.state", 3)
    assert drained(follower).progress.rounds == 3 and not follower.fault
    kept = path.read_bytes()
    path.unlink()
    assert (
        "does not exist yet" in drained(follower).fault and follower.progress.rounds == 3
    )  # what was seen stays in sight
    play("run.state", 1)  # another run
    assert drained(follower).progress.rounds == 1 and not follower.fault
    path.write_bytes(kept)  # a checkpoint without its journal
    drained(follower)
    assert "fewer rounds" in follower.fault or "altered" in follower.fault
    path.write_bytes(b"something else")
    assert "not a pausefl state file" in drained(follower).fault


def test_a_follower_of_a_round_that_is_played_anew_starts_over(tmp_path, play):
    """The server died between the line and the checkpoint that counts it, and another round took the line's place."""
    path = play("run.state", 3)
    follower = drained(CheckpointFollower(path))
    before = follower.progress
    journal = Journal(path).path
    lines = journal.read_bytes().splitlines(keepends=True)
    other = lines[2].replace(b'"late": []', b'"late":[] ')
    journal.write_bytes(b"".join([*lines[:2], other]))
    values, arrays = read_state(path, KIND)
    values["journal"] = [len(journal.read_bytes()), crc32(journal.read_bytes())]
    write_state(path, KIND, values, arrays)
    assert drained(follower).progress is not before
    assert follower.progress.rounds == 3 and not follower.fault


def test_budgets_of_clients_with_schedules_of_their_own(tools, start, clients, tmp_path):
    schedules = {f"client-{n}": FixedHorizon(8.0, 4 + n) for n in range(5)}
    selector = pausefl.Selector({f"client-{n}": 10.0 for n in range(5)}, 5, schedule=schedules)
    strategy = tools.wrapped(chooser=selector, checkpoint=tmp_path / "run")
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    found = read_checkpoint(tmp_path / "run")
    left = {name: found.clients.left[found.clients.row(name)] for name in schedules}
    expected = 1.0 - strategy._selector.spent() / 8.0
    assert list(left.values()) == pytest.approx(expected.tolist())


def test_an_announcement_counts_for_nothing(tmp_path):
    journal = Journal(tmp_path / "run")
    mark = journal.append(Mark(), {"round": 1})
    journal.announce(mark, 2, ["a", 7])
    assert journal.announced(mark) == (2, ["a", "7"])
    assert journal.read(mark) == [{"round": 1}]
    after = journal.append(mark, {"round": 2})
    assert journal.announced(after) is None and journal.announced(mark) is None
    assert journal.read(after) == [{"round": 1}, {"round": 2}]
    Journal(tmp_path / "nowhere" / "run").announce(Mark(), 1, ["a"])  # a disk that refuses is no reason to end a run


def test_a_run_that_ends_for_want_of_budget_is_finished_and_can_go_on(tools, start, tmp_path):
    path, context = (
        tmp_path / "run.state",
        Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={}),
    )
    grid = MemoryGrid({node: lambda message: tools.trained(message, context) for node in range(4)})

    def strategy() -> pausefl.flower.PauseStrategy:
        chooser = pausefl.Selector([1.0] * 4, 2, schedule=FixedHorizon(8.0, 1))
        return tools.wrapped(chooser=chooser, names="node", checkpoint=path)

    strategy().start(grid, start, num_rounds=9)
    follower = drained(CheckpointFollower(path))
    assert (follower.progress.rounds, follower.progress.head.planned) == (2, 9)
    assert follower.progress.head.finished
    before = Checkpoint.read(path).history
    again = strategy()
    again.start(grid, start, num_rounds=9)  # nothing is left to play, and nothing is written twice
    assert again.history == Checkpoint.read(path).history == before
    assert drained(CheckpointFollower(path)).progress.head.finished
