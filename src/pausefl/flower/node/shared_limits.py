"""Limits of the machine that an app shares with the node outside of its box: what is too low is refused, or named."""

from __future__ import annotations

import os
import pwd
import resource
from contextlib import suppress
from pathlib import Path

from pausefl.errors import ConfigError, require
from pausefl.flower.node.box import Box
from pausefl.flower.node.enter_box import MOST_PROCESSES

_OWN = 300
"""Processes and threads that SuperNode, executor and task may need themselves."""
_FILES = 1 << 31
"""More open files than the processes of an app can hold."""
_MOST_SCORE = 300
"""In thousandths of the memory, what the node itself may have in the kernel's order, beside the half that the SuperNode
may hold: a box begins at 900."""
_BESIDE_ROOMS, _LEAST_SUPERNODE = 3 << 29, 3 << 27
"""Bytes of memory for the processes of a node, for packages, and for the files of a room; and for the SuperNode."""


def check_shared_limits(box: Box, proc: Path = Path("/proc")) -> None:
    """Refuse a limit on processes that an app can use up, so that the node cannot start its next task.

    And a node that the kernel would end before an app, where memory runs out: the server would see that.
    """
    score = _number(proc / "self/oom_score_adj") or 0
    bound = f"at most {_MOST_SCORE}, so that the kernel ends an app first"
    remedy = "write OOMScoreAdjust=0 into the service, or let Kubernetes run the container in the class Guaranteed"
    require(not box.closed or score <= _MOST_SCORE, "/proc/self/oom_score_adj", score, bound, remedy)
    most, me = resource.getrlimit(resource.RLIMIT_NPROC)[0], os.geteuid()
    if box.closed and box.user is None and me != 0 and most != resource.RLIM_INFINITY:
        least = _tasks_of(me) + MOST_PROCESSES + _OWN
        bound = f"at least {least}, for this user's tasks, an app and the node"
        require(most >= least, "limit on processes (ulimit -u)", most, bound, "raise it, for example in limits.conf")


def shared_limits(box: Box, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Return a warning for each limit that an app might use up for the node, too; the server would see it."""
    found: list[str] = []
    root = os.geteuid() == 0
    if not box.closed:
        return found
    if root and box.user is None:
        found.append(
            "this node runs as root, and the kernel lets root have any number of processes, so an app can use up those "
            "of the machine, and the server would see that; it can also read tables of the kernel that only root may "
            "read; run it as a plain user, or pass --box-user"
        )
    if box.user is not None and (others := _tasks_of(pwd.getpwnam(box.user).pw_uid)):
        found.append(
            f"user {box.user} has {others} processes already, which an app can count and which leave fewer for it; "
            "take a user for the box alone"
        )
    files = _number(proc / "sys/fs/file-max")
    if not root and files is not None and files < _FILES:
        found.append(
            f"fs.file-max is {files}, and an app can hold that many files open, which the server would see; run "
            f"`sysctl -w fs.file-max={_FILES}`"
        )
    pipes = _number(proc / "sys/fs/pipe-user-pages-hard")
    if not root and box.user is None and pipes:
        found.append(
            f"fs.pipe-user-pages-hard is {pipes}, and an app can use up that much, which the server would see; set it "
            "to 0, which means no limit"
        )
    if _number(proc / "sys/vm/overcommit_memory") == 2:
        found.append(
            "vm.overcommit_memory is 2, so an app can reserve all memory of the machine without being ended, which the "
            "server would see; run `sysctl -w vm.overcommit_memory=0`"
        )
    left = _tasks_left(proc / "self/cgroup", groups)
    if left is not None and left < MOST_PROCESSES + _OWN:
        found.append(
            f"only {left} tasks are left to this service, but an app and the node may need {MOST_PROCESSES + _OWN}; "
            "raise TasksMax, or the server will see that an app uses them up"
        )
    return found


def limit_own_memory(
    proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup"), *, rooms: bool = False
) -> None:  # fmt: skip
    """Let this process have half of the memory that there is: what it takes, the server chooses, and an app lacks it.

    A server could otherwise take memory while an app runs, until one record more makes the training fail.  Where there
    are ``rooms``, it has so much less that gate and room have their quarters, and all else its part.
    """
    most = supernode_memory(proc, groups, rooms=rooms)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def supernode_memory(
    proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup"), *, rooms: bool = False
) -> int:  # fmt: skip
    """Return how many bytes of memory the SuperNode may have."""
    return memory_there(proc, groups) // 2 - (_BESIDE_ROOMS if rooms else 0)


def check_memory_for_rooms() -> None:
    """Refuse a machine in which a server could take memory that a room or the gate needs."""
    whole, least = memory_there(), 2 * (_BESIDE_ROOMS + _LEAST_SUPERNODE)
    if whole < least:
        raise ConfigError(
            f"there are {whole >> 20} MiB of memory for this node, but to train on one record at a time it must have "
            f"{least >> 20} MiB, or a server could make one record fail the training; give the machine more, or raise "
            "MemoryMax"
        )


def memory_there(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of memory of the machine, or of the control groups of this process if they allow less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    places = _control_groups(proc / "self/cgroup", groups, "memory")
    found = (_number(one / name) for one in places for name in ("memory.max", "memory.limit_in_bytes"))
    return min((whole, *(limit for limit in found if limit is not None)))


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None


def _tasks_of(user: int) -> int:
    """Return how many processes and threads a user has now."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            count += len(list((process / "task").iterdir())) if process.stat().st_uid == user else 0
    return count


def _tasks_left(table: Path, groups: Path) -> int | None:
    """Return how many tasks the control groups of this process still allow; None if nothing tells."""
    places = _control_groups(table, groups, "pids")
    pairs = [(_number(one / "pids.max"), _number(one / "pids.current")) for one in places]
    return min((most - now for most, now in pairs if most is not None and now is not None), default=None)


def _control_groups(table: Path, groups: Path, what: str) -> list[Path]:
    """Return the control groups of this process that may limit something, from its own up (cgroups(7)).

    In version 2 all limits are in one tree, in version 1 each has a tree of its own.
    """
    found: list[Path] = []
    with suppress(OSError):
        for line in table.read_text(encoding="utf-8").splitlines():
            kind, names, path = line.split(":", 2)
            top = groups if kind == "0" else groups / what
            if kind == "0" or what in names.split(","):
                place = top / path.lstrip("/")
                found += [one for one in (place, *place.parents) if one.is_relative_to(top)]
    return found
