"""Start a node: SuperNode and guarded executor together; when one of them ends, so does the other."""

from __future__ import annotations

import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pausefl.errors import ConfigError, WorkerError
from pausefl.flower.node.box import PYTHON, Box, BoxError
from pausefl.flower.node.executor import begin
from pausefl.flower.node.flower_parts import check_flower
from pausefl.flower.node.guard import Guard, leaves
from pausefl.flower.node.noise_time import NoiseTime
from pausefl.flower.node.record_rooms import check_rooms, check_time
from pausefl.flower.node.shared_limits import check_memory_for_rooms, check_shared_limits
from pausefl.flower.node.supernode import check_options, node_settings
from pausefl.owner.made_ledgers import other_ledgers_warning
from pausefl.owner.noted_heads import ledger_files, node_lock
from pausefl.owner.owner_check import check_owner
from pausefl.owner.owner_file import read_owner
from pausefl.system.lock import only_writer
from pausefl.system.mounts import forgetful_file_system

_PATIENCE, _BEGINNING, _ENDING = 60.0, 20.0, 30.0
"""Seconds: for what must load first; and with ``--answer-after``, until a node connects, and until one whose part has
ended is gone."""
_LOOPBACK, _LISTENS = (
    f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}",
    "0A",
)  # as the kernel writes them
_INSIDE = """
import os, socket, sys
for path in sys.stdin.read().split("\\0"):
    if path and os.path.lexists(path):
        sys.exit(f"{path} is in reach")
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family)
    except OSError:
        continue
    sys.exit("the network is in reach")
if sorted(filter(str.isdigit, os.listdir("/proc"))) != ["1", "2"]:
    sys.exit("other processes are in reach")
print("closed")
"""

NOT_PROTECTED = (
    "--no-box: an app can open connections, and it can read and change whatever your account can, also the ledger and "
    "the owner's file.  Keep only those apps on the list that you trust as you trust this machine"
)
"""What an owner is told who runs apps without the box."""


def check(guard: Guard, options: Sequence[str]) -> Guard:
    """Check everything that can be checked before anything runs; return the guard with all that must be hidden."""
    check_flower()
    secret = check_options(options)
    # The records are counted, and not looked at: that would take time and memory by their length.
    if check_owner(guard.owner, look=False).simulation:
        raise ConfigError(f"{guard.owner} is for simulations; create a file for a deployment with 'pausefl owner init'")
    owner = read_owner(guard.owner)
    own = [path.resolve() for path in (guard.owner, guard.reviewed, *ledger_files(owner))]
    records = [] if owner.records is None else [owner.records.resolve()]
    hidden = dict.fromkeys((*own, *(path.parent for path in own), *records, *secret))
    noise = NoiseTime.of(owner) if guard.answer_after else None
    guard = replace(guard, box=replace(guard.box, hidden=tuple(hidden)), noise=noise)
    if owner.records is not None:
        _check_records(guard.box, owner.examples, paced=guard.answer_after > 0.0)
    if guard.box.closed:
        guard.box.check_folders()
        check_box(guard.box, list(map(str, (*own, *records))))
        check_limits(guard.box)
        check_shared_limits(guard.box)
    return guard


def start_warnings(guard: Guard, options: Sequence[str] = ()) -> list[str]:
    """Return what an owner should know before the node starts: a second budget, or what tells of the data."""
    owner, settings = read_owner(guard.owner), node_settings(options)
    found = other_ledgers_warning(owner.ledger_id)
    if owner.records is not None and settings:
        found.append(
            f"--node-config hands {', '.join(settings)[:200]} to the app with each record; let no value of it be "
            "computed from the data, because otherwise each row depends on all records"
        )
    if guard.answer_after and len(os.sched_getaffinity(0)) == 1:
        found.append(
            "this machine has only one processor, and an app can keep the node from using it, so --answer-after does "
            "not hide all that the app does; use a machine with two processors or more"
        )
    if owner.records is not None and guard.box.closed and not guard.answer_after and not check_rooms(guard.box):
        found.append(
            "on this machine apps can see the time of day, so the row of a record with a word such as 'now', which "
            "readers of dates know, tells how long other records took; pass --answer-after"
        )
    for place in guard.box.data if owner.records is None else (owner.records,):
        kind = (forgetful_file_system(place) or "").partition(":")[0]
        if kind in ("tmpfs", "ramfs"):
            found.append(
                f"{place} is in memory ({kind}), so the server can tell how large the data is by models that need "
                "nearly all memory that is left; move the data to a disk"
            )
    return found


