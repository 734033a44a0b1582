"""A Flower run, followed by its server's checkpoint and the journal beside it; Flower need not be installed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from pausefl.errors import ConfigError
from pausefl.flower.server.journal import KIND, Journal, Mark
from pausefl.runs.progress.flower_rounds import COLUMNS, flower_budgets, flower_facts, flower_head
from pausefl.runs.progress.follower import CHUNK, Follower, Stamp, stamp_of
from pausefl.runs.progress.progress import Progress
from pausefl.runs.progress.round_facts import RunHead
from pausefl.system.state_file import arrays_under, glance_at_state


class CheckpointFollower(Follower):
    """Follows a Flower server's checkpoint and the journal beside it, as far as the checkpoint says that it counts."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._journal = Journal(path)
        self._stamp: Stamp | None = None
        self._mark, self._read, self._rest = Mark(), Mark(), b""
        self._run, self._tries = "", 0
        self._head: RunHead | None = None
        self._budgets: dict[str, float] = {}

    def _read_on(self) -> bool:
        stamp = stamp_of(self.path)
        if stamp is None:
            raise ConfigError(f"{self.path} does not exist yet. This page continues when it does.")
        if stamp != self._stamp:
            self._glance()
            self._stamp, self._tries = stamp, 0
        if self._tries > 1:
            raise ConfigError(f"{self._journal.path} was altered (checksum differs); restore it from a backup")
        left = self._mark.length - self._read.length
        if left:
            self._take(left)
        if self._read.length < self._mark.length:
            return True
        if self._head is not None and self._read.checksum != self._mark.checksum:
            self._start_over(self._head)
            self._tries += 1  # once more from the start: what was read before may have been of a round played anew
            return True
        if self.progress is not None and self._head is not None and self.progress.head is not self._head:
            self.progress.renew(self._head)
            self.changes += 1
        now = self._journal.announced(self._mark)
        now = now if now is not None and self.progress is not None and now[0] == self.progress.rounds + 1 else None
        if now != self.now:
            self.now, self.changes = now, self.changes + 1
        return False

    def _glance(self) -> None:
        header, arrays = glance_at_state(self.path, KIND, [f"selector.{name}" for name in COLUMNS])
        columns = arrays_under("selector", arrays)
        self._head, self._budgets = flower_head(header, columns), flower_budgets(header, columns)
        self._mark = Mark(*header["journal"])
        if self.progress is None or header["run"] != self._run or self._mark.length < self._read.length:
            self._run = header["run"]
            self._start_over(self._head)

    def _start_over(self, head: RunHead) -> None:
        # Budgets as they are now would stand before those of the first round.
        self.progress = Progress(replace(head, left={}, exhausted=frozenset()))
        self._read, self._rest, self.now = Mark(), b"", None
        self.changes += 1

    def _take(self, left: int) -> None:
        with self._journal.path.open("rb") as file:
            file.seek(self._read.length)
            chunk = file.read(min(left, CHUNK))
        if not chunk:
            raise ConfigError(
                f"{self._journal.path} has fewer rounds than {self.path} counts; restore both from one backup"
            )
        self._read = Mark(self._read.length + len(chunk), crc32(chunk, self._read.checksum))
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            if self.progress is not None:
                self.progress.add(flower_facts(json.loads(line), self._budgets))
                self.changes += 1
