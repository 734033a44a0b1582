"""Enter the box and run one command in it: a script of its own, for Linux, that needs nothing but Python.

``python -I -S enter_box.py PLAN``: PLAN is JSON with ``parent`` (pid), ``shown`` (paths in the box, and the real path
of what is shown there, read-only), ``command``, ``user`` (``[uid, gid]`` or null), ``memory`` (bytes or null),
``blind`` (whether the machine's counters are out of sight), ``spare_one`` (whether one processor is left alone) and
``rooms`` (whether the command is our own, and makes a room for each record).

Three processes: the first makes the namespaces, the second is their init, builds the file system and gives up all
rights, the third is the command.  When one of the first two dies, all processes in the box die with it.

A box with rooms: the command keeps the one right to make namespaces and to mount.  For each record it starts a process
that calls :func:`enter_room` before it runs any code of the app.  A room is a blind box inside the box for one process,
with folders of its own, and it is gone when that process ends.

Reference: user_namespaces(7), mount_namespaces(7), pivot_root(2), capabilities(7), seccomp(2).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

NO_BOX = 97
"""The exit code where the box could not be made."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_Step: TypeAlias = tuple[int, int, int, int]

_NEW_USER = 0x10000000
_NEW_OTHERS = 0x00020000 | 0x40000000 | 0x20000000 | 0x08000000 | 0x04000000 | 0x02000000  # mnt net pid ipc uts cgroup
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH, _HERE, _RECURSIVE = 2, -100, 0x8000
_DEATH_SIGNAL, _DUMPABLE, _KEEP_RIGHTS, _BOUNDING_DROP, _NO_NEW_PRIVILEGES, _SECCOMP, _AMBIENT = 1, 4, 8, 24, 38, 22, 47
_MOUNTING, _DROPPING = 21, 8  # capabilities: CAP_SYS_ADMIN and CAP_SETPCAP
_NEW_PIDS, _NEW_MOUNTS, _THREAD, _WITH_NUMBER = 0x20000000, 0x00020000, 0x00010000, 0x00001000
_SHARED_MEMORY = 0x21  # of mmap: shared, and of no file
_ADVICES = (0, 1, 2, 3, 4, 8, 10, 11, 15, 16, 17, 18)
"""Of madvise, those that leave no mark on a file that others have mapped, and merge no memory with theirs."""
WRITABLE = ("/tmp", "/dev/shm")  # noqa: S108 - the box's, not the machine's
CODE, OUT = "/pausefl-app", "/pausefl-out"
"""Where the code of an app lies in a box with rooms, and where a room's row and words are written."""
_PROCESSORS, _COPIES = "/sys/devices/system/cpu", f"{CODE}/copies"
_ROOM_FOLDERS, _MOST_WORDS = "mode=1777,size=256m,nr_inodes=4096", 1 << 20
"""Folders of a room: small, so that to remove them takes no time; and bytes that an app may say in one."""
_FILES = 1 << 18
"""Files at most in a folder that can be written to: each takes a KiB of the kernel's memory, also if it is empty."""
_DEVICES = ("null", "zero", "full", "random", "urandom")

MOST_PROCESSES = max(256, 16 * (os.cpu_count() or 1))
"""Processes and threads of the box's user at most: some libraries start one for each processor, and all of them must
be ended before an answer leaves.  The kernel lets root have any number."""

_SIGNALS = 1024
"""Signals that wait in the box at most: outside, they count as those of the node's user."""

