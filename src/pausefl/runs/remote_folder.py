"""A run that is played elsewhere: what travels there, what comes back at each checkpoint, and how the folder follows.

The folder of a run lies where the command was called.  The worker plays in a folder of its own, which is thrown away.
Whatever it has written by a checkpoint comes back at once, so a worker that dies takes with it only the rounds since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pausefl.runs.config import Config
from pausefl.runs.own_code_hashes import CODE_FILE
from pausefl.runs.play import play_rounds
from pausefl.runs.read_folder import METRICS
from pausefl.system.state_file import write_whole_bytes

_SUMMARY = "summary.json"
_FILES = (CODE_FILE, "config.toml", METRICS[0], "checkpoint.state", _SUMMARY)
"""All that a run needs to go on, in the order in which it is written."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What is new in the folder of a run: bytes of the metrics from ``start`` on, and whole files."""

    start: int
    lines: bytes
    files: dict[str, bytes] = field(repr=False)
    first: bool = False


def packed(folder: Path) -> dict[str, bytes]:
    """Return the files with which the run in a folder can go on elsewhere; none if it has not begun."""
    return {name: (folder / name).read_bytes() for name in _FILES if (folder / name).exists()}


def play_away(config: Config, before: dict[str, bytes], data_dir: Path | None) -> Iterator[Piece]:
    """Play a run in a temporary folder that begins with these files; yield what each checkpoint adds."""
    with TemporaryDirectory(prefix="pausefl-run-") as place:
        folder, sent = Path(place), 0
        for name, content in before.items():
            (folder / name).write_bytes(content)
        first = True
        for _, whole in play_rounds(config, folder, data_dir=data_dir):
            if whole:
                lines = (folder / METRICS[0]).read_bytes()
                names = (*_FILES[:2], _FILES[3]) if first else _FILES[3:4]
                yield Piece(sent, lines[sent:], _read(folder, names), first)
                sent, first = len(lines), False
        yield Piece(sent, (folder / METRICS[0]).read_bytes()[sent:], _read(folder, (_SUMMARY,)))


def add_piece(folder: Path, piece: Piece) -> None:
    """Bring the folder up to date, in an order that lets a run go on whenever this is interrupted."""
    if piece.first:
        (folder / _SUMMARY).unlink(missing_ok=True)
    for name in _FILES:
        if name == METRICS[0]:
            _add_lines(folder / name, piece.start, piece.lines)
        elif name in piece.files:
            write_whole_bytes(folder / name, piece.files[name])


def _read(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def _add_lines(metrics: Path, start: int, lines: bytes) -> None:
    if start == 0:  # it may replace rounds that the checkpoint counts, so they must not be gone for a moment
        write_whole_bytes(metrics, lines)
        return
    with metrics.open("r+b") as file:
        file.truncate(start)
        file.seek(start)
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
