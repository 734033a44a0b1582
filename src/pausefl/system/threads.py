"""Work that is shared among the cores of this machine by threads, for code that lets go of Python's lock."""

from __future__ import annotations

import mmap
import os
import resource
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

MOST_THREADS = 8
_HEAP, _STACK = 1 << 27, 1 << 23
"""Bytes of address space that the C library reserves for a thread: its heap, and its stack unless a limit says more."""


def core_count() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0))


def run_jobs(jobs: Sequence[Callable[[], None]], memory: int) -> None:
    """Do each job exactly once, in this thread and in as many more as there are cores; ``memory`` is what all need.

    Raise what a job raised, when no thread works any more; then some jobs were not done.  Where a thread cannot be
    started, or where it would take memory that the jobs need, this thread does more of them: that is no fault.
    """
    waiting, done, faults = deque(jobs), deque[None](), deque[BaseException]()

    def work() -> None:
        while not faults:
            try:
                job = waiting.popleft()
            except IndexError:
                return
            try:
                job()
                done.append(None)
            except BaseException as error:  # also Ctrl-C: the others stop first
                faults.append(error)

    helpers: list[Thread] = []
    with suppress(Exception):
        wanted = min(core_count(), MOST_THREADS, len(jobs)) - 1
        if wanted > 0:
            _require_room(wanted, memory)
        for _ in range(wanted):
            helper = Thread(target=work, daemon=True)
            helper.start()
            helpers.append(helper)
    work()
    for helper in helpers:
        helper.join()
    if faults:
        raise faults[0]
    if len(done) != len(jobs):
        raise RuntimeError(f"{len(done)} of {len(jobs)} jobs were done: a thread ended without a word")


def _require_room(threads: int, memory: int) -> None:
    """Raise if there is no address space for so many threads beside this memory; none of it is written to."""
    stack = max(_STACK, resource.getrlimit(resource.RLIMIT_STACK)[0])
    mmap.mmap(-1, threads * (_HEAP + stack) + memory, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
