"""The box of a rehearsal: nothing in it counts what is on the machine, because that tells of data without a charge."""

from __future__ import annotations

import ast
import logging
import os
from types import ModuleType
from typing import Any

import pytest

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

COUNTING = """
import ctypes, fcntl, pathlib, termios

def call(name, *words):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), name)

def read(path):
    with open(path) as file:
        if not file.read():
            raise OSError("nothing in it")

def about_all(path):
    # Whether it tells anything, and of the whole machine.
    if path.is_symlink() or path.name == "cpuinfo":
        return False
    try:
        return any(path.iterdir()) if path.is_dir() else bool(path.open("rb").read(1))
    except OSError:
        return False

def pipe():
    one, other = os.pipe()
    os.write(other, b"four")
    fcntl.ioctl(one, termios.FIONREAD, bytes(4))

buffer = ctypes.create_string_buffer(1024)
TRIES = {
    "free inodes": lambda: os.statvfs("/usr"),
    "free inodes of a file": lambda: os.fstatvfs(os.open("/usr", os.O_RDONLY)),
    "free memory": lambda: call("sysinfo", buffer),
    "cached files": lambda: read("/proc/sys/fs/inode-nr"),
    "page cache": lambda: read("/proc/meminfo"),
    "disks": lambda: read("/proc/diskstats"),
    "load": lambda: read("/proc/loadavg"),
    "anything else": lambda: next(filter(about_all, pathlib.Path("/proc").glob("[!0-9]*"))),
    "work of processors": lambda: next(
        file for kind in ("cpuidle", "cpufreq", "thermal_throttle")
        for file in pathlib.Path("/sys/devices/system/cpu").glob(f"cpu[0-9]*/{kind}/**/*") if file.is_file()
    ),
    "extents of a file": lambda: fcntl.ioctl(os.open(sys.executable, os.O_RDONLY), 0xC020660B, bytes(32)),
    "its own processes": lambda: read("/proc/self/status"),
    "packets of the machine": lambda: read("/proc/self/net/softnet_stat"),
    "kind of processor, fine": lambda: read("/proc/cpuinfo"),
    "a pipe, fine": pipe,
}

def tried():
    worked = []
    for name, one in TRIES.items():
        try:
            one()
        except (OSError, StopIteration):
            continue
        worked.append(name)
    print("WORKED", worked, flush=True)

@app.train()
def train(message, context):
    tried()
    return answer(message, changed(message))

@app.query("rehearsal")
def rehearse(message, context):
    tried()
    return answer(message, changed(message))
"""


@pytest.mark.parametrize("user", [None, pytest.param("nobody", marks=ROOT_ONLY)])
def test_a_rehearsal_cannot_count_what_is_on_the_machine(
    user: str | None, node: Any, kit: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """How many inodes are free tells how many files the data has, also where the data itself is not shown."""
    logging.getLogger("flwr").propagate = True
    owner = node.guard.owner
    owner.write_text(owner.read_text().replace("[replies]", "[replies]\nrehearse = true"))
    other = node.limited(user=user)
    bundle = other.app(kit.HEAD + COUNTING).content
    assert other.ask(bundle, kind="query.rehearsal").has_content()
    assert other.ask(bundle).has_content()
    said = [record.getMessage() for record in caplog.records if "WORKED" in record.getMessage()]
    rehearsed, trained = (ast.literal_eval(line.partition("WORKED ")[2]) for line in said)
    assert rehearsed == ["kind of processor, fine", "a pipe, fine"]
    # What is paid for may look at the machine.
    assert set(trained) > {"free inodes", "cached files", "anything else", *rehearsed}
