"""A simulated run, followed by its folder while ``pausefl run`` writes it."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

from pausefl.errors import ConfigError
from pausefl.runs.config import Config
from pausefl.runs.progress.follower import CHUNK, Follower, Stamp, stamp_of
from pausefl.runs.progress.progress import Progress
from pausefl.runs.progress.round_facts import RunHead
from pausefl.runs.progress.simulated_rounds import SimulatedRounds, simulated_head
from pausefl.runs.read_folder import check_record, metrics_file, stored_config

_TAIL = 200
"""Bytes at the end of what was read, by which it is recognised."""


class FolderFollower(Follower):
    """Follows the folder of a simulated run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._config: Config | None = None
        self._stamps: tuple[Stamp | None, ...] = ()
        self._file, self._offset, self._tail = (0, 0), 0, b""
        self._rounds: SimulatedRounds | None = None
        self._clock = 0.0

    def _read_on(self) -> bool:
        metrics = metrics_file(self.path)
        if not (self.path / "config.toml").exists() or metrics is None:
            raise ConfigError(f"{self.path} holds no round yet. This page continues when there is one.")
        stamps = tuple(stamp_of(self.path / name) for name in ("config.toml", "summary.json"))
        if stamps != self._stamps or self._config is None:
            config = stored_config(self.path)
            if config != self._config:
                self._file = (0, 0)  # read from the start: it may be another run
            self._config, self._stamps = config, stamps
            self._renew()
        with cast("BinaryIO", gzip.open(metrics, "rb") if metrics.suffix == ".gz" else metrics.open("rb")) as file:
            return self._take(self._config, file, metrics)

    def _take(self, config: Config, file: BinaryIO, metrics: Path) -> bool:
        found = os.fstat(file.fileno())
        file.seek(max(0, self._offset - len(self._tail)))
        same = (found.st_dev, found.st_ino) == self._file and file.read(len(self._tail)) == self._tail
        if self.progress is None or not same:  # a new run, or one that goes on from its checkpoint
            self._file, self._offset, self._tail, self._clock = (found.st_dev, found.st_ino), 0, b"", 0.0
            self._rounds, self.progress = SimulatedRounds(config), Progress(self._head(config))
            self.changes += 1
            file.seek(0)
        chunk = file.read(CHUNK)
        whole = chunk[: chunk.rfind(b"\n") + 1]
        if len(chunk) == CHUNK and not whole:
            raise ValueError(f"{metrics} has a line of more than {CHUNK} bytes")
        for line in whole.splitlines(keepends=True):
            self._add(config, json.loads(line))
            self._offset, self._tail, self.changes = self._offset + len(line), line[-_TAIL:], self.changes + 1
        if len(chunk) < CHUNK:
            self._renew()
        return len(chunk) == CHUNK

    def _add(self, config: Config, record: Any) -> None:
        if self.progress is None or self._rounds is None:
            return
        number, clients, bounded = self.progress.rounds + 1, config.network.clients, config.privacy.enabled
        self._clock = check_record(record, number, clients, bounded=bounded, before=self._clock)
        self.progress.add(self._rounds.facts(record))

    def _head(self, config: Config) -> RunHead:
        return simulated_head(config, finished=(self.path / "summary.json").exists())

    def _renew(self) -> None:
        if self.progress is not None and self._config is not None:
            head = self._head(self._config)
            if head != self.progress.head:
                self.progress.renew(head)
                self.changes += 1
