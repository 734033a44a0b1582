"""The run that is watched, for all browsers at once: read by one thread, and told to each that waits for news."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pausefl.report.live.pace import Pace
from pausefl.report.live.snapshot import chart_specs, nothing_to_show, snapshot
from pausefl.runs.progress.find import follow
from pausefl.types import Seconds


class LiveRun:
    """Holds the newest snapshot and nothing of those before it; a browser that was away gets the newest one.

    Law: memory does not grow with the number of rounds, of snapshots or of browsers that came and went.
    """

    def __init__(self, path: Path, clock: Callable[[], Seconds]) -> None:
        self.path = path
        self._follower, self._pace = follow(path), Pace(clock)
        self._changed = threading.Condition()
        self._key: tuple[object, ...] = ()
        self._version, self._made, self._text = 0, -1, b""
        self._specs: dict[bool, bytes] = {}
        self._over = False

    @property
    def rounds(self) -> int:
        """How many rounds have been seen."""
        progress = self._follower.progress
        return 0 if progress is None else progress.rounds

    def poll(self) -> bool:
        """Read what is new of the run; return whether there is more to read at once."""
        with self._changed:
            more = self._read_on()
            progress = self._follower.progress
            if progress is not None and not more:
                self._pace.seen(progress.rounds)
            key = (id(progress), self._follower.fault, self._follower.changes, self._pace.quiet)
            if key != self._key and not more:
                self._key, self._version = key, self._version + 1
                self._changed.notify_all()
        return more

    def _read_on(self) -> bool:
        if self._follower.progress is None and self.path.exists():
            try:
                self._follower = follow(self.path)  # what was not there before may be of either kind, or of neither
            except Exception as error:  # whatever lies there: the page must outlive it
                self._follower.say(str(error))
                return False
        return self._follower.poll()

    def news(self, after: int, timeout: Seconds) -> tuple[int, bytes] | None:
        """Wait for a snapshot with another number than ``after``; return None if there was none, or it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._version != after, timeout)
            if self._over or self._version == after:
                return None
            if self._made != self._version:
                self._text, self._made = self._told(), self._version
            return self._version, self._text

    def _told(self) -> bytes:
        try:
            return _plain(snapshot(self._follower, self._pace))
        except Exception as error:  # a file may say anything, and the page must outlive it
            return _plain(nothing_to_show(f"This run cannot be shown ({type(error).__name__}: {error!s:.200})."))

    def charts(self) -> bytes:
        """Return the charts that the run has, without rows; they are compiled once."""
        with self._changed:
            progress = self._follower.progress
            if progress is None:
                return b"{}"
            if progress.lines not in self._specs:
                self._specs[progress.lines] = _plain(chart_specs(progress))
            return self._specs[progress.lines]

    @property
    def over(self) -> bool:
        """Whether nobody is to wait any more."""
        return self._over

    def end(self) -> None:
        """Send everybody away."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


def _plain(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
