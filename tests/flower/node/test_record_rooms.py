"""A room for each record: what an app does with one record cannot reach another, and no record spoils the training."""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pausefl.errors import ConfigError
from pausefl.flower.node import boxed_rooms, enter_box, guard, record_rooms
from pausefl.flower.node.box import Box, BoxError
from pausefl.flower.node.start import check
from pausefl.flower.protocol import Refusal
from pausefl.owner import data_records
from pausefl.owner.data_records import DataRecords
from pausefl.owner.owner_init import init_owner
from pausefl.privacy.mechanisms.record_sum import clipped_sum

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

COUNTED = platform.machine() == "x86_64"

HEAD = """
import ctypes, mmap, os, random, signal, socket, subprocess, sys, threading, time
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from pausefl.flower import record_in

app = ClientApp()

def added(message, number, **more):
    arrays = message.content.array_records["arrays"]
    row = {name: Array(np.full_like(array.numpy(), number)) for name, array in arrays.items()}
    return Message(RecordDict({"arrays": ArrayRecord({**row, **more})}), reply_to=message)
"""


def app_of(body: str, before: str = "") -> str:
    lines = "\n".join(f"    {line}" if line else "" for line in body.strip("\n").splitlines())
    return f"{HEAD}{before}\n@app.train()\ndef train(message, context):\n    data = record_in(message).data\n{lines}\n"


