"""Limits of the machine that an app shares with the node outside of its box: what is too low is refused, or named."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from pausefl.errors import require
from pausefl.flower.node.box import Box
from pausefl.flower.node.enter_box import MOST_PROCESSES

_OWN = 300
"""Processes and threads that SuperNode, executor and task may need themselves."""
_FILES = 1 << 31
"""More open files than the processes of an app can hold."""


def check_shared_limits(box: Box) -> None:
    """Refuse a limit on processes that an app can use up, so that the node cannot start its next task."""
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
            "of the machine, and the server would see that; run it as a plain user, or pass --box-user"
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


def limit_own_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
    """Let this process have half of the memory that there is: what it takes, the server chooses, and an app lacks it.

    A server could otherwise take memory while an app runs, until one record more makes the training fail.
    """
    most = memory_there(proc, groups) // 2
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def memory_there(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of memory of the machine, or of the control groups of this process if they allow less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = (_number(one / "memory.max") for one in _control_groups(proc / "self/cgroup", groups))
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
    pairs = [(_number(one / "pids.max"), _number(one / "pids.current")) for one in _control_groups(table, groups)]
    return min((most - now for most, now in pairs if most is not None and now is not None), default=None)


def _control_groups(table: Path, groups: Path) -> list[Path]:
    """Return the control groups of this process, from its own up (cgroups(7))."""
    with suppress(OSError):
        for line in table.read_text(encoding="utf-8").splitlines():
            kind, _, path = line.split(":", 2)
            if kind == "0":
                place = groups / path.lstrip("/")
                return [one for one in (place, *place.parents) if one.is_relative_to(groups)]
    return []
