"""Find out what a path holds, a simulator's folder or a Flower checkpoint, and follow it or read it once."""

from __future__ import annotations

from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.flower.server.journal import KIND
from pausefl.runs.progress.follow_checkpoint import CheckpointFollower
from pausefl.runs.progress.follow_folder import FolderFollower
from pausefl.runs.progress.follower import Follower
from pausefl.runs.progress.progress import Progress
from pausefl.runs.progress.simulated_rounds import SimulatedRounds, simulated_head
from pausefl.runs.read_folder import run_folders
from pausefl.runs.run_data import RunData
from pausefl.system.state_file import is_state, read_state


def follow(path: Path) -> Follower:
    """Return a follower of a simulator's folder or a Flower checkpoint; it may be that nothing is there yet."""
    if path.is_file() or (not path.exists() and path.suffix == ".state"):
        if path.is_file() and not is_checkpoint(path):
            raise ConfigError(
                f"{path} is not a Flower checkpoint; pass the checkpoint of a PauseStrategy, or the folder of a run"
            )
        return CheckpointFollower(path)
    below = run_folders(path) if path.is_dir() else []
    if len(below) > 1:
        raise ConfigError(
            f"{path} holds {len(below)} runs, but you can watch only one at a time; pass the folder of one run, such "
            f"as {below[0]}"
        )
    return FolderFollower(below[0] if below else path)


def is_checkpoint(path: Path) -> bool:
    """Say whether this is the checkpoint of a Flower server."""
    return path.is_file() and is_state(path, KIND)


def read_checkpoint(path: Path) -> Progress:
    """Return where a Flower run stands, from a checkpoint and a journal that are whole; others are refused."""
    read_state(path, KIND)
    follower = CheckpointFollower(path)
    while follower.poll():
        pass
    if follower.fault or follower.progress is None:
        raise ConfigError(follower.fault)
    if not follower.progress.rounds:
        raise ConfigError(f"{path} holds a run that has not ended a round yet; wait for its first round")
    return follower.progress


def progress_of(run: RunData) -> Progress:
    """Return where a simulated run stands that was read or played."""
    rounds = SimulatedRounds(run.settings)
    progress = Progress(simulated_head(run.settings, finished=run.summary is not None))
    for record in run.records:
        progress.add(rounds.facts(record))
    progress.settle()
    return progress