# System calls by machine.  Refused are connect, those that reach other processes, kernel keys or tracing, those that
# make or enter namespaces, and io_uring, which opens sockets past the filter.  Refused are also sendmsg and sendmmsg:
# they send open files, and a socket that waits in itself lives on, with its memory and its locks, after the box.  In
# a blind box also those that count what is on a disk, in memory or in a quota: sysinfo, syslog, ustat, statfs,
# fstatfs, quotactl, quotactl_fd.  Unknown are calls whose use the kernel counts for a user of the machine, or for the
# whole machine, whatever the namespace: epoll, inotify, fanotify, message queues and io_setup.  An app that uses a
# count up would end the node outside.  Unknown are also those that drop files from the machine's cache, or tell which
# are in it: mincore, fadvise64, preadv2 and pwritev2 (the C library then takes preadv and pwritev), process_madvise,
# cachestat, and four advices of madvise.  By them an app could leave a message for another one, or make the next task
# start late.  Calls that set how fast a process runs, and its limits, are refused for the box's first process, which
# must end all others.  In a room only those are allowed that a process needs for itself, for its threads and for files
# of its own.  So there is no call by which it could find, or change, something that is counted for the whole machine.
_CALLS = {
    "x86_64": {
        "audit": 0xC000003E, "clone": 56, "fcntl": 72, "sendto": 44, "socket": 41, "socketpair": 53,
        "refused": (42, 46, 101, 248, 249, 250, 272, 298, 307, 308, 310, 311, 321, 323, 425, 426, 427),
        "ioctl": 16, "set_processors": 203, "madvise": 28, "set_limit": 160, "set_any_limit": 302,
        "clock": 228, "time_of_day": (96, 201), "futex": 202, "sleep": 230,
        "priority": 141, "disk_priority": 251, "pace": (142, 144, 203, 314), "prctl": 157, "sync": (162, 306),
        "counters": (99, 103, 136, 137, 138, 179, 443), "unknown": (206, 213, 240, 253, 291, 294, 300),
        "cache": (27, 221, 327, 328, 440, 451),
        "mmap": 9, "statx": 332,
        # read to lseek, mprotect to rt_sigreturn, pread64 to access, select to msync, dup to alarm, setitimer, getpid,
        # exit, wait4, kill, uname, flock to umask (without chown), gettimeofday, getrlimit, times to getegid (without
        # syslog, setuid, setgid), getppid, getpgrp, getgroups to getsid, capget, rt_sigpending, rt_sigsuspend,
        # sigaltstack, sched_get*, prctl, arch_prctl, setrlimit, gettid, tkill, time, futex, sched_getaffinity,
        # getdents64, set_tid_address, clock_*, exit_group, tgkill, utimes, the calls with a folder, robust lists,
        # utimensat, fallocate, dup3, preadv, pwritev, prlimit64, getcpu, renameat2, getrandom, membarrier, rseq,
        # close_range, faccessat2.
        "alone": (
            *range(9), *range(10, 16), *range(17, 22), *range(23, 27), *range(32, 40), 60, 61, 62, 63,
            *range(73, 92), 95, 96, 97, 100, 102, 104, 107, 108, 110, 111, 115, 118, 120, 121, 124, 125, 127, 130,
            131, 143, 145, 146, 147, 157, 158, 160, 186, 200, 201, 202, 204, 217, 218, 228, 229, 230, 231, 234,
            235, 257, 258, 262, 263, 264, 265, 266, 267, 268, 269, 270, 271, 273, 274, 280, 285, 292, 295, 296,
            302, 309, 316, 318, 324, 334, 436, 439,
        ),
    },
    "aarch64": {
        "audit": 0xC00000B7, "clone": 220, "fcntl": 25, "sendto": 206, "socket": 198, "socketpair": 199,
        "refused": (203, 211, 117, 217, 218, 219, 97, 241, 268, 269, 270, 271, 280, 282, 425, 426, 427),
        "ioctl": 29, "set_processors": 122, "madvise": 233, "set_limit": 164, "set_any_limit": 261,
        "clock": 113, "time_of_day": (169,), "futex": 98, "sleep": 115,
        "priority": 140, "disk_priority": 30, "pace": (118, 119, 122, 274), "prctl": 167, "sync": (81, 267),
        "counters": (43, 44, 60, 116, 179, 443), "unknown": (0, 20, 26, 180, 262),
        "cache": (223, 232, 286, 287, 440, 451),
        "mmap": 222, "statx": 291,
        "alone": (
            17, 23, 24, 32, 34, 35, 36, 37, 38, 45, 46, 47, 48, 49, 50, 52, 53, 56, 57, *range(61, 71), 72, 73, 78,
            79, 80, 82, 83, 88, 90, 93, 94, 96, 98, 99, 100, 101, 102, 103, 113, 114, 115, 120, 121, 123, 124, 125,
            126, 129, 130, 131, 132, 133, 134, 135, 136, 139, 148, 150, 153, 155, 156, 158, 160, 163, 164, 166,
            167, 168, 169, *range(172, 179), 214, 215, 216, 226, 227, 260, 261, 276, 278, 283, 293, 436, 439,
        ),
    },
}  # fmt: skip
_MOUNT_SETATTR, _CLONE3 = 442, 435  # on every machine
_TELLING_ADVICES, _MERGE = (12, 20, 21, 25), 67
"""Of madvise: mergeable, cold, page out and collapse, which change what others find in memory; of prctl: the first."""
OTHER_CLOCKS = (0, 5, 8, 11)
"""Numbers of clocks that tell the time of day: the real one, the coarse one, that of alarms, and atomic time."""
_MARKS = (1024, 1026, 1036, 1038, 1040)
"""Of fcntl: a lease, a watch, two hints and a delegation.  They make others wait, see what they do, or leave a mark."""
_FIRST, _OF_USER, _DISK_OF_USER = 1, 2, 3
"""The number of the box's first process; and how a call that sets a priority names all processes of a user."""
_LOCK_UNTIL, _REAL_TIME, _UNTIL = 6, 256, 1
"""Of futex: a lock that waits until a time of day, and a flag that means the time of day; of a sleep: until a time."""


