"""A log of rounds in JSON lines: who was chosen, why, how long they took, and who came closest and was left out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pausefl.errors import StateFileError, require
from pausefl.selector.reasons import LeftOut, as_plain, finite_or_none
from pausefl.types import FloatArray

if TYPE_CHECKING:
    from pausefl.selector.decision import Selection


class RoundLog:
    """One line per observed round, appended whole and durably.

    Args:
        path: The file.

    Each line is written with a single call and synced to the disk, so a killed process leaves only whole lines.  If a
    crash of the machine leaves a part of a line, it is cut off when the log is opened again.

    A selector that goes on from a state after round n plays the rounds after n again.  Their old lines are cut off, so
    no round is there twice.  A selector without a state begins at round 1: then a log that has rounds is refused, for
    it belongs to something else.

    >>> import tempfile
    >>> from pausefl import Selector
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sel = Selector({"a": 120, "b": 300}, per_round=1, log=f"{folder}/rounds.jsonl")
    ...     for _ in range(2):
    ...         sel.observe({client: 0.3 for client in sel.select()})
    ...     lines = [json.loads(line) for line in Path(folder, "rounds.jsonl").read_text().splitlines()]
    >>> [line["round"] for line in lines], lines[0]["latencies"]
    ([1, 2], [0.3])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require(isinstance(path, (str, os.PathLike)), "log", path, "the path of a file", "None writes no log")
        self._path = Path(path)
        self._last: int | None = None  # the last round in the file; None as long as nobody has looked
        self._continues = False

    def begin(self, rounds: int) -> None:
        """Make the log end after this many rounds; call it before round ``rounds + 1`` is decided."""
        if self._last is not None and self._last <= rounds:
            return
        keep, last, found = 0, 0, 0
        for number, end in self._lines():
            found = number
            if number <= rounds:
                keep, last = end, number
        if found > 0 and not self._continues and rounds == 0:
            raise StateFileError(
                f"log {self._path} has rounds up to {found} already, but this selector begins with round 1; use "
                "another file, or restore the selector's state"
            )
        if self._path.exists() and self._path.stat().st_size > keep:
            with self._path.open("r+b") as file:
                file.truncate(keep)
                os.fsync(file.fileno())
        self._last, self._continues = last, True

    def restored(self) -> None:
        """Take note that a state was restored: the log is cut where this state ends, before the next round."""
        self._last, self._continues = None, True

    def write(self, chosen: Selection, seconds: FloatArray) -> None:
        """Append the line of a round; the latencies are those of its members, NaN for no answer."""
        self.begin(chosen.round - 1)
        line = json.dumps(_line(chosen, seconds), allow_nan=False).encode() + b"\n"
        self._last = None  # until the line is whole: whatever is left of it is cut off before the next try
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                size = os.fstat(handle).st_size
                if os.write(handle, line) < len(line):
                    os.ftruncate(handle, size)
                    raise OSError(28, "No space left on device")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise StateFileError(
                f"log {self._path} cannot be written ({error.strerror}), and the round is still open; free space or "
                "make "
                "its folder writable, then call observe again"
            ) from None
        self._last = chosen.round

    def _lines(self) -> Iterator[tuple[int, int]]:
        """Yield the number of each round in the file, and where its line ends."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            if not self._path.parent.is_dir():
                raise StateFileError(
                    f"log {self._path} cannot be written, because its folder does not exist; create the folder"
                ) from None
            return
        except OSError as error:
            raise StateFileError(
                f"log {self._path} cannot be read ({error.strerror}); pass a file that you may read"
            ) from None
        with file:
            end = 0
            for line in file:
                end += len(line)
                if line.endswith(b"\n"):  # else a crash of the machine has cut it
                    yield self._number(line), end

    def _number(self, line: bytes) -> int:
        try:
            return int(json.loads(line)["round"])
        except (ValueError, KeyError, TypeError):
            raise StateFileError(
                f"{self._path} has a line that is not a round of a selector; use another file for the log"
            ) from None


def _line(chosen: Selection, seconds: FloatArray) -> dict[str, Any]:
    left_out = chosen.reasons.left_out
    return {
        "round": chosen.round,
        "members": list(chosen.members),
        "value": finite_or_none(chosen.value),
        "terms": {name: finite_or_none(value) for name, value in chosen.terms.items()},
        "reasons": [as_plain(reason) for reason in chosen.reasons.values()],
        "latencies": [finite_or_none(value) for value in seconds.tolist()],
        "left_out": None if left_out is None else _left_out(left_out),
    }


def _left_out(found: LeftOut) -> dict[str, Any]:
    return {
        "client": found.client,
        "short_by": finite_or_none(found.short_by),
        "more_budget": found.more_budget,
        "replaces": list(found.replaces),
        "together_with": list(found.together_with),
        "reason": as_plain(found.reason),
    }