def _check_records(box: Box, examples: int, *, paced: bool) -> None:
    """Refuse what would keep an app from training on one record after the other."""
    if box.data:
        raise ConfigError(
            f"--data is {box.data[0]}, but your file names the data in records.path, and pausefl hands it to the app; "
            "leave --data out"
        )
    check_memory_for_rooms()
    try:
        check_time(box.time_limit, examples, paced=paced)
        if box.closed:
            check_rooms(box)
    except BoxError as error:
        raise ConfigError(f"no app can train on your records: {error}") from None


def check_box(box: Box, hidden: Sequence[str]) -> None:
    """Look from inside whether the box is closed; refuse one that is not, or cannot be made."""
    said: list[str] = []
    try:
        told = box.run([PYTHON, "-c", _INSIDE], "\0".join(hidden).encode(), 100, said.append)
    except BoxError as error:
        raise ConfigError(
            f"this machine cannot make a closed box for apps ({'; '.join(said) or error}); allow user namespaces, or "
            "pass --box-user as root, or pass --no-box and read what it does not protect"
        ) from None
    if told.strip() != b"closed":
        raise ConfigError("the test of the box gave no answer; pass --no-box and read what it does not protect")


def check_limits(box: Box) -> None:
    """Refuse limits under which no app could be loaded: each message would be paid for, and nothing trained."""
    # With too little memory some libraries do not fail, but wait for ever.
    brief, command = replace(box, time_limit=min(box.time_limit, _PATIENCE)), "import pausefl.flower.node.boxed_app"
    try:
        brief.run([PYTHON, "-P", "-c", command], b"", 100, lambda line: None)
    except BoxError as error:
        limits = f"{box.time_limit:g} seconds" + (f" and {box.memory >> 20} MiB" if box.memory else "")
        raise ConfigError(
            f"{limits} are not enough to load Flower in the box ({error}); raise --memory-limit or --time-limit"
        ) from None


def start(guard: Guard, options: Sequence[str], say: Callable[[str], None], begun: float) -> None:
    """Run the node until it is interrupted; raise if SuperNode or executor ends by itself.

    A ledger has one node at a time: the time that one training takes would decide how far another one gets.

    With ``answer_after`` the node then takes a fixed time to end: a server can make the SuperNode end, and how soon it
    is back would show whether there was an app to end.  It also connects at a fixed time after it has ``begun``: all
    records were read since, to count them, and that takes the longer, the longer they are.
    """
    lock = node_lock(read_owner(guard.owner).ledger.resolve())
    with only_writer(lock, guard.owner, "stop that node", doing="used"):
        if guard.answer_after:
            now = time.monotonic()
            time.sleep(max(0.0, leaves(begun, _BEGINNING, now) - now))
        _run(guard, options, say)


def _run(guard: Guard, options: Sequence[str], say: Callable[[str], None]) -> None:
    secret, port, ended = secrets.token_bytes(32), _free_port(), -math.inf
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        running["SuperNode"] = begin(secret, "supernode", str(port), str(guard.reviewed), str(guard.owner), *options)
        _wait_for(port, running["SuperNode"])
        running["executor"] = begin(secret, "executor", f"127.0.0.1:{port}", guard.text())
        say("the SuperNode and the guarded executor are running; Ctrl-C ends both")
        while True:
            for name, process in running.items():
                if process.poll() is not None:
                    ended = time.monotonic()
                    raise WorkerError(
                        f"the {name} ended with code {process.returncode}, so the node stops; read its last lines above"
                    )
            time.sleep(0.2)
    except KeyboardInterrupt:
        say("interrupted; the SuperNode and the executor are ending")
        raise
    finally:
        _end(list(running.values()))
        if guard.answer_after:
            time.sleep(max(0.0, ended + _ENDING - time.monotonic()))


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in running:
            if process.poll() is None:
                process.send_signal(how)
        end = time.monotonic() + 10.0
        for process in running:
            try:
                process.wait(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                _check_listener(port)
                return
        time.sleep(0.1)
    raise WorkerError(
        f"the SuperNode does not listen on 127.0.0.1:{port}, so the node stops; read its last lines above"
    )


def _check_listener(port: int) -> None:
    """Refuse to talk to another user's process: it may have taken the port before the SuperNode could."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    users = [int(row[7]) for row in rows if row[1] == f"{_LOOPBACK}:{port:04X}" and row[3] == _LISTENS]
    if users != [os.geteuid()]:
        raise WorkerError(f"127.0.0.1:{port} belongs to user {users}, not to the SuperNode; start the node again")