def main() -> NoReturn:
    """Play all three processes; the exit code is the command's."""
    plan = json.loads(sys.argv[1])
    _call("prctl", _DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != plan["parent"]:
        os._exit(1)  # the parent died before it could be watched
    # Where memory runs out, the box goes first and not the gate outside; and of a box with rooms, the room.
    _write("/proc/self/oom_score_adj", "900" if plan["rooms"] else "1000")
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_OTHERS | (0 if plan["user"] else _NEW_USER))
    if not plan["user"]:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            _write(f"/proc/self/{name}", text)
    alive, life = os.pipe()
    _run(lambda: _as_init(plan, alive, life))


def _as_init(plan: dict[str, Any], alive: int, life: int) -> NoReturn:
    """Build the box, give up all rights, and wait for the command."""
    os.close(life)
    os.umask(0o022)  # the folders on the way to what is shown are for the box's user, too
    os.set_blocking(alive, False)
    _die_with_first(alive)
    _build(plan["shown"], plan["memory"], own=not plan["user"], blind=plan["blind"], rooms=plan["rooms"])
    _give_up_rights(plan["user"], (_MOUNTING, _DROPPING) if plan["rooms"] else ())
    _die_with_first(alive)  # once more: the kernel forgets it where the user changes
    os.close(alive)
    bound = plan["spare_one"] and _spare_one()
    if not plan["rooms"]:
        _close_in(plan["memory"], blind=plan["blind"], bound=bound)
    _run(lambda: _as_command(plan["command"]))


def _close_in(memory: int | None, *, blind: bool, bound: bool, alone: bool = False, counted: bool = False) -> None:
    """Set the limits of this process and of all that it starts, and refuse the calls that lead out."""
    _limit(resource.RLIMIT_CORE, 1)  # none, and not 0: the kernel would still hand a dump to a program of the machine
    _limit(resource.RLIMIT_NPROC, MOST_PROCESSES)
    _limit(resource.RLIMIT_SIGPENDING, _SIGNALS)
    if memory:
        _limit(resource.RLIMIT_AS, memory)
    _call("prctl", _DUMPABLE, 0)
    _filter_calls(blind=blind, bound=bound, alone=alone, counted=counted)


def next_fork_enters_new_processes(own: int) -> None:
    """Let the next fork be the first process of a namespace; ``own`` is the open file of this process's namespace."""
    _call("setns", own, _NEW_PIDS)  # back: the kernel refuses to leave the one of the last room for another one
    _call("unshare", _NEW_PIDS)


def same_number_for_next_process() -> None:
    """Let the next process have the same number as the last one: else it would count what rooms have started."""
    try:
        _write("/proc/sys/kernel/ns_last_pid", "100")
    except OSError:
        return  # the machine does not offer it


