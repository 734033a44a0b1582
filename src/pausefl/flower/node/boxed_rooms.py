"""Inside the box: start a process for each record, in a room of its own, that runs the app on this record alone.

Law: the process that starts the others runs no code of the app, and never reads a record.  So what a new room begins
with is the same for every record.
"""

from __future__ import annotations

import ast
import compileall
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NoReturn, TypeAlias

from flwr.app import Context, Message
from flwr.clientapp.client_app import LoadClientAppError
from flwr.common.serde import context_from_proto, message_from_proto
from flwr.proto.message_pb2 import Context as ContextBytes
from flwr.proto.message_pb2 import Message as MessageBytes
from flwr.supercore.object_ref import load_app
from flwr.supercore.task_identity import TaskIdentity

from pausefl.flower.client import pass_through
from pausefl.flower.node import enter_box
from pausefl.flower.node.array_bytes import size_of, to_bytes
from pausefl.flower.node.box import BoxError, unpack
from pausefl.flower.node.boxed_app import send_torch_by_value
from pausefl.flower.node.bundle import Bundle, read_bundle
from pausefl.flower.node.record_rooms import DONE, FAILED, READY, ROOM, ROOM_WITH_CLOCK
from pausefl.flower.node.room_clock import count_time_of_day, counts_time_of_day
from pausefl.flower.protocol import arrays_in, with_record
from pausefl.owner.data_records import DataRecord

Limits: TypeAlias = tuple[int | None, int, bool]
"""How many bytes a room can map; without that number, how many more than it begins with; and whether the time of day
counts questions in it."""

_GIVEN, _ROW = 3, 4
"""The open files of a room: its record, and where its row goes.  Before them come nothing, and twice the words."""


def main(channel: str, memory: str, more_memory: str, begin: str, *words: str) -> None:
    """Make rooms for the records that come through the channel, until it ends; stdin has the app and its message.

    The time of day in them is that of ``begin``, in milliseconds since 1970.
    """
    with socket.socket(fileno=int(channel)) as way, tempfile.TemporaryDirectory() as folder:
        closed = "closed" in words
        work, size = (_probe, 1) if "try" in words else _prepared(Path(enter_box.CODE if closed else folder))
        if closed:
            enter_box.prepare_rooms(size)
        limits = int(memory) or None, int(more_memory), closed and count_time_of_day(int(begin))
        _require_alone()
        gc.collect()
        gc.freeze()
        own = os.open("/proc/self/ns/pid", os.O_RDONLY) if closed else None
        out = enter_box.OUT if closed else folder
        way.send(READY)
        # A process of its own waits for each room, and then ends in the same way, however the room has ended.  So this
        # one, of which all rooms are copies, learns nothing: also Python itself keeps marks of what it has done.
        while True:
            if closed:  # else it would be the machine's own count
                enter_box.same_number_for_next_process()
            keeper = os.fork()
            if not keeper:
                _keep(way, work, out, size, limits, own)
            if os.waitpid(keeper, 0)[1]:
                return


def _keep(
    way: socket.socket, work: Callable[[DataRecord], bytes], out: str, size: int, limits: Limits, own: int | None
) -> NoReturn:
    """Take one record, make a room for it, and send back what it has written; end with 1 if there is no record left."""
    code = 1
    try:
        told, files, _, _ = socket.recv_fds(way, 8, 1)
        if told:
            # In a file system of ours: the kernel numbers their files for the room, and not for the whole machine.
            files += [os.open(out, os.O_TMPFILE | os.O_RDWR, 0o600) for _ in range(2)]
            os.ftruncate(files[1], size)
            with nullcontext() if own is not None else _own_temporary_folder():
                fine = _room(work, files, limits, own, told)
            os.close(files[0])  # the memory of the record is free before anybody hears that the room has ended
            socket.send_fds(way, [DONE if fine else FAILED], files[1:])
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


@contextmanager
def _own_temporary_folder() -> Iterator[None]:
    """Where there are no rooms: a folder for the temporary files of one record, which no later one finds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tempfile.tempdir:
        os.environ["TMPDIR"] = tempfile.tempdir
        yield


def _require_alone() -> None:
    """Refuse memory that all rooms would have in common, and threads, which could change what a room begins with."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    shared = [line for line in lines if line.split()[1][1::2] == "ws"]
    if shared:
        raise BoxError(f"a package that the app imports shares memory between processes: {shared[0][:200]}")
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names, and nothing else is needed
    if threads != 1:
        raise BoxError(
            f"a package that the app imports runs {threads - 1} threads of its own; ask its author for one without"
        )


