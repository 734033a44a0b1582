"""Ways by which a command in the box could reach a process outside, or make one wait: each is tried, for real."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.flower.node import enter_box
from pausefl.flower.node.box import Box, BoxError
from pausefl.flower.node.plain_files import require_plain_files

USERS = [
    None,
    pytest.param("nobody", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")),
]
TRY = """
import ctypes, fcntl, json, os, signal, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)

def call(*words):
    if libc.syscall(*words) < 0:
        raise OSError(ctypes.get_errno(), "call")

def new(kind):
    return socket.socket(socket.AF_UNIX, kind)

def worked(tries):
    found = []
    for name, one in tries.items():
        try:
            one()
        except OSError:
            continue
        found.append(name)
    print(json.dumps(found))
"""


def worked(tries: str, box: Box) -> list[str]:
    said: list[str] = []
    try:
        out = box.run([sys.executable, "-c", f"{TRY}\n{tries}"], b"", 1 << 20, said.append)
    except BoxError as error:
        raise AssertionError(said) from error
    found: list[str] = json.loads(bytes(out))
    return found


SOCKETS = """
folder = {folder!r}
def send(one, kind):
    words = [[b"stolen"], [], 0] if kind == "sendmsg" else [b"stolen"]
    getattr(one, kind)(*words, folder + "/datagram")

def talk(kind):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.sendall(b"x")
    other.recv(1)

worked({{
    "connect": lambda: new(socket.SOCK_STREAM).connect(folder + "/stream"),
    "connect a datagram": lambda: new(socket.SOCK_DGRAM).connect(folder + "/datagram"),
    "sendto": lambda: send(new(socket.SOCK_DGRAM), "sendto"),
    "sendmsg": lambda: send(new(socket.SOCK_DGRAM), "sendmsg"),
    "raw": lambda: send(new(socket.SOCK_RAW), "sendmsg"),
    "sendto of a pair": lambda: send(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0], "sendto"),
    "sendmsg of a pair": lambda: send(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0], "sendmsg"),
    "sendmsg of a raw pair": lambda: send(socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0], "sendmsg"),
    "sendmsg of a stream": lambda: send(socket.socketpair()[0], "sendmsg"),
    "files of a pair": lambda: socket.send_fds(socket.socketpair()[0], [b"x"], [0]),
    "sendmsg without a name": lambda: socket.socketpair()[0].sendmsg([b"x"]),
    "a pair, fine": lambda: talk(socket.SOCK_STREAM),
    "a pair of packets, fine": lambda: talk(socket.SOCK_SEQPACKET),
}})
"""


def test_sockets_in_a_folder_are_out_of_reach(tmp_path: Path) -> None:
    """A folder that is read-only does not help: to connect writes nothing into it."""
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        for one, name in ((stream, "stream"), (datagram, "datagram")):
            one.bind(str(tmp_path / name))
            one.setblocking(False)
        stream.listen()
        found = worked(SOCKETS.format(folder=str(tmp_path)), Box(data=(tmp_path,)))
        assert found == ["a pair, fine", "a pair of packets, fine"]
        for hear in (stream.accept, lambda: datagram.recv(10)):
            with pytest.raises(BlockingIOError):
                hear()


CALLS = """
new_user, clone, clone3 = 0x10000000, {{"x86_64": 56, "aarch64": 220}}[os.uname().machine], 435
known = {known!r}