def prepare_rooms(size: int) -> None:
    """Make the folder for what comes out of rooms, a row of so many bytes and some words; and copy what rooms show.

    Libraries ask which processors there are.  They get a copy: the kernel's own files tell when somebody looked first.
    """
    copies = {"/proc": ["cpuinfo"], _PROCESSORS: ["online", "possible", "present", "cpu*/topology/*", "cpu*/cache/*/*"]}
    for folder, patterns in copies.items():
        target = Path(_COPIES + folder)
        target.mkdir(parents=True)
        for pattern in patterns:
            for path in Path(folder).glob(pattern):
                try:
                    content = path.read_bytes() if path.is_file() else b""
                except OSError:
                    continue
                copy = target / path.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
    _mount("rooms", OUT, "tmpfs", _NO_SUID | _NO_DEV | _NO_EXEC, f"mode=0700,size={size + _MOST_WORDS},nr_inodes=16")


def enter_room(memory: int | None, more_memory: int, counted: bool) -> None:
    """Enter a new room, give up the last rights, and refuse the calls that lead out.

    It can map ``memory`` bytes; without that number, ``more_memory`` more than what it has now: so that one record
    drives neither others nor the code of packages out of the machine's memory, and its process ends in a short time.
    ``counted``: the time of day counts questions in it, so the calls for the machine's are refused.

    Law: nothing that this process does afterwards can be found by the first process of another room: no file, no
    process, no number that counts them.  In a room is one process, with threads, and its own folders to write to.
    """
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names, and nothing else is needed
    if threads != 1:
        raise OSError(errno.EBUSY, f"a package of the machine starts threads in each process, {threads} of them")
    _write("/proc/self/oom_score_adj", "1000")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _call("unshare", _NEW_MOUNTS)
    for place in WRITABLE:
        shown = _shown_below(place)
        _mount("room", place, "tmpfs", _NO_SUID | _NO_DEV, _ROOM_FOLDERS)
        for path, kept in shown.items():
            _bind(Path(f"/proc/self/fd/{kept}"), Path(path))
            os.close(kept)
    for place in ("/proc", OUT, "/dev/zero"):  # memory that is mapped from the last one is numbered for the machine
        _call("umount2", place.encode(), _DETACH)
    for place in ("/proc", _PROCESSORS):
        if Path(place).exists():
            _mount(_COPIES + place, place, None, _BIND)
            _restrict(place, _READ_ONLY | _NO_SUID | _NO_DEV | _NO_EXEC)
    _restrict(CODE, _READ_ONLY)
    _give_up_rights(None)
    _close_in(
        memory or pages * resource.getpagesize() + more_memory, blind=True, bound=True, alone=True, counted=counted
    )


def _shown_below(place: str) -> dict[str, int]:
    """Return what is mounted below a folder, code for instance, and an open file of each; parents stand for all."""
    names = [line.split()[1] for line in Path("/proc/self/mounts").read_bytes().splitlines()]
    found: dict[str, int] = {}
    for path in sorted(os.fsdecode(name.decode("unicode_escape").encode("latin-1")) for name in names):
        if path.startswith(f"{place}/") and not any(f"{path}/".startswith(f"{one}/") for one in found):
            found[path] = os.open(path, os.O_PATH)
    return found


def _as_command(command: list[str]) -> NoReturn:
    os.setsid()  # a group of its own: what it sends to its group must not stop the first process
    os.execve(command[0], command, dict(os.environ))  # noqa: S606 - told to


def _spare_one() -> bool:
    """Leave one processor to the rest of the machine; return whether there is another one."""
    _, *others = sorted(os.sched_getaffinity(0))
    if others:
        os.sched_setaffinity(0, others)
    return bool(others)


def _limit(what: int, most: int) -> None:
    _, old = resource.getrlimit(what)
    most = most if old == resource.RLIM_INFINITY else min(most, old)
    resource.setrlimit(what, (most, most))


def _die_with_first(alive: int) -> None:
    """Let the kernel end this process with the first one, which holds the other end of the pipe."""
    _call("prctl", _DEATH_SIGNAL, signal.SIGKILL)
    try:
        if not os.read(alive, 1):
            os._exit(1)  # it died before it could be watched
    except BlockingIOError:
        return


