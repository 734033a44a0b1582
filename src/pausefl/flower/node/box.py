"""The box that an app runs in: no network, no rights, and of the machine's files only code and the owner's data."""

from __future__ import annotations

import json
import math
import os
import pwd
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import IO

import pausefl
from pausefl.errors import ConfigError, PauseError, is_finite, require
from pausefl.flower.node import enter_box
from pausefl.flower.node.plain_files import require_plain_files
from pausefl.system.printable_text import printable

_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store",
    "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/sys/devices/system/cpu",
)  # fmt: skip
_OWN = ("/tmp", "/dev", "/proc", enter_box.CODE)  # noqa: S108 - the box's, not the machine's
MOST_STATE = 1 << 24
"""Bytes of an app's state that are kept for its next message."""
_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PACKAGE = Path(pausefl.__file__).parents[1]
PYTHON = os.path.abspath(sys.executable)  # noqa: PTH100 - a link stays: by its place Python finds its packages
"""Without "..": of the folders on the way, a box has only those that lead to something that is shown."""
_LOG_LINES, _LOG_LIMIT, _CHUNK, _PAUSE = 200, 1 << 16, 1 << 16, 0.01
"""Lines and bytes of the log for one app: systemd drops lines of a service that says too many, also ours about charges.
Bytes read at once; and seconds between two looks at what is not logged: an app must not keep the node busy."""