def lease():
    fcntl.fcntl(os.open(known, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)

def marked(command, hint):
    opened = os.open(known if command != fcntl.F_NOTIFY else os.path.dirname(known), os.O_RDONLY)
    if libc.fcntl(opened, command, hint) < 0:
        raise OSError("refused")

def cloned(number, *words):
    child = libc.syscall(number, *words)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError("refused")

def thread():
    one = threading.Thread(target=print, args=("",), kwargs={{"file": sys.stderr}})
    one.start()
    one.join()

arguments = (ctypes.c_uint64 * 8)(new_user, 0, 0, 0, signal.SIGCHLD)
worked({{
    "clone": lambda: cloned(clone, new_user | signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": lambda: cloned(clone3, ctypes.byref(arguments), ctypes.sizeof(arguments)),
    "a lease": lease,
    "a watch": lambda: marked(fcntl.F_NOTIFY, 1),
    "a hint": lambda: marked(1036, ctypes.byref(ctypes.c_uint64(2))),
    "a hint for a file": lambda: marked(1038, ctypes.byref(ctypes.c_uint64(2))),
    "a plain clone, fine": lambda: cloned(clone, signal.SIGCHLD, 0, 0, 0, 0),
    "a thread, fine": thread,
    "a program, fine": lambda: subprocess.run(["true"], check=True),
}})
"""


@pytest.mark.parametrize("user", USERS)
def test_no_namespace_is_made_by_clone_and_no_lease_taken(user: str | None, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    tmp_path.chmod(0o755)
    (tmp_path / "known").chmod(0o644)
    if user:
        os.chown(tmp_path / "known", 65534, 65534)  # a lease is for the owner of a file
    found = worked(CALLS.format(known=str(tmp_path / "known")), Box(data=(tmp_path,), user=user))
    assert found == ["a plain clone, fine", "a thread, fine", "a program, fine"]


COUNTED = """
import asyncio, mmap, resource, select, selectors
from concurrent.futures import ProcessPoolExecutor

def call_of(name):
    def one():
        if getattr(libc, name)(*{{"fanotify_init": (0x200, 0), "mq_open": (b"/x", 66, 384, None)}}.get(name, (0,))) < 0:
            raise OSError(ctypes.get_errno(), name)
    return one

def aio():
    call({{"x86_64": 206, "aarch64": 0}}[os.uname().machine], 1, ctypes.byref(ctypes.c_ulong(0)))

def signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    for _ in range(5000):
        if libc.sigqueue(os.getpid(), 40, 0):
            raise OSError("refused")

def wait():
    asyncio.run(asyncio.sleep(0.01))
    assert selectors.DefaultSelector is selectors.PollSelector

def pool():
    with ProcessPoolExecutor(2) as two:
        assert list(two.map(abs, [-1, -2])) == [1, 2]

worked({{
    "epoll": select.epoll, "inotify": call_of("inotify_init"), "inotify1": call_of("inotify_init1"),
    "fanotify": call_of("fanotify_init"), "message queue": call_of("mq_open"), "aio": aio, "5000 signals": signals,
    "asyncio, fine": wait, "a pool, fine": pool,
}})
"""


@pytest.mark.parametrize("user", USERS)
def test_nothing_is_used_up_that_the_kernel_counts_for_the_node_s_user(user: str | None) -> None:
    """Watches of epoll, say: without any left, the SuperNode of the same user ends, and the server sees it."""
    assert worked(COUNTED.format(), Box(user=user)) == ["asyncio, fine", "a pool, fine"]


def test_a_signal_to_its_group_does_not_reach_the_process_outside() -> None:
    """SIGSTOP would stop it, and so make the box last longer than its time limit."""
    tries = "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nos.kill(0, signal.SIGUSR1)\nprint('[]')"
    assert worked(tries, Box()) == []


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_folders_in_memory_are_bounded(folder: str) -> None:
    code = f"size = os.statvfs({folder!r}); print(size.f_blocks * size.f_frsize)"
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    assert worked(code, Box(memory=1 << 30)) == 1 << 29
    assert worked(code, Box()) <= half // 2 + (1 << 20)


@pytest.mark.parametrize("user", USERS[1:])
def test_processes_are_bounded(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "enter_box.py"
    script.write_text(Path(enter_box.__file__).read_text().replace("_PROCESSES = max", "_PROCESSES = 20 or max"))
    monkeypatch.setattr(enter_box, "__file__", str(script))
    tries = "worked({str(n): lambda: os.fork() or signal.pause() for n in range(40)})"
    assert 0 < len(worked(tries, Box(user=user))) < 20


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users get to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def refused_by_another(folder: Path) -> bool:
    """Whether a user who is not root refuses a folder."""
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            require_plain_files(folder)
        except ConfigError as error:
            os._exit(3 if "can be entered but not listed" in str(error) else 4)
        except BaseException:
            os._exit(5)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 3)
    return code == 3


def test_a_folder_that_can_be_entered_but_not_listed_is_refused(open_folder: Path) -> None:
    """Nobody can look for a pipe there, and whoever knows its name can write to it."""
    dark = open_folder / "data" / "dark"
    dark.mkdir(parents=True)
    os.mkfifo(dark / "pipe")
    for mode, refused in {0o711: True, 0o700: False}.items() if os.geteuid() == 0 else {0o311: True, 0: False}.items():
        dark.chmod(mode)
        assert refused_by_another(open_folder / "data") == refused
    dark.chmod(0o700)


def test_folders_with_anything_but_files_are_refused(tmp_path: Path) -> None:
    """A pipe can be written to, also where its folder is read-only."""
    deep = tmp_path / "data" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "x.csv").touch()
    (deep / "link.csv").symlink_to("x.csv")
    (deep / "up").symlink_to(tmp_path)
    (deep / "nowhere").symlink_to("nothing")
    require_plain_files(tmp_path / "data")
    Box(data=(tmp_path / "data",)).check_folders()
    os.mkfifo(deep / "pipe")
    with pytest.raises(ConfigError, match=r"pipe' is a named pipe, a socket or a device"):
        Box(data=(tmp_path / "data",)).check_folders()
    (deep / "pipe").rename(tmp_path / "pipe")
    (deep / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="link' is a named pipe"):
        require_plain_files(tmp_path / "data")
    (deep / "link").unlink()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(deep / "s"))
        with pytest.raises(ConfigError, match="move it away"):
            require_plain_files(tmp_path / "data")


CACHE = """
import mmap
x86 = os.uname().machine == "x86_64"
file = os.open({known!r}, os.O_RDONLY)
page = mmap.mmap(file, 4096, prot=mmap.PROT_READ)

worked({{
    "fadvise": lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED),
    "mincore": lambda: call(27 if x86 else 232, 0, 0, 0),
    "cachestat": lambda: call(451, file, 0, 0, 0),
    "preadv2": lambda: os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT),
    "cold": lambda: page.madvise(20),
    "page out": lambda: page.madvise(21),
    "preadv, fine": lambda: os.preadv(file, [bytearray(1)], 0),
    "other advice, fine": lambda: page.madvise(mmap.MADV_DONTNEED),
}})
"""


@pytest.mark.parametrize("user", USERS)
def test_an_app_neither_drops_files_from_the_cache_nor_sees_which_are_there(user: str | None, tmp_path: Path) -> None:
    """By the cache an app could leave a message for the app of another node, or make the next task start late."""
    (tmp_path / "known").write_bytes(bytes(4096))
    tmp_path.chmod(0o755)
    (tmp_path / "known").chmod(0o644)
    for blind in (False, True):
        found = worked(CACHE.format(known=str(tmp_path / "known")), Box(data=(tmp_path,), user=user, blind=blind))
        assert found == ["preadv, fine", "other advice, fine"]


LIMITS = """
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
worked({
    "no dumps": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "no dumps of this process": lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)),
    "by an old call": lambda: call(160 if os.uname().machine == "x86_64" else 164, 4, ctypes.create_string_buffer(16)),
    "to ask, fine": lambda: resource.getrlimit(resource.RLIMIT_CORE),
    "another limit, fine": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)),
})
"""


@pytest.mark.parametrize("user", USERS)
def test_an_app_cannot_let_the_machine_take_a_dump_of_it(user: str | None) -> None:
    """A limit of 0 bytes still hands the dump to a program of the machine, and a limit of 1 does not."""
    assert worked(LIMITS, Box(user=user)) == ["to ask, fine", "another limit, fine"]


FIRST = """
import resource, struct
x86, last = os.uname().machine == "x86_64", struct.pack("=IIQi28x", 48, 0, 0, 19)
numbers = dict(attributes=314, priority=141, disk=251) if x86 else dict(attributes=274, priority=140, disk=30)
lock = os.memfd_create("lock")
few = resource.getrlimit(resource.RLIMIT_NOFILE)
worked({
    "attributes": lambda: call(numbers["attributes"], 1, last, 0),
    "scheduler": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    "parameter": lambda: os.sched_setparam(1, os.sched_param(0)),
    "processors": lambda: os.sched_setaffinity(1, {0}),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "priority of a user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
    "priority on disks": lambda: call(numbers["disk"], 1, 1, 3 << 13),
    "priority on disks of a user": lambda: call(numbers["disk"], 3, os.getuid(), 3 << 13),
    "limits": lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, few),
    "delegation": lambda: fcntl.fcntl(lock, 1040, 0),
    "merging": lambda: call(157 if x86 else 167, 67, 1, 0, 0, 0),
    "many files": lambda: [open(f"/tmp/{number}", "w").close() for number in range(300_000)],
    "what a disk keeps of a file": lambda: fcntl.ioctl(os.open(sys.executable, os.O_RDONLY), 0x40046629, bytes(4)),
    "flags of a file": lambda: fcntl.ioctl(os.open(sys.executable, os.O_RDONLY), 0x80086601, bytes(8)),
    "its own attributes, fine": lambda: call(numbers["attributes"], 0, last, 0),
    "its own priority, fine": lambda: os.nice(1),
    "its own processors, fine": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
    "its own limits, fine": lambda: resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, few),
})
"""


@pytest.mark.parametrize("user", USERS)
def test_the_process_that_ends_all_others_cannot_be_made_slow(user: str | None) -> None:
    found = worked(FIRST, Box(user=user))
    assert found == [f"its own {what}, fine" for what in ("attributes", "priority", "processors", "limits")]


@pytest.mark.parametrize("blind", [False, True])
def test_nothing_is_written_to_disks_for_the_box(blind: bool) -> None:
    """How long that takes would tell how much was written on the machine.  Here a file that is not open is no error."""
    tries = 'x86 = os.uname().machine == "x86_64"\nworked({"sync": lambda: call(306 if x86 else 267, -1)})'
    assert worked(tries, Box(blind=blind)) == ["sync"]


def test_a_command_that_takes_back_what_it_said_does_no_harm() -> None:
    """It can open its own pipe for reading."""
    code = """
import os, threading
back = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
def steal():
    while True:
        try: os.read(back, 1 << 16)
        except BlockingIOError: pass
threading.Thread(target=steal, daemon=True).start()
for _ in range(20000): os.write(1, b"x")
"""
    assert set(Box().run([sys.executable, "-c", code], b"", 1 << 20, print)) <= {ord("x")}


def test_a_command_cannot_say_that_there_was_no_box() -> None:
    code = "import os, time; os.kill(1, 2); time.sleep(0.5)"
    assert Box().run([sys.executable, "-c", code], b"", 9, print) == b""