def _run(play: Callable[[], NoReturn]) -> NoReturn:
    """Play the next process, and end as it ends."""
    child = os.fork()
    if not child:
        _played(play)
    # Asked to stop, kill and wait: an init is dead only after all in its box are.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # by which the command could make this one end as if there was no box
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _played(play: Callable[[], NoReturn]) -> NoReturn:
    try:
        play()
    except OSError as error:
        sys.stderr.write(f"pausefl box: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(NO_BOX)


def _size_of_folders(memory: int | None) -> str:
    """Return the options of one of the two folders that can be written to: together they hold ``memory``."""
    return (
        f"mode=1777,size={memory // 2 if memory else '25%'},nr_inodes={min(_FILES, memory >> 13) if memory else _FILES}"
    )


def _build(shown: Mapping[str, str], memory: int | None, *, own: bool, blind: bool, rooms: bool) -> None:
    """Make a file system of what is shown, read-only, and of empty folders; leave the machine's behind.

    The folders that can be written to lie in memory: together they hold ``memory`` bytes, or half of the machine's.
    ``own``: the user namespace is the box's own, so its limits may be changed.  ``blind``: of /proc only the kind of
    the processors.
    ``rooms``: one folder more, for code that all rooms read.  Its /proc is for our own command, and in no room.
    """
    _mount(None, "/", None, _REC | _PRIVATE)
    base = Path("/tmp")  # noqa: S108 - covered in the box's own list of mounts only
    _mount("box", f"{base}", "tmpfs", _NO_SUID | _NO_DEV, "mode=0755")
    (base / "old").mkdir()
    (base / "new").mkdir()
    _call("pivot_root", bytes(base), bytes(base / "old"))
    os.chdir("/")
    _mount("box", "/new", "tmpfs", _NO_SUID | _NO_DEV, "mode=0755")
    for name in ("proc", "dev", "tmp"):
        Path("/new", name).mkdir(exist_ok=True)
    _mount("box", "/new/dev", "tmpfs", _NO_SUID | _NO_EXEC, "mode=0755")
    for name in _DEVICES:
        _show(f"/dev/{name}", f"/dev/{name}")
        _restrict(f"/new/dev/{name}", _READ_ONLY | _NO_SUID)  # they can be written to all the same, but not changed
    Path("/new/dev/shm").mkdir()
    Path("/new/dev/fd").symlink_to("/proc/self/fd")
    for place in WRITABLE:
        _mount("box", f"/new{place}", "tmpfs", _NO_SUID | _NO_DEV, _size_of_folders(memory))
    if rooms:
        for place in (CODE, OUT):
            Path(f"/new{place}").mkdir()
        _mount("box", f"/new{CODE}", "tmpfs", _NO_SUID | _NO_DEV, "mode=1777")
    for path in sorted(shown):  # parents first
        _show(shown[path], path)
        _restrict(f"/new{path}", _READ_ONLY | _NO_SUID | _NO_DEV, _RECURSIVE)
    _mount("proc", "/new/proc", "proc", _NO_SUID | _NO_DEV | _NO_EXEC)
    if own:
        _write("/new/proc/sys/user/max_user_namespaces", "0")
    if blind or rooms:
        _cover_processor_counters()
    if blind:
        _leave_processors_only()
    elif not rooms:
        _restrict("/new/proc", _READ_ONLY)
    Path("/new/old").mkdir()
    _call("pivot_root", b"/new", b"/new/old")
    os.chdir("/")
    _call("umount2", b"/old", _DETACH)
    Path("/old").rmdir()
    for place in ("/dev", "/"):
        _restrict(place, _READ_ONLY)
    os.chdir(base)


def _cover_processor_counters() -> None:
    """Cover what processors count of their own work."""
    for counters in Path("/new/sys/devices/system/cpu").glob("cpu*/*"):
        known = counters.name in ("topology", "cache") or counters.is_symlink()
        if counters.is_dir() and not known:
            _mount("box", str(counters), "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEV | _NO_EXEC, "size=4096")


def _leave_processors_only() -> None:
    """Leave nothing of /proc but a copy of what is said there about the processors, which libraries ask for.

    What it says of a single process counts for the whole machine, too: of its network, for one.
    """
    kinds = Path("/new/proc/cpuinfo").read_bytes()
    _call("umount2", b"/new/proc", _DETACH)
    Path("/new/proc/cpuinfo").write_bytes(kinds)


def _show(real: str, path: str) -> None:
    _bind(Path(f"/old{real}"), Path(f"/new{path}"))


def _bind(source: Path, target: Path) -> None:
    (target if source.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
    if not source.is_dir():
        target.touch()
    _mount(f"{source}", f"{target}", None, _BIND | _REC)


def _restrict(path: str, flags: int, how: int = 0) -> None:
    """Make a mount read-only and so on, with all below it where told so."""
    wanted = struct.pack("=QQQQ", flags, 0, 0, 0)
    _call("syscall", _MOUNT_SETATTR, _HERE, path.encode(), how, wanted, len(wanted))


def _give_up_rights(user: Sequence[int] | None, kept: Sequence[int] = ()) -> None:
    """Become the user, with no right but those that are kept, also after another program was started."""
    for number in range(64):
        if number not in kept and _LIBC.prctl(_BOUNDING_DROP, number, 0, 0, 0):
            break  # beyond the last one that this kernel knows
    _call("prctl", _AMBIENT, 4, 0, 0, 0)
    if user:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        _call("prctl", _KEEP_RIGHTS, 1 if kept else 0, 0, 0, 0)
        os.setresuid(user[0], user[0], user[0])
    low = sum(1 << number for number in kept)
    _call("capset", struct.pack("=II", 0x20080522, 0), struct.pack("=6I", low, low, low, 0, 0, 0))
    for number in kept:
        _call("prctl", _AMBIENT, 2, number, 0, 0)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def _filter_calls(*, blind: bool, bound: bool, alone: bool, counted: bool) -> None:
    """Refuse calls that lead out of the box, whatever is in its folders.

    Sockets are Unix sockets in pairs.  Some other kinds, such as vsock, belong to no namespace, and one that connects,
    or sends to a name, would reach whoever listens in a folder that is shown.  Ioctls are those of terminals and pipes:
    others ask a file system what it knows of a file, or let it remember more.  ``blind``: refuse the calls that count.
    ``bound``: to the processors that it has.  ``alone``: allow no other calls than those of a process by itself.
    ``counted``: refuse to tell the time of day, and let nothing wait until one.
    """
    calls = _calls()
    load, equal, any_bit, at_least, mask, end = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
    allow, kill = (end, 0, 0, 0x7FFF0000), (end, 0, 0, 0x80000000)
    errors = (errno.EACCES, errno.ENOSYS, errno.ENOTTY, errno.EPERM, errno.ETIMEDOUT, 0)
    refuse, unknown, no_terminal, not_here, too_late, done = ((end, 0, 0, 0x00050000 | error) for error in errors)
    word = [(load, 0, 0, 16 + 4 * place) for place in range(12)]  # two for each argument, the lower one first

    def either(place: int, values: Sequence[int], then: _Step, otherwise: _Step) -> list[_Step]:
        jumps = [(equal, len(values) - number, 0, value) for number, value in enumerate(values)]
        return [word[place], *jumps, otherwise, then]

    local = [
        word[0], (equal, 1, 0, 1), refuse,  # AF_UNIX
        word[2], (mask, 0, 0, 0xF), (equal, 1, 0, 1), (equal, 0, 1, 5), allow, refuse,  # stream or seqpacket
    ]  # fmt: skip
    rules = {
        **{number: [refuse] for number in calls["refused"]},
        **{number: [unknown] for number in (*calls["unknown"], *calls["cache"])},
        calls["madvise"]: either(4, _TELLING_ADVICES, refuse, allow),
        calls["prctl"]: either(0, (_MERGE,), refuse, allow),
        **{number: [done] for number in calls["sync"]},  # their time tells how much was written anywhere on the machine
        **{number: either(0, (_FIRST,), refuse, allow) for number in calls["pace"]},
        calls["priority"]: [word[0], (equal, 0, 1, _OF_USER), refuse, *either(2, (_FIRST,), refuse, allow)],
        calls["disk_priority"]: [word[0], (equal, 0, 1, _DISK_OF_USER), refuse, *either(2, (_FIRST,), refuse, allow)],
        _CLONE3: [unknown],  # its flags are out of sight; the C library then takes clone
        calls["clone"]: [word[0], (any_bit, 0, 1, _NEW_USER | _NEW_OTHERS), refuse, allow],
        calls["fcntl"]: either(2, _MARKS, refuse, allow),
        calls["set_limit"]: either(0, (resource.RLIMIT_CORE,), refuse, allow),
        calls["set_any_limit"]: [  # to ask for the limit of dumps is fine: then there is no new one
            word[0],
            (equal, 0, 1, _FIRST),
            refuse,
            word[2],
            (equal, 1, 0, resource.RLIMIT_CORE),
            allow,
            word[4],
            (equal, 1, 0, 0),
            refuse,
            word[5],
            (equal, 1, 0, 0),
            refuse,
            allow,
        ],
        calls["sendto"]: [word[8], (equal, 1, 0, 0), refuse, word[9], (equal, 1, 0, 0), refuse, allow],
        calls["ioctl"]: [word[2], (mask, 0, 0, 0xFFFFFF00), (equal, 0, 1, 0x5400), allow, no_terminal],
        calls["socket"]: local,
        calls["socketpair"]: local,  # also here: a datagram socket of a pair can still send to a name
    }
    if blind:
        rules |= {number: [refuse] for number in calls["counters"]}
    if bound:
        rules[calls["set_processors"]] = [refuse]
    if alone:
        kept = ("fcntl", "ioctl", "prctl", "set_limit", "set_any_limit")  # as they are above
        rules = {number: [allow] for number in calls["alone"]} | {calls[name]: rules[calls[name]] for name in kept}
        rules |= {_CLONE3: [unknown], calls["statx"]: [unknown]}  # the C library then takes clone and fstatat
        rules[calls["clone"]] = [word[0], (any_bit, 0, 2, _THREAD), (any_bit, 1, 0, _WITH_NUMBER), allow, refuse]
        rules[calls["madvise"]] = either(4, _ADVICES, allow, refuse)
        rules[calls["mmap"]] = [word[6], (mask, 0, 0, _SHARED_MEMORY), (equal, 0, 1, _SHARED_MEMORY), refuse, allow]
    if counted:
        rules |= {number: [refuse] for number in calls["time_of_day"]}
        rules[calls["clock"]] = either(0, OTHER_CLOCKS, refuse, allow)
        # To wait until a time of day would end sooner, or at once, after records that took long.  Here it always does.
        rules[calls["sleep"]] = [word[2], (any_bit, 1, 0, _UNTIL), allow, *either(0, OTHER_CLOCKS, done, allow)]
        rules[calls["futex"]] = [
            word[2],
            (any_bit, 2, 0, _REAL_TIME),
            (mask, 0, 0, 0x7F),
            (equal, 0, 4, _LOCK_UNTIL),
            word[6],
            (equal, 0, 3, 0),
            word[7],
            (equal, 0, 1, 0),
            allow,
            too_late,
        ]
    steps = [(load, 0, 0, 4), (equal, 1, 0, calls["audit"]), kill]
    steps += [(load, 0, 0, 0), (at_least, 0, 1, 0x40000000), refuse]  # other numbers for the same calls
    for number, rule in rules.items():
        steps += [(equal, 0, len(rule), number), *rule]
    steps.append(not_here if alone else allow)
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    _call("prctl", _SECCOMP, 2, struct.pack("@HP", len(steps), ctypes.addressof(program)), 0, 0)


def _write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="ascii")


def _calls() -> dict[str, Any]:
    machine = platform.machine()
    if machine not in _CALLS:
        raise OSError(f"machine is {machine!r}, but the box knows {', '.join(_CALLS)} only")
    return _CALLS[machine]


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _call("mount", *words, ctypes.c_ulong(flags), options.encode())


def _call(name: str, *words: Any) -> None:
    if getattr(_LIBC, name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    _played(main)