class BoxError(PauseError, RuntimeError):
    """The command in the box failed: it died, ran too long, or said too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Runs commands that are not trusted; use one for each app that others wrote.

    Law: the command has no network and no rights, sees no process but its own, can write into empty folders only, and
    reads system folders, Python's folders and ``data``.  When ``run`` returns or raises, all its processes are gone.
    With ``closed=False`` none of that holds: it is a plain process with a clean environment, and a folder for its
    temporary files that is gone in the end.

    ``hidden`` files and folders must not lie in a folder that can be read.  ``data`` is apart from all that is shown
    without it: a box without data shows none.  ``time_limit`` is in seconds, ``memory`` in bytes per process.  ``user``
    is the account that the command runs as; that needs root, and no user namespaces.  A ``blind`` box hides the
    machine's counters too, such as how full a disk is: they tell of files that are not shown.  With
    ``spare_one`` the command uses all processors but one, if there are two or more.  A box with ``rooms`` is for a
    command of our own, which keeps the right to make a room for each record.
    """

    data: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    time_limit: float = 3600.0
    memory: int | None = None
    user: str | None = None
    closed: bool = True
    blind: bool = False
    spare_one: bool = False
    rooms: bool = False

    def __post_init__(self) -> None:
        limit, memory = self.time_limit, self.memory
        require(is_finite(limit) and limit > 0, "time limit", limit, "above 0", "pass a number of seconds")
        fine = memory is None or (memory > 0 and self.closed)
        require(fine, "memory limit", memory, "above 0, and for a closed box", "leave --memory-limit out")
        for folder in self.data:
            todo = (
                "pass an absolute path of a folder"
                if folder.exists()
                else "it does not exist; make it, or pass another"
            )
            require(folder.is_absolute() and folder.is_dir(), "data", str(folder), "a folder", todo)
        if self.user is not None:
            self._account()
        if not self.closed:
            return
        for real in self._shown().values():
            covered = [path for path in _OWN if Path(path).is_relative_to(real)]
            if covered:
                raise ConfigError(
                    f"the app may read {real}, but the box has its own {covered[0]}; move the files to another folder"
                )
            inside = [str(path) for path in self.hidden if path.resolve().is_relative_to(real)]
            if str(real) in map(os.path.realpath, inside):
                raise ConfigError(
                    f"the app may read {real}, but that folder must stay hidden; keep the data in another folder"
                )
            if inside:
                raise ConfigError(f"the app may read {real}, but {inside[0]} in it must stay hidden; move one of them")
        for code, folder in product(replace(self, data=())._shown().values() if self.data else (), self.data):
            if folder.resolve().is_relative_to(code) or code.is_relative_to(folder.resolve()):
                raise ConfigError(
                    f"data folder {folder} and {code}, which every app reads, are inside each other; move the data"
                )

    def check_folders(self) -> None:
        """Refuse data, or code outside of Python's folders, by which an app could reach what is outside."""
        for folder in {*self.data, *map(Path, code_folders())} if self.closed else ():
            require_plain_files(folder, self.hidden)

    def run(
        self, command: Sequence[str], request: bytes, limit: int, log: Callable[[str], None], *, end: float = math.inf
    ) -> bytearray:
        """Run a command with ``request`` as its input, and return what it puts out, ``limit`` bytes at most.

        What it says on stderr goes to ``log`` line by line, without control characters.  It is stopped after the time
        limit, and at ``end`` on the monotonic clock, whichever comes first.
        """
        if end <= time.monotonic():
            raise BoxError("no time was left for the app, because the request took too long to read")
        with self.started(command, request, out=subprocess.PIPE, words=subprocess.PIPE) as process:
            pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
            return self._listen(process, pipes, limit, log, end)

    @contextmanager
    def started(
        self, command: Sequence[str], request: bytes, *, out: int, words: int, passed: Sequence[int] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command with ``request`` as its input, and end it, and all that it started, in the end.

        ``out`` and ``words`` are where its output and its errors go; ``passed`` are open files that it gets.
        """
        with nullcontext("") if self.closed else tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            with os.fdopen(os.memfd_create("request"), "w+b") as given:
                given.write(request)
                given.seek(0)
                process = subprocess.Popen(  # noqa: S603 - a list of words of our own
                    self._command(command), stdin=given, stdout=out, stderr=words, env=self._environment(scratch),
                    cwd="/", start_new_session=True, pass_fds=passed,
                )  # fmt: skip
            try:
                yield process
            finally:
                for pipe in (process.stdout, process.stderr):
                    if pipe is not None:
                        pipe.close()
                _end(process, gently=self.closed)

    def _listen(
        self, process: subprocess.Popen[bytes], pipes: Sequence[IO[bytes]], limit: int, log: Callable[[str], None],
        end: float,
    ) -> bytearray:  # fmt: skip
        end = min(end, time.monotonic() + self.time_limit)
        out, lines = bytearray(), Lines(log)
        over = os.pidfd_open(process.pid)
        with selectors.DefaultSelector() as waiting:
            waiting.register(over, selectors.EVENT_READ)
            for pipe in pipes:
                os.set_blocking(pipe.fileno(), False)
                waiting.register(pipe.fileno(), selectors.EVENT_READ)
            try:
                while True:
                    left = end - time.monotonic()
                    if left <= 0:
                        raise BoxError(
                            f"the app took longer than it may ({self.time_limit:g} seconds at most) and was stopped"
                        )
                    ready = {key.fd for key, _ in waiting.select(left)}
                    for pipe, take in zip(pipes, (out.extend, lines.take), strict=True):
                        if pipe.fileno() in ready and not _read(pipe.fileno(), take, limit - len(out)):
                            waiting.unregister(pipe.fileno())
                    if lines.full and pipes[1].fileno() in ready:
                        time.sleep(_PAUSE)
                    if len(out) > limit:
                        raise BoxError(f"the app returned more than {limit} bytes and was stopped")
                    if ready == {over}:  # it has ended, and all that it said was read
                        break
            finally:
                os.close(over)
                lines.take(b"\n")
        # Not reaped yet: its number stays taken until all of its group are killed.
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_code != os.CLD_EXITED or ended.si_status:
            raise BoxError(f"the app ended with status {ended and ended.si_status}")
        return out

    def _command(self, command: Sequence[str]) -> list[str]:
        if not self.closed:
            return list(command)
        plan = {
            "parent": os.getpid(), "shown": {path: str(real) for path, real in self._shown().items()},
            "command": list(command), "user": self._account(), "memory": self.memory, "blind": self.blind,
            "spare_one": self.spare_one, "rooms": self.rooms,
        }  # fmt: skip
        return [PYTHON, "-I", "-S", enter_box.__file__, json.dumps(plan)]

    def _shown(self) -> dict[str, Path]:
        """Return what can be read, by its path in the box: links are shown as what they stand for."""
        python = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *code_folders()]
        found: dict[str, Path] = {}
        for name in (*_SYSTEM, *python, *map(str, self.data)):
            path = Path(name)
            if path.exists():
                found |= {str(path): path.resolve(), str(path.resolve()): path.resolve()}
        # What lies in a folder that is shown comes with it, links too.
        return {path: real for path, real in found.items() if not any(str(up) in found for up in Path(path).parents)}

    def _environment(self, scratch: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        fixed = {
            "PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "HOME": "/tmp", "USER": "app", "LOGNAME": "app",  # noqa: S108
            "PYTHONPATH": os.pathsep.join(code_folders()), "FLWR_TELEMETRY_ENABLED": "0",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        }  # fmt: skip
        # A process with several threads cannot be forked safely, and none is needed for a single record.
        alone = {name: "1" for name in _ENVIRONMENT if self.rooms and name.endswith("_NUM_THREADS")}
        return kept | fixed | alone | ({"TMPDIR": scratch, "HOME": scratch} if scratch else {})

    def _account(self) -> tuple[int, int] | None:
        if self.user is None:
            return None
        try:
            entry = pwd.getpwnam(self.user)
        except KeyError:
            raise ConfigError(
                f"user {self.user!r} is not known on this machine; create it, or pass another user"
            ) from None
        require(os.geteuid() == 0, "--box-user", self.user, "given by root only", "leave --box-user out")
        require(entry.pw_uid != 0, "--box-user", self.user, "another user than root", "pass a plain user")
        return entry.pw_uid, entry.pw_gid


def pack(*parts: bytes) -> bytes:
    """Return parts as one string of bytes."""
    return b"".join(struct.pack("!Q", len(part)) + part for part in parts)


def unpack(packed: bytes | bytearray, count: int) -> list[memoryview]:
    """Return the parts, without a copy; refuse anything that ``pack`` would not have made of so many."""
    parts, place, given = [], 0, memoryview(packed)
    for _ in range(count):
        head = given[place : place + 8]
        size = struct.unpack("!Q", head)[0] if len(head) == 8 else len(packed)
        place += 8 + size
        parts.append(given[place - size : place])
    if place != len(packed):
        raise BoxError(f"{len(packed)} bytes cannot be read as {count} parts")
    return parts


def code_folders() -> list[str]:
    """Return where Python looks for code outside its own folders, e.g. a package installed from its source.

    Not the folder that the node is started in: it is on the list by accident, and anything may lie there.
    """
    paths = [Path(entry) for entry in sys.path if entry and Path(entry).is_absolute()]
    kept = [path for path in paths if path.exists() and (path != Path.cwd() or path == _PACKAGE)]
    return [str(path) for path in kept if not any(path.is_relative_to(up) for up in (sys.prefix, sys.base_prefix))]


def _end(process: subprocess.Popen[bytes], *, gently: bool) -> None:
    """Kill a process and its group; gently: let the box's first process end the others, however long that takes."""
    if gently:
        process.terminate()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(pipe: int, take: Callable[[bytes], None], room: int) -> bool:
    """Read what is there, and a byte more than there is room for at most; False at the end."""
    try:
        chunk = os.read(pipe, min(_CHUNK, room + 1))
    except BlockingIOError:
        return True  # the command itself has read it
    take(chunk)
    return bool(chunk)


class Lines:
    """Hands on what is said line by line: printable letters only, and no more than is reasonable."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log, self._rest, self._left, self._lines = log, b"", _LOG_LIMIT, _LOG_LINES

    @property
    def full(self) -> bool:
        """Whether no more is logged."""
        return not self._lines

    def take(self, said: bytes) -> None:
        """Hand on what was said, as far as it makes lines."""
        if not self._lines:
            return
        kept = said[: self._left]
        self._left -= len(kept)
        *lines, self._rest = (self._rest + kept).split(b"\n")
        for line in list(filter(None, lines))[: self._lines]:
            self._lines -= 1
            self._log(printable(line.decode(errors="replace")[:1000]))
        if not self._lines or not self._left:
            self._lines = 0
            self._log(f"(and more: of one message only {_LOG_LINES} lines and {_LOG_LIMIT} bytes are logged)")
