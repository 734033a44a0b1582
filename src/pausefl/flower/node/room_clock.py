"""The clock of a room: the time of day counts how often it was asked, and so tells nothing of other records.

A program asks for the time of day without a system call: the kernel maps a small library, the vDSO, into each process.
Here its functions lead to some instructions of our own.  What a room then sees of the time of day begins at the same
moment for every record, and goes on by a millisecond with each question.  Clocks that begin with the machine run on:
they measure how long something takes, and are no date.

Readers of dates take words such as "now" for the time of day.  So without this, the row of such a record would follow
from how long other records took.

Reference: vdso(7), clock_gettime(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import time
from itertools import pairwise
from pathlib import Path

from pausefl.flower.node.enter_box import OTHER_CLOCKS

_LIBC = ctypes.CDLL(None, use_errno=True)
_READ, _WRITE, _RUN, _OWN_MEMORY = 1, 2, 4, 0x22  # of mmap: private, and of no file
_APART = 16
"""Bytes between two functions of the vDSO: a jump has twelve."""
_FAILED = ctypes.c_void_p(-1).value


def count_time_of_day(begin: int) -> bool:
    """Let the time of day in this process, and in those forked from it, count how often it was asked.

    It counts from ``begin``, in milliseconds since 1970.

    Return whether that could be done: only on x86_64, and only where the kernel lets a process change its own copy of
    the vDSO.
    """
    if platform.machine() != "x86_64":
        return False
    try:
        places = _functions()
        counter = _new_memory(resource.getpagesize())
        code = _new_memory(resource.getpagesize())
        ctypes.c_uint64.from_address(counter).value = begin
        written = 0
        jumps = {}
        for name, made in _instructions(counter).items():
            ctypes.memmove(code + written, made, len(made))
            jumps[places[name]] = b"\x48\xb8" + struct.pack("<Q", code + written) + b"\xff\xe0"  # mov rax, …; jmp rax
            written += len(made)
        _protect(code, resource.getpagesize(), _READ | _RUN)
        first, size = _vdso()
        _protect(first, size, _READ | _WRITE)
        for place, jump in jumps.items():
            ctypes.memmove(place, jump, len(jump))
        _protect(first, size, _READ | _RUN)
    except (OSError, AttributeError, StopIteration):
        return False  # there is no such library or function, or the kernel does not allow it
    return counts_time_of_day()


def counts_time_of_day() -> bool:
    """Whether the time of day goes on with each question, and with nothing else."""
    first = time.time_ns()
    return [time.time_ns() - first for _ in range(3)] == [1_000_000, 2_000_000, 3_000_000]


def _functions() -> dict[str, int]:
    """Return where the functions are that tell the time of day."""
    vdso = ctypes.CDLL("linux-vdso.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    names = ("clock_gettime", "gettimeofday", "time")
    found = {name: ctypes.cast(getattr(vdso, f"__vdso_{name}"), ctypes.c_void_p).value or 0 for name in names}
    places = sorted(found.values())
    apart = [after - before for before, after in pairwise(places)]
    if any(place % _APART for place in places) or min(apart) < _APART:
        raise OSError("there is no room for a jump")
    return found


def _vdso() -> tuple[int, int]:
    """Return where the vDSO begins, and its size: the kernel lets a process change all of it, or nothing."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    first, last = next(line for line in lines if line.endswith("[vdso]")).split()[0].split("-")
    return int(first, 16), int(last, 16) - int(first, 16)


def _instructions(counter: int) -> dict[str, bytes]:
    """Return the machine code of each function; ``counter`` is the place of the milliseconds since 1970."""
    # mov rdx, counter; mov eax, 1; lock xadd [rdx], rax; xor edx, edx; mov ecx, 1000; div rcx
    count = (
        b"\x48\xba" + struct.pack("<Q", counter) + b"\xb8\x01\x00\x00\x00\xf0\x48\x0f\xc1\x02"
        b"\x31\xd2\xb9\xe8\x03\x00\x00\x48\xf7\xf1"
    )  # rax: seconds, rdx: milliseconds
    others = len(OTHER_CLOCKS)
    # cmp edi, clock; je to what is after the call: four comparisons of five bytes, and eight bytes for the call
    asked = b"".join(
        b"\x83\xff" + bytes([clock, 0x74, 5 * (others - place - 1) + 8]) for place, clock in enumerate(OTHER_CLOCKS)
    )
    call = b"\xb8\xe4\x00\x00\x00\x0f\x05\xc3"  # mov eax, 228; syscall; ret
    fine = b"\x31\xc0\xc3"  # xor eax, eax; ret
    return {
        # mov [rsi], rax; imul rdx, rdx, 1000000; mov [rsi + 8], rdx
        "clock_gettime": asked + call + count + b"\x48\x89\x06\x48\x69\xd2\x40\x42\x0f\x00\x48\x89\x56\x08" + fine,
        # test rdi, rdi; je over all; mov [rdi], rax; imul rdx, rdx, 1000; mov [rdi + 8], rdx
        "gettimeofday": count + b"\x48\x85\xff\x74\x0e\x48\x89\x07\x48\x69\xd2\xe8\x03\x00\x00\x48\x89\x57\x08" + fine,
        # test rdi, rdi; je over all; mov [rdi], rax; ret
        "time": count + b"\x48\x85\xff\x74\x03\x48\x89\x07\xc3",
    }


def _new_memory(size: int) -> int:
    _LIBC.mmap.restype = ctypes.c_void_p
    place = _LIBC.mmap(None, ctypes.c_size_t(size), _READ | _WRITE, _OWN_MEMORY, -1, ctypes.c_long(0))
    if place is None or place == _FAILED:
        raise OSError(ctypes.get_errno(), "no memory")
    return int(place)


def _protect(place: int, size: int, how: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(size), how):
        raise OSError(ctypes.get_errno(), "the memory cannot be changed")