def _room(work: Callable[[DataRecord], bytes], files: list[int], limits: Limits, own: int | None, told: bytes) -> bool:
    """Run the work on one record in a room; return whether it ended well and in time."""
    if own is not None:
        enter_box.next_fork_enters_new_processes(own)
    child = os.fork()
    if not child:
        _in_room(work, files, limits, closed=own is not None)
    over = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([over], [], [], struct.unpack("!d", told)[0])
        if not ended:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(over)
        if own is None:  # without a box, it may have started others
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
    return bool(ended) and status == 0


def _in_room(work: Callable[[DataRecord], bytes], files: list[int], limits: Limits, *, closed: bool) -> NoReturn:
    code = 1
    try:
        os.setsid()
        _take(files)
        if closed:
            enter_box.enter_room(*limits)
        with os.fdopen(_GIVEN, "rb") as file:
            name, data = unpack(file.read(), 2)
        row = work(DataRecord(bytes(data), bytes(name).decode(errors="surrogateescape")))
        written = 0
        while written < len(row):  # a call may write a part
            written += os.pwrite(_ROW, row[written:], written)
        code = 0
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _take(files: list[int]) -> None:
    """Keep the files of this room and no other: what is written on, or moved in, another one could be found later."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    given, row, words, nothing = (fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 64) for handle in (*files, nothing))
    for source, target in ((nothing, 0), (words, 1), (words, 2), (given, _GIVEN), (row, _ROW)):
        os.dup2(source, target, inheritable=target < _GIVEN)
    os.closerange(_ROW + 1, os.sysconf("SC_OPEN_MAX"))


def _prepared(place: Path) -> tuple[Callable[[DataRecord], bytes], int]:
    """Unpack the app, load all that it needs and that is not its own; return the work on a record, and a row's size."""
    content, given, known = map(bytes, unpack(sys.stdin.buffer.read(), 3))
    message = message_from_proto(MessageBytes.FromString(given))
    context = context_from_proto(ContextBytes.FromString(known))
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, context.node_id, 1
    bundle, code = read_bundle(content), place / "app"
    code.mkdir()
    bundle.unpack(code)
    compileall.compile_dir(code, quiet=2)
    for name in _installed_modules(bundle):
        with suppress(BaseException):  # the app gets the same error when it asks for it
            importlib.import_module(name)
    pass_through()
    send_torch_by_value()
    _, model = arrays_in(message.content)
    return lambda record: _work(bundle, code, message, context, record), size_of(model)


def _work(bundle: Bundle, code: Path, message: Message, context: Context, record: DataRecord) -> bytes:
    """Return what the app adds to the model for one record."""
    empty = Path(tempfile.mkdtemp())
    os.chdir(empty)  # some packages read settings from where they are, without any code that names them
    _, model = arrays_in(message.content)
    app = load_app(bundle.components["clientapp"], LoadClientAppError, str(code))
    answer = app(message=with_record(message, record), context=context)
    return to_bytes(model, arrays_in(answer.content)[1])


def _installed_modules(bundle: Bundle) -> Iterator[str]:
    """Return what the app imports and does not bring along, by its source: nothing of the app is run."""
    own = {path.partition("/")[0].removesuffix(".py") for path in bundle.files}
    for path, content in bundle.files.items():
        if not path.endswith(".py"):
            continue
        try:
            found = list(ast.walk(ast.parse(content)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        names = [alias.name for one in found if isinstance(one, ast.Import) for alias in one.names]
        for one in found:
            if isinstance(one, ast.ImportFrom) and one.module and not one.level:
                names += [one.module, *(f"{one.module}.{alias.name}" for alias in one.names)]
        yield from (
            name for name in dict.fromkeys(names) if name.partition(".")[0] not in own and "__main__" not in name
        )


def _probe(record: DataRecord) -> bytes:
    """Look whether this is a room."""
    seen = [path for folder in enter_box.WRITABLE for path in _left_in(Path(folder))]
    seen += [path for path in Path("/proc").iterdir() if path.name != "cpuinfo"]
    with suppress(PermissionError):
        seen += map(Path, map(str, os.pipe()))
    if os.getpid() != 1 or seen:
        return b"0"
    return ROOM if counts_time_of_day() else ROOM_WITH_CLOCK


def _left_in(folder: Path) -> Iterator[Path]:
    """Return what is below a folder and its own: code of the machine may be mounted below it."""
    for path in folder.iterdir():
        if path.lstat().st_dev != folder.stat().st_dev:
            continue
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
            yield path
        else:
            yield from _left_in(path)
