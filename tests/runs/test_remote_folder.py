"""Runs that are played elsewhere, without a cluster: what comes back makes the same folder, whenever it breaks off."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pausefl.runs.config import Config, make_config
from pausefl.runs.play import finished_run, run
from pausefl.runs.read_folder import read_run
from pausefl.runs.remote_folder import Piece, add_piece, packed, play_away

SMALL = {
    "data": {"train_size": 300},
    "network": {"clients": 10, "dropout": 0.1, "deadline": 0.85},
    "selection": {"per_round": 3},
    "run": {"rounds": 12, "checkpoint_every": 4},
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def fetch(config: Config, out: Path, pieces: int | None = None) -> list[Piece]:
    """Play elsewhere, and let the worker die after so many pieces."""
    out.mkdir(exist_ok=True)
    found = []
    away = play_away(config, packed(out), None)
    for piece in away:
        if pieces is not None and len(found) == pieces:
            break
        add_piece(out, piece)
        found.append(piece)
    away.close()
    return found


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    run(make_config(SMALL), folder)
    return folder


def test_a_run_played_elsewhere_leaves_the_same_folder(straight: Path, tmp_path: Path) -> None:
    config = make_config(SMALL)
    pieces = fetch(config, tmp_path / "away")
    assert contents(tmp_path / "away") == contents(straight)
    assert len(pieces) == 4, "three checkpoints and the summary"
    assert sum(len(piece.lines) for piece in pieces) == (straight / "metrics.jsonl").stat().st_size
    assert finished_run(config, tmp_path / "away") == replace(read_run(straight), folder=tmp_path / "away")


@pytest.mark.parametrize("deaths", [(0,), (1, 1), (2,), (3,), (1, 0, 1)])
def test_after_a_death_it_goes_on_from_the_last_checkpoint(
    straight: Path, tmp_path: Path, deaths: tuple[int, ...]
) -> None:
    config, out = make_config(SMALL), tmp_path / "away"
    for pieces in deaths:
        fetch(config, out, pieces)
    rest = fetch(config, out)
    assert contents(out) == contents(straight)
    assert len(rest) == 4 - sum(deaths), "what had come back is not played again"


@pytest.mark.parametrize("cut", [b'{"round": 5, "sec', b'{"round": 99}\n'])
def test_rounds_after_the_checkpoint_are_written_anew(straight: Path, tmp_path: Path, cut: bytes) -> None:
    config, out = make_config(SMALL), tmp_path / "away"
    fetch(config, out, 1)
    with (out / "metrics.jsonl").open("ab") as file:
        file.write(cut)
    fetch(config, out)
    assert contents(out) == contents(straight)


def test_a_run_that_has_ended_goes_on_elsewhere_when_more_rounds_are_asked_for(tmp_path: Path, straight: Path) -> None:
    out, more = tmp_path / "away", make_config(SMALL)
    run(make_config(SMALL, ["run.rounds=6"]), out)
    fetch(more, out, 1)
    assert not (out / "summary.json").exists()
    assert finished_run(more, out) is None
    fetch(more, out)
    run(make_config(SMALL, ["run.rounds=6"]), tmp_path / "here")
    run(more, tmp_path / "here")
    assert contents(out) == contents(tmp_path / "here")


def test_whoever_dies_in_the_middle_of_the_metrics_leaves_a_run_that_goes_on(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first piece of a second attempt brings all rounds again, also those that the checkpoint here counts."""
    config, out = make_config(SMALL), tmp_path / "away"
    fetch(config, out, 1)

    def die(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        away = play_away(config, packed(out), None)
        piece = next(away)
        away.close()
        broken.setattr(os, "fsync", die)
        with pytest.raises(KeyboardInterrupt):
            add_piece(out, replace(piece, files={}))
    assert (out / "metrics.jsonl").read_bytes().count(b"\n") == 4, "the old rounds, while the new ones are not safe"
    fetch(config, out)
    assert contents(out) == contents(straight)
