"""The journal beside a checkpoint: a crash at any instant leaves two files that fit each other."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam

import pausefl
from pausefl.errors import StateFileError
from pausefl.flower import Checkpoint
from pausefl.flower.server.journal import Journal, Mark
from pausefl.flower.testing import MemoryGrid
from pausefl.sim.latency import FlooredNormal


@pytest.fixture
def play(tools, start, tmp_path):
    """Rounds without noise or chance, so that two runs can be compared; server-side evaluation counts its calls."""

    def played(name: str, rounds: int):
        context = Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})
        grid = MemoryGrid({node: lambda message: tools.trained(message, context) for node in range(5)})
        strategy = tools.wrapped(
            FedAdam(fraction_evaluate=0.0),
            pausefl.Selector([1.0, 2.0, 3.0, 4.0, 5.0], 2),
            latency=FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05),
            checkpoint=tmp_path / name,
            names="node",
        )
        result = strategy.start(
            grid, start, num_rounds=rounds, evaluate_fn=lambda number, arrays: MetricRecord({"number": float(number)})
        )
        return strategy.history, result

    return played


def same(one, other) -> bool:
    (history, result), (other_history, other_result) = one, other
    names = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")
    metrics = all(repr(getattr(result, name)) == repr(getattr(other_result, name)) for name in names)
    arrays = all(np.array_equal(result.arrays[n].numpy(), other_result.arrays[n].numpy()) for n in result.arrays)
    return history == other_history and metrics and arrays


def files(folder: Path, name: str) -> tuple[bytes, bytes]:
    return (folder / name).read_bytes(), (folder / f"{name}.rounds").read_bytes()


def put(folder: Path, name: str, checkpoint: bytes, journal: bytes | None) -> None:
    (folder / name).write_bytes(checkpoint)
    if journal is not None:
        (folder / f"{name}.rounds").write_bytes(journal)


@pytest.fixture
def two(play, tmp_path):
    """The files after two rounds, and after three."""
    play("run", 2)
    before = files(tmp_path, "run")
    play("run", 3)
    return before, files(tmp_path, "run")


@pytest.mark.parametrize("instant", ["before", "torn", "whole", "swapped", "cut"])
def test_a_crash_at_any_instant_of_a_save_resumes_to_the_same_end(play, two, tmp_path, instant):
    (checkpoint, journal), (newer, longer) = two
    assert longer.startswith(journal)
    put(tmp_path, "crashed", *{
        "before": (checkpoint, journal),
        "torn": (checkpoint, longer[: (len(journal) + len(longer)) // 2]),
        "whole": (checkpoint, longer),  # appended and durable, the checkpoint not yet swapped in
        "swapped": (newer, longer),
        "cut": (checkpoint, longer[: len(journal)]),  # died while it resumed from one of the above
    }[instant])  # fmt: skip
    assert Checkpoint.read(tmp_path / "crashed").round == (3 if instant == "swapped" else 2)
    assert same(play("crashed", 5), play("whole", 5))
    assert (tmp_path / "crashed.rounds").read_bytes().count(b"\n") == 5


def untimed(journal):
    """The lines of a journal but for the seconds after which a round closed, which no clock repeats."""
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    return [{**line, "played": {**line["played"], "took": None}} for line in lines]


def test_a_crash_in_the_first_round_leaves_nothing_of_it(play, tmp_path):
    """The first checkpoint counts no line; whatever was appended is cut off, and round 0 is evaluated again."""
    play("whole", 0)
    empty = (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "whole.rounds").exists()
    whole = play("whole", 3)
    line = (tmp_path / "whole.rounds").read_bytes().splitlines(keepends=True)[0]
    for place, left in enumerate((None, b"", line[:10], line, b"rubbish" * 1000)):
        put(tmp_path, f"{place}", empty, left)
        assert same(play(f"{place}", 3), whole)
        assert untimed(tmp_path / f"{place}.rounds") == untimed(tmp_path / "whole.rounds")


def test_what_lies_beyond_the_mark_is_cut_off_on_resuming(play, two, tmp_path):
    (checkpoint, journal), (_, longer) = two
    put(tmp_path, "ahead", checkpoint, longer + b"and more")
    play("ahead", 2)
    assert files(tmp_path, "ahead") == (checkpoint, journal)


def test_round_0s_evaluation_is_kept(play, tmp_path):
    play("run", 2)
    _, result = play("run", 4)
    assert {n: record["number"] for n, record in result.evaluate_metrics_serverapp.items()} == dict(enumerate(range(5)))
    assert set(Checkpoint.read(tmp_path / "run").state.result.evaluate_metrics_serverapp) == set(range(5))


@pytest.mark.parametrize(
    ("fault", "said"),
    [("missing", "is missing"), ("short", "fewer than the"), ("empty", "has 0 bytes"), ("altered", "was altered")],
)
def test_a_journal_that_does_not_fit_is_refused_and_nothing_is_touched(play, two, tmp_path, fault, said):
    _, (checkpoint, journal) = two
    other = bytearray(journal)
    other[len(journal) // 2] ^= 1
    left = {"missing": None, "short": journal[:-1], "empty": b"", "altered": bytes(other)}[fault]
    put(tmp_path, "odd", checkpoint, left)
    with pytest.raises(StateFileError, match=said) as caught:
        play("odd", 5)
    assert "\n" not in str(caught.value)
    assert "restore both from one backup, or use another file" in str(caught.value)
    assert (tmp_path / "odd").read_bytes() == checkpoint
    kept = tmp_path / "odd.rounds"
    assert (kept.read_bytes() if kept.exists() else None) == left


def test_a_new_run_does_not_mix_with_an_old_journal(play, tmp_path, caplog):
    play("run", 3)
    old = (tmp_path / "run.rounds").read_bytes()
    (tmp_path / "run").unlink()
    again = play("run", 2)
    assert same(again, play("other", 2))
    assert len(Checkpoint.read(tmp_path / "run").history) == 2
    assert (tmp_path / "run.rounds.old-1").read_bytes() == old
    assert "does not exist, but its journal does" in caplog.text


def test_another_model_is_refused_before_the_journal_is_cut(play, two, tmp_path, tools):
    (checkpoint, _), (_, longer) = two
    put(tmp_path, "ahead", checkpoint, longer)
    strategy = tools.wrapped(
        FedAdam(fraction_evaluate=0.0), pausefl.Selector([1.0] * 5, 2), checkpoint=tmp_path / "ahead"
    )
    with pytest.raises(StateFileError, match="another model"):
        strategy.start(MemoryGrid({}), tools.record({"w": np.zeros(2)}))
    assert files(tmp_path, "ahead") == (checkpoint, longer)


def test_the_journal_is_on_the_disk_before_the_checkpoint_counts_it(play, tmp_path, monkeypatch):
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell files apart")
    play("run", 1)
    monkeypatch.setattr(os, "fsync", fsync)
    play("run", 2)
    journal = synced.index("run.rounds")
    assert any(name.startswith(".run.") for name in synced[journal:])
    assert not any(name.startswith(".run.") for name in synced[:journal])


def test_what_is_past_is_not_written_again(play, tmp_path):
    play("run", 2)
    early = (tmp_path / "run").stat().st_size
    play("run", 12)
    assert abs((tmp_path / "run").stat().st_size - early) < 20
    lines = (tmp_path / "run.rounds").read_bytes().splitlines()
    assert len(lines) == 12
    assert max(map(len, lines[1:])) < 2 * min(map(len, lines[1:]))


def test_a_link_to_the_checkpoint_finds_its_journal(play, tmp_path):
    play("run", 2)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(tmp_path / "run")
    assert len(Checkpoint.read(tmp_path / "elsewhere" / "link").history) == 2


def test_a_journal_that_vanishes_under_way_is_missed(tmp_path):
    journal = Journal(tmp_path / "run")
    mark = journal.append(Mark(), {"round": 1})
    assert journal.read(mark) == [{"round": 1}]
    shutil.move(journal.path, tmp_path / "away")
    with pytest.raises(StateFileError, match="is missing"):
        journal.append(mark, {"round": 2})


def test_a_line_follows_the_mark_whatever_else_was_written(tmp_path):
    journal = Journal(tmp_path / "run")
    mark = journal.append(Mark(), {"round": 1})
    with journal.path.open("ab") as file:
        file.write(b"rubbish" * 100)
    mark = journal.append(mark, {"round": 2})
    assert journal.path.stat().st_size == mark.length
    assert journal.read(mark) == [{"round": 1}, {"round": 2}]


@pytest.mark.parametrize("length", [0, 5])
def test_a_planted_link_is_not_cut(tmp_path, length):
    journal, precious = Journal(tmp_path / "run"), tmp_path / "precious"
    precious.write_text("all that I have")
    journal.path.symlink_to(precious)
    with pytest.raises(StateFileError, match="is a link"):
        journal.cut(Mark(length))
    assert precious.read_text() == "all that I have"


def test_there_is_nothing_to_cut_where_there_is_no_journal(tmp_path):
    Journal(tmp_path / "run").cut(Mark())
    assert not list(tmp_path.iterdir())