class Rooms:
    """An owner whose data is cut by pausefl; ``rows`` lets an app train on it, and tells what reached the gate."""

    def __init__(self, kit: ModuleType, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.kit, self.folder, self.seen = kit, folder, dict[str, Any]()

        def spied(*words: Any, **more: Any) -> Any:
            self.seen["rows"] = []
            for row in record_rooms.rows_from_rooms(*words, **more):
                self.seen["rows"].append(row)
                yield row

        patch.setattr(guard, "rows_from_rooms", spied)
        patch.setattr(
            DataRecords, "in_random_order", lambda self: list(range(len(self)))[: self.most]
        )  # what is left is looked for later

    def node(self, records: Sequence[bytes], **box: Any) -> Any:
        place = self.folder / f"owner-{len(list(self.folder.iterdir()))}"
        data = place.with_suffix(".txt")
        data.write_bytes(b"".join(line + b"\n" for line in records))
        init_owner(place, "clinic", records_from=data, budget=9e5, releases=1, clip=200.0)
        return self.kit.node_of(place / "owner.toml").limited(**{"time_limit": 120.0, **box})

    def rows(self, client: str, records: Sequence[bytes], **box: Any) -> np.ndarray:
        """Return the first number of each row."""
        node = self.node(records, **box)
        reply = node.ask(node.app(client).content)
        assert not reply.has_error() and node.charges == 1
        size = sum(tensor.size for tensor in self.kit.model().values())
        whole = np.array(
            [
                np.zeros(size) if row is None else np.concatenate([np.ravel(tensor) for tensor in row.values()])
                for row in self.seen.pop("rows")
            ]
        )
        total = clipped_sum(whole.astype(float), 200.0, len(records)) / len(records)
        assert np.abs(self.kit.update(reply) - total).max() < 1.0
        assert (whole == whole[:, :1]).all()
        return np.asarray(whole[:, 0])


@pytest.fixture
def rooms(kit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rooms:
    return Rooms(kit, tmp_path, monkeypatch)


BOXES = [{}, {"closed": False}, pytest.param({"user": "nobody"}, marks=ROOT_ONLY)]


@pytest.mark.parametrize("box", BOXES, ids=["closed", "open", "user"])
def test_a_row_is_what_the_app_adds_for_its_record(rooms: Rooms, box: dict[str, Any]) -> None:
    rows = rooms.rows(app_of("return added(message, float(data))"), [b"1", b"2.5", b"", b"-7"], **box)
    assert rows.tolist() == [1.0, 2.5, 0.0, -7.0]


def test_a_file_of_a_folder_has_its_name(rooms: Rooms, kit: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    for name, content in (("cat/1", b"12345"), ("d\udcff/2", b"1")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    init_owner(tmp_path / "owner", "clinic", records_from=folder)
    node = kit.node_of(tmp_path / "owner" / "owner.toml")
    node.ask(node.app(app_of("return added(message, len(data) * 10 + len(record_in(message).name))")).content)
    assert [row["b"][0] for row in rooms.seen["rows"]] == [55.0, 14.0]


FAILURES = {
    "raises": "raise ValueError(data)",
    "exits": "sys.exit(3)",
    "vanishes": "os._exit(0)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL); os.abort()",
    "crashes": "ctypes.string_at(0)",
    "hangs": "time.sleep(1000)",
    "is deaf": "[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(1000)",
    "takes memory": "hog = [bytearray(1 << 26) for _ in range(1 << 20)]",
    "another shape": "return added(message, 1.0, b=Array(np.zeros(3, np.float32)))",
    "another tensor": "return added(message, 1.0, c=Array(np.zeros(3, np.float32)))",
    "no tensor": "return Message(RecordDict(), reply_to=message)",
    "no message": "return 5",
    "whole numbers": "return added(message, 1.0, b=Array(np.zeros(10, dtype=complex)))",
    "many words": "print('x' * (1 << 22)); raise ValueError",
    "no room left for the row": "[os.write(1, bytes(4096)) for _ in range(999)]",
    "closed files": "os.closerange(0, 64); raise ValueError",
    "no room on its row": "os.ftruncate(4, 1); raise ValueError",
    "no app": "app._registered_funcs.clear(); raise SystemExit",
}


def test_a_record_with_which_the_app_fails_counts_as_zeros_and_spoils_no_other(rooms: Rooms) -> None:
    body = "".join(f"if data == {name.encode()!r}:\n    {what}\n" for name, what in FAILURES.items())
    records = [b"1", *(name.encode() for name in FAILURES), b"2"]
    rows = rooms.rows(app_of(f"{body}return added(message, float(data))"), records, time_limit=60.0, memory=1 << 31)
    assert rows.tolist() == [1.0, *(0.0 for _ in FAILURES), 2.0]


def test_numbers_that_are_not_finite_fail_one_record_only(rooms: Rooms) -> None:
    node = rooms.node([b"1", b"nan", b"inf", b"3"])
    reply = node.ask(node.app(app_of("return added(message, float(data))")).content)
    assert not reply.has_error()
    assert abs(float(rooms.kit.update(reply).mean()) - 1.0) < 0.1  # (1 + 0 + 0 + 3) / 4


# By name: what leaves something behind, and what looks for it: a number that would tell.
WAYS = {
    "a module": ("sys.modules['left'] = sys", "'left' in sys.modules"),
    "a global": ("app.left = 1", "hasattr(app, 'left')"),
    "the state": ("context.state['left'] = ConfigRecord({'x': 1})", "len(context.state)"),
    "the message": ("message.content['left'] = ConfigRecord({'x': 1})", "'left' in message.content"),
    "the environment": ("os.environ['LEFT'] = '1'", "'LEFT' in os.environ"),
    "a file": ("open('/tmp/left', 'w').close()", "os.path.exists('/tmp/left')"),
    "many files": ("[open(f'/tmp/{n}', 'w').close() for n in range(99)]", "os.stat(open('/tmp/x', 'w').name).st_ino"),
    "shared memory": ("open('/dev/shm/left', 'w').close()", "os.path.exists('/dev/shm/left')"),
    "where it is": ("open('left', 'w').close()", "os.path.exists('left')"),
    "a number of threads": (
        "[threading.Thread(target=int).start() for _ in range(9)]",
        "start_thread(), threading.get_native_id()",
    ),
    "a thread that goes on": ("threading.Thread(target=time.sleep, args=[60], daemon=True).start()", "os.getpid()"),
    "the place in an open file": (
        "[os.lseek(fd, 5, 0) for fd in open_files()]",
        "sum(os.lseek(fd, 0, 1) for fd in open_files() if fd > 2), len(open_files())",
    ),
    "its row": ("os.pwrite(4, b'xxxx', 0)", "os.pread(4, 4, 0) != bytes(4)"),
    "a lock": ("fcntl.flock(os.open(__file__, 0), 2)", "fcntl.flock(os.open(__file__, 0), 6) is not None"),
    "chance": ("np.random.seed(5)", "np.random.get_state()[1][0]"),
    "a limit": ("resource.setrlimit(7, (40, 40))", "resource.getrlimit(7)[1]"),
    "a session": ("signal.alarm(1000)", "os.getsid(0), os.getpgid(0), os.getppid()"),
    "its name": ("ctypes.CDLL(None).prctl(15, b'left', 0, 0, 0)", "name_of()[:4] == b'left'"),
    "folders": ("os.makedirs('/tmp/a/b')", "os.stat('/tmp').st_nlink, os.stat('/').st_ino % 1000"),
}
# These do not even work in the room itself.
REFUSED = {
    "its own code": "open(__file__, 'a').write('#')",
    "bytecode": "open(__cached__, 'ab').write(b'#')",
    "a processor": "os.sched_setaffinity(0, {0})",
    "a mount": "assert ctypes.CDLL(None).umount2(b'/tmp', 2) == 0",
    "the right to mount": "assert ctypes.CDLL(None).unshare(0x20000) == 0",
    "new users": "assert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "a signal outside": "os.kill(os.getppid(), 9) if os.getppid() else int('outside')",
    "the machine's load": "int(open('/proc/loadavg').read()[0])",
    "the machine's memory": "open('/proc/meminfo')",
    "the processes of others": "open('/proc/2/status')",
    "its own in /proc": "open('/proc/self/stat')",
    "the disk": "os.statvfs('/')",
    "a key": "assert ctypes.CDLL(None).syscall(248, b'user', b'left', b'x', 1, -4) >= 0",
    "the network": "socket.socket(socket.AF_INET)",
    "a socket": "socket.socket(socket.AF_UNIX)",
    "two sockets": "socket.socketpair()",
    "a fork": "os.fork()",
    "a process": "subprocess.run(['/bin/true'])",
    "a spawned process": "os.posix_spawn('/bin/true', ['true'], {})",
    "a pipe": "os.pipe()",
    "memory with a number": "os.memfd_create('left')",
    "memory of System V": "assert ctypes.CDLL(None).shmget(77, 4096, 0o1666) >= 0",
    "semaphores": "assert ctypes.CDLL(None).semget(78, 1, 0o1666) >= 0",
    "a queue": "assert ctypes.CDLL(None).msgget(79, 0o1666) >= 0",
    "an event": "os.eventfd(0)",
    "a timer": "assert ctypes.CDLL(None).timerfd_create(1, 0) >= 0",
    "a descriptor of a process": "os.pidfd_open(os.getpid())",
    "what changes": "assert ctypes.CDLL(None).inotify_init() >= 0",
    "how nice it is": "os.nice(5)",
    "memory for others": "mmap.mmap(-1, 4096)",
    "a thread with a number": "assert ctypes.CDLL(None).syscall(56, 0x11000, 0, 0, 0, 0) >= 0",
    "a file by its handle": "assert ctypes.CDLL(None).name_to_handle_at(-100, b'/tmp', bytes(256), bytes(8), 0) == 0",
    "what processors count": "open('/sys/devices/system/cpu/cpu0/cpuidle/state0/usage')",
    "the machine's files": "int(os.stat('/sys/devices/system/cpu/online').st_dev != os.stat(__file__).st_dev) or 1 / 0",
    "what was used": "resource.getrusage(resource.RUSAGE_SELF)",
    "a file made large": "mmap.mmap(os.open(__file__, 0), 0, prot=mmap.PROT_READ).madvise(25)",
    "memory that is merged": "mmap.mmap(-1, 4096, mmap.MAP_PRIVATE).madvise(12)",
    "memory of a device": "os.open('/dev/zero', 2) and mmap.mmap(os.open('/dev/zero', 2), 4096)",
    "a named pipe": "os.mkfifo('/tmp/pipe')",
    "other program": "os.execv('/bin/true', ['true'])",
    "many words": "[os.write(1, bytes(1 << 16)) for _ in range(99)]",
    "many files": "[open(f'/tmp/{n}', 'w').close() for n in range(9999)]",
    "marks of a file": "os.setxattr('/tmp', 'user.left', b'x')",
    "the place of results": "os.listdir('/pausefl-out')[0]",
}
BEFORE = """
import fcntl, resource

def open_files():
    found = []
    for fd in range(64):
        try:
            os.lseek(fd, 0, 1)
        except OSError:
            continue
        found += [fd] if fd != 4 else []
    return found

def start_thread():
    ids = []
    one = threading.Thread(target=lambda: ids.append(threading.get_native_id()))
    one.start()
    one.join()
    return ids[0]

def name_of():
    name = ctypes.create_string_buffer(16)
    ctypes.CDLL(None).prctl(16, name, 0, 0, 0)
    return name.value
"""


def ways_app(ways: dict[str, tuple[str, str]]) -> str:
    """An app that leaves with a record "leave NAME", and looks with "look NAME"; its row is 1 more than it finds."""
    lines = [
        f"what, _, name = data.decode().partition(' ')\nfound = ({{name: w for name, w in {ways!r}.items()}})[name]"
    ]
    lines += ["if what == 'leave':", "    exec(found[0], {**globals(), **locals()})", "    return added(message, 1.0)"]
    lines += ["seen = eval(found[1], {**globals(), **locals()})"]
    lines += ["return added(message, 1.0 + (float(np.dot(seen, [1, 1000, 10][:len(seen)])) if isinstance(seen, tuple)"]
    lines += ["    else float(seen)))"]
    return app_of("\n".join(lines), BEFORE)


def test_nothing_of_one_record_is_found_with_another(rooms: Rooms) -> None:
    names = [name for name in WAYS for _ in range(3)]
    records = [
        f"{what} {name}".encode() for what, name in zip(("look", "leave", "look") * len(WAYS), names, strict=True)
    ]
    rows = rooms.rows(ways_app(WAYS), records).reshape(-1, 3)
    assert {name: row[1] for name, row in zip(WAYS, rows, strict=True) if row[1] != 1.0} == {}  # all were left
    assert {name: row for name, row in zip(WAYS, rows, strict=True) if row[0] != row[2]} == {}
    assert (rows != 0.0).all()  # a row of zeros would be an app that failed


def test_what_leads_out_of_a_room_does_not_work(rooms: Rooms) -> None:
    rows = rooms.rows(
        ways_app({name: (way, "0") for name, way in REFUSED.items()}), [f"leave {name}".encode() for name in REFUSED]
    )
    assert {name: row for name, row in zip(REFUSED, rows, strict=True) if row} == {}


LEARNT = """
import zlib
if data == b"fail":
    raise ValueError
if data == b"late":
    time.sleep(1000)
from pausefl.flower.node import boxed_rooms
code = [one.__code__._co_code_adaptive for one in (boxed_rooms._room, boxed_rooms._keep, boxed_rooms._in_room)]
return added(message, 1.0 + zlib.crc32(b"".join(code)) % 100_000)
"""


def test_the_process_that_makes_rooms_does_not_learn_how_they_end(rooms: Rooms) -> None:
    """Python rewrites its own code as it runs: a branch that was taken once could be seen in all later copies."""
    rows = rooms.rows(app_of(LEARNT), [b"look"] * 10 + [b"fail", b"late"] + [b"look"] * 4, time_limit=40.0)
    looked = np.delete(rows, [10, 11])
    assert (looked == looked[0]).all() and looked[0] > 0.0 and not rows[10:12].any()


def test_a_record_that_cannot_be_read_has_a_room_too(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the number of rooms would tell the next ones of it."""
    monkeypatch.setattr(data_records, "MOST_BYTES", 4)
    rows = rooms.rows(app_of("return added(message, os.fstat(1).st_ino)"), [b"1", b"12345", b"2", b"3"])
    assert rows[1] == 0.0 and rows[2] - rows[0] == 2 * (rows[3] - rows[2])


def test_a_record_that_cannot_be_handed_over_fails_alone(rooms: Rooms) -> None:
    """A service can have a limit on the size of files; memory that is handed over counts as one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    records = [b"1", b"9" * (4 << 20), b"3"]
    node = rooms.node(records)
    bundle = node.app(app_of("return added(message, len(data))"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, before[1]))
    try:
        reply = node.ask(bundle.content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not reply.has_error()
    assert [row and row["b"][0] for row in rooms.seen["rows"]] == [1.0, None, 1.0]


def test_a_long_record_takes_no_more_of_the_machines_memory_than_a_short_one() -> None:
    """Else a server that leaves hardly any finds by it whether there is one."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20

    before = resident()
    with record_rooms._RecordMemory() as held:
        full = resident()
        with held.lent(40 << 20):
            lent = resident()
        with held.lent(1 << 40), held.lent(0):
            empty = resident()
        again = resident()
    assert full - before == pytest.approx(128, abs=4) and again == pytest.approx(full, abs=4)
    assert full - lent == pytest.approx(80, abs=4) and full - empty == pytest.approx(128, abs=4)


def test_no_long_record_stays_in_memory_after_its_room(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    resident: list[int] = []
    row = record_rooms.from_bytes

    def measured(*words: Any) -> Any:
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20)
        return row(*words)

    monkeypatch.setattr(record_rooms, "from_bytes", measured)
    long = b"1" * (50 << 20)
    rooms.rows(app_of("return added(message, 1.0)"), [b"1", b"1", long, b"1", long, b"1"])
    assert len(resident) == 6 and np.ptp(resident[1:]) < 8, resident


def test_each_record_borrows_memory_by_its_own_size(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[int] = []
    take = record_rooms._RecordMemory.lent
    monkeypatch.setattr(record_rooms._RecordMemory, "lent", lambda self, size: lent.append(size) or take(self, size))
    rooms.rows(app_of("return added(message, float(data))"), [b"1", b"2.5", b""])
    assert sorted(lent) == [0, 1, 3]


def test_code_below_a_folder_of_a_room_is_there(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python environment may lie in /tmp, and many packages load parts of them late."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="with blank ") as folder:
        (Path(folder) / "late_part.py").write_text("number = 7.0\n")
        monkeypatch.syspath_prepend(folder)
        body = "import importlib\nname = 'late_' + 'part'\nreturn added(message, importlib.import_module(name).number)"
        assert rooms.rows(app_of(body), [b"1", b"2"]).tolist() == [7.0, 7.0]
        body = f"import pathlib\npathlib.Path({folder!r}, 'left').touch()\nreturn added(message, 1.0)"
        assert rooms.rows(app_of(body), [b"1"] * 4).tolist() == [0.0] * 4, "it is read-only"
        record_rooms.check_rooms(Box())


def test_what_others_left_in_a_folder_of_a_room_is_found(tmp_path: Path) -> None:
    assert list(boxed_rooms._left_in(tmp_path)) == []
    (tmp_path / "code" / "deep").mkdir(parents=True)
    assert list(boxed_rooms._left_in(tmp_path)) == [tmp_path / "code" / "deep"]
    (tmp_path / "code" / "deep" / "left").touch()
    (tmp_path / "link").symlink_to("/")
    assert set(boxed_rooms._left_in(tmp_path)) == {tmp_path / "code" / "deep" / "left", tmp_path / "link"}


def test_without_a_limit_of_the_owner_a_room_has_a_part_of_the_memory(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To end a process that has mapped all memory could take longer than there is time for the next record."""
    monkeypatch.setattr(record_rooms, "memory_there", lambda: 4 << 30)
    body = "mmap.mmap(-1, int(data) << 20, flags=mmap.MAP_PRIVATE)\nreturn added(message, 1.0)"
    assert rooms.rows(app_of(body), [b"900", b"1100", b"900"]).tolist() == [1.0, 0.0, 1.0]


def test_how_long_packages_take_to_load_does_not_change_the_time_of_a_record(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, row, start = [], record_rooms._row, Box.started
    monkeypatch.setattr(record_rooms, "_row", lambda *words: told.append(words[3]) or row(*words))

    def slow(*words: Any, **more: Any) -> Any:
        time.sleep(2.0)
        return start(*words, **more)

    for started in (start, slow):
        monkeypatch.setattr(Box, "started", started)
        rooms.rows(app_of("return added(message, 1.0)"), [b"1", b"2"], time_limit=30.0)
    assert told == [record_rooms.seconds_each(15.0, 2)] * 4


@pytest.mark.parametrize("what", ["in sight of the app", "too many"])
def test_records_that_were_changed_since_the_start_are_refused_before_the_charge(what: str, rooms: Rooms) -> None:
    node = rooms.node([b"1"], time_limit=0.5)
    bundle, file = node.app(app_of("return added(message, 1.0)")), node.guard.owner
    if what == "too many":
        file.write_text(file.read_text().replace("examples = 1 ", "examples = 500 "))
    else:
        old = str(node.folder.with_suffix(".txt"))
        file.write_text(file.read_text().replace(old, str(Path(sys.prefix) / "records.csv")))
    assert Refusal.of(node.ask(bundle.content).error) == Refusal("unready")
    assert node.charges == 0 and "rows" not in rooms.seen


def test_the_ways_would_be_found_without_rooms(rooms: Rooms) -> None:
    """Else the tests above would show nothing.  Where a machine allows no box, each record has only its own process."""
    place = f"/tmp/left-{os.getpid()}"
    ways = {"a file": (f"open({place!r}, 'w').close()", f"os.path.exists({place!r})"), "a global": WAYS["a global"]}
    records = [f"{what} {name}".encode() for name in ways for what in ("look", "leave", "look")]
    try:
        assert rooms.rows(ways_app(ways), records, closed=False).tolist() == [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    finally:
        Path(place).unlink(missing_ok=True)


def test_without_a_box_temporary_files_of_a_record_are_gone_before_the_next(rooms: Rooms, tmp_path: Path) -> None:
    """Else they would fill the disk, and the records after a long one would fail."""
    found = tmp_path / "found"
    body = f"""
import tempfile
with open({str(found)!r}, "a") as log:
    for place in (os.getcwd(), tempfile.mkdtemp(), os.path.expanduser("~")):
        open(os.path.join(place, "work"), "wb").write(data)
        print(place, file=log)
    print(*os.listdir(os.path.dirname(os.getcwd())), file=log)
return added(message, 1.0)"""
    assert rooms.rows(app_of(body), [b"1", b"2", b"3"], closed=False).tolist() == [1.0] * 3
    lines = found.read_text().splitlines()
    places = [Path(line) for number, line in enumerate(lines) if number % 4 < 3]
    assert len(set(places)) == 7, "each has two folders of its own"
    assert not any(place.exists() for place in places)
    assert all(len(line.split()) == 2 for line in lines[3::4]), "of this record alone"


def test_each_record_has_the_same_time_whatever_the_others_take(rooms: Rooms) -> None:
    body = "time.sleep(1000 if data == b'slow' else 0)\nreturn added(message, 1.0)"
    rows = rooms.rows(app_of(body), [b"slow", b"1", b"slow", b"2"], time_limit=16.0)
    assert rows.tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize(("paced", "closed"), [(False, True), (True, True), (False, False)])
def test_the_time_of_day_tells_nothing_of_other_records(
    rooms: Rooms, tmp_path: Path, paced: bool, closed: bool
) -> None:
    """In a room it counts questions; a record also begins at its own time if they are paced.  Without a box it tells:
    a record can make all later ones begin later."""
    body = "now = time.time()\ntime.sleep(1.0 if data == b'slow' else 0)\n"
    body += "return added(message, now - message.metadata.created_at)"
    (tmp_path / "data").write_bytes(b"slow\n1\n2\n")
    node = rooms.node([b"1"])
    bundle, box = node.app(app_of(body)).content, replace(node.guard.box, time_limit=18.0, closed=closed)
    began = 123.456 if closed and COUNTED else time.time()
    with DataRecords(tmp_path / "data") as records:
        rows = record_rooms.rows_from_rooms(
            box,
            bundle,
            rooms.kit.request(),
            node.context,
            rooms.kit.model(),
            records,
            began=began,
            end=math.inf,
            paced=paced,
        )
        found = [float(row["b"][0]) for row in rows if row is not None]
    after_slow, after_fast = np.diff(found)
    if closed and COUNTED:
        assert len(found) == 3 and len(set(found)) == 1 and abs(found[0]) < 0.1, "it begins with the training"
    else:
        assert (after_slow - after_fast < 0.4) if paced else (after_slow - after_fast > 0.6)


@pytest.mark.skipif(not COUNTED, reason="the clock is counted on x86_64 only")
def test_the_time_of_day_in_a_room_is_that_of_the_training(rooms: Rooms) -> None:
    body = f"fine = abs(time.time() - {time.time()}) < 600 and abs(message.metadata.created_at - time.time()) < 600\n"
    assert rooms.rows(app_of(body + "return added(message, 2.0 * fine)"), [b"1"] * 4).tolist() == [2.0] * 4


def test_no_call_tells_a_room_the_time_of_day(rooms: Rooms) -> None:
    body = """
libc, out = ctypes.CDLL(None), ctypes.create_string_buffer(16)
told = [libc.syscall(*words) >= 0 for words in ((228, 0, out), (228, 5, out), (228, 11, out), (96, out, 0), (201, 0))]
return added(message, sum(told) + 10 * (libc.syscall(228, 1, out) == 0))
"""
    assert rooms.rows(app_of(body), [b"1", b"2"]).tolist() == [10.0, 10.0]


@pytest.mark.skipif(not COUNTED, reason="the clock is counted on x86_64 only")
def test_no_room_waits_until_a_time_of_day(rooms: Rooms) -> None:
    """It would wait less after a record that took long.  Waiting for some seconds is fine."""
    body = """
libc, place = ctypes.CDLL(None, use_errno=True), (ctypes.c_int * 16)()
def wait(number, *words):
    begun = time.monotonic()
    libc.syscall(number, *words)
    return time.monotonic() - begun > 0.1
def at(seconds):
    return (ctypes.c_long * 2)(int(seconds), 0)
lock, free = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
libc.sem_init(lock, 0, 0)
libc.sem_init(free, 0, 1)
soon, short, held = at(time.time() + 2), (ctypes.c_long * 2)(0, 200_000_000), (ctypes.c_int * 1)(2)
found = [
    wait(202, place, 9 | 256, 0, soon, None, -1), wait(202, held, 6, 0, soon), wait(230, 0, 1, soon, None),
    wait(230, 11, 1, soon, None), libc.sem_timedwait(lock, soon) == 0,
]
fine = [
    wait(202, place, 0, 0, short), wait(230, 0, 0, short, None), libc.sem_timedwait(free, soon) == 0,
    not threading.Event().wait(0.2), threading.Lock().acquire(timeout=0.1),
]
return added(message, 10 * sum(fine) + sum(found))
"""
    assert rooms.rows(app_of(body), [b"1", b"2"]).tolist() == [50.0, 50.0]


def test_a_package_with_threads_of_its_own_makes_no_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxed_rooms.os, "listdir", lambda _: ["1", "2", "3"])
    with pytest.raises(BoxError, match="runs 2 threads of its own; ask its author"):
        boxed_rooms._require_alone()


def test_the_time_of_a_record_follows_from_the_public_number_of_records(
    rooms: Rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty last line, or none, would otherwise give all other records a little more time, or less."""
    asked: list[int] = []
    told = record_rooms.seconds_each
    monkeypatch.setattr(
        record_rooms, "seconds_each", lambda left, count, **how: asked.append(count) or told(left, count, **how)
    )
    node = rooms.node([b"1", b"2", b"3"])
    bundle = node.app(app_of("return added(message, 1.0)")).content
    node.folder.with_suffix(".txt").write_bytes(b"1\n2\n")
    assert not node.ask(bundle).has_error() and len(rooms.seen["rows"]) == 2
    assert set(asked) == {3}


@pytest.mark.parametrize("more", [1, 5])
def test_of_more_records_than_the_owner_says_some_are_left_out(rooms: Rooms, more: int, caplog: Any) -> None:
    """One line break more in a text must not remove all rows: the noise would not hide that."""
    node = rooms.node([b"1"] * 4)
    bundle = node.app(app_of("return added(message, float(data))")).content
    node.folder.with_suffix(".txt").write_bytes(b"1\n" * (4 + more))
    assert not node.ask(bundle).has_error() and [row["b"][0] for row in rooms.seen["rows"]] == [1.0] * 4
    assert f"has {4 + more} records, but replies.examples is 4, so some are left out" in caplog.text


def test_too_many_records_for_the_time_are_refused_by_public_numbers_alone() -> None:
    assert record_rooms.seconds_each(3600.0, 5000) == pytest.approx(0.648)
    assert record_rooms.seconds_each(3600.0, 5000, paced=True) == pytest.approx(0.36)
    for paced, more in ((False, "$"), (True, ", and --answer-after with it")):
        record_rooms.check_time(521.0, 5000, paced=paced)
        with pytest.raises(BoxError, match=rf"leaves 0.046 for each of 5000 .*raise --time-limit to 521 or more{more}"):
            record_rooms.check_time(500.0, 5000, paced=paced)


def test_a_server_hands_no_record_to_an_app(rooms: Rooms, kit: ModuleType, node: Any) -> None:
    from flwr.app import ConfigRecord

    body = "return added(message, 1.0 if record_in(message) else 0.5)"
    bundle = node.app(f"{HEAD}\n@app.train()\ndef train(message, context):\n    {body}\n")
    message = kit.request()
    message.content["pausefl-record"] = ConfigRecord({"data": b"x", "name": ""})
    asked, _ = guard.app_request(message, node.context, 0.0)
    assert "pausefl-record" not in asked.content
    assert not node.guard.answer(bundle.content, message, node.context).has_error()


def test_a_node_tries_a_room_before_it_starts_and_lets_no_app_read_data(rooms: Rooms, tmp_path: Path) -> None:
    node = rooms.node([b"1", b"2"])
    check(node.guard, ("--insecure",))
    (tmp_path / "data").mkdir()
    with pytest.raises(ConfigError, match=r"names the data in records.path.*; leave --data out"):
        check(node.limited(data=(tmp_path / "data",)).guard, ("--insecure",))
    with pytest.raises(ConfigError, match=r"no app can train on your records: a time limit of 0.1 seconds"):
        check(node.limited(time_limit=0.1).guard, ("--insecure",))


def test_a_room_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Box, "_command", lambda *_: [sys.executable, "-c", "print('no room', flush=True)"])
    with pytest.raises(BoxError, match=r"no room; .*has ended"):
        record_rooms.check_rooms(Box())


def test_data_of_an_owner_that_is_gone_is_a_training_that_failed(rooms: Rooms, kit: ModuleType) -> None:
    node = rooms.node([b"1"])
    bundle = node.app(app_of("return added(message, 1.0)"))
    node.folder.with_suffix(".txt").unlink()
    reply = node.ask(bundle.content)
    assert not reply.has_error() and node.charges == 1 and "rows" not in rooms.seen


SCRIPT = """
import os, sys
source, out = sys.argv[1], []
box = {"__name__": "box"}
exec(source, box)
own = os.open("/proc/self/ns/pid", os.O_RDONLY)
box["prepare_rooms"](1)
for _ in range(2):
    box["next_fork_enters_new_processes"](own)
    child = os.fork()
    if not child:
        status = open("/proc/self/status")
        box["enter_room"](None, 1 << 30, False)
        seen = os.listdir("/proc"), os.listdir("/tmp"), os.getuid(), os.getpid()
        rights = [l.split()[1] for l in status if l.startswith("Cap")]
        open("/tmp/left", "w").close()
        print(seen, set(rights), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@ROOT_ONLY
def test_a_user_without_rights_can_make_rooms() -> None:
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no system Python")
    source = Path(enter_box.__file__).read_text()
    shown = {path: os.path.realpath(path) for path in ("/usr", "/bin", "/lib", "/lib64") if Path(path).exists()}
    plan = {"parent": os.getpid(), "shown": shown, "command": [str(python), "-c", SCRIPT, source], "user": None}
    plan |= {"memory": None, "blind": False, "spare_one": False, "rooms": True}
    found = subprocess.run(
        [python, "-I", "-S", "-c", source, json.dumps(plan)],
        user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert found.stdout == "(['cpuinfo'], [], 65534, 1) {'0000000000000000'}\n" * 2, found.stderr


def test_a_box_with_rooms_shows_no_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must stay hidden"):
        replace(Box(rooms=True), hidden=(Path(sys.prefix) / "records.csv",))
