"""A client app that tries to get data out past the gate, and writes down what worked.  It is no test: it is sent.

Should one of them work, it must not do harm: they touch what the test made, or change nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
libc = ctypes.CDLL(None, use_errno=True)


def libcall(name: str, *words: object) -> None:
    if getattr(libc, name)(*words) != 0:
        raise OSError(ctypes.get_errno(), name)


def send(family: int, address: object) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(2)
        one.connect(address)
        one.sendall(b"stolen")


def others() -> list[int]:
    """The processes in sight that are neither this one nor its own init."""
    names = [path.name for path in Path("/proc").iterdir()]
    return [int(name) for name in names if name.isdigit() and int(name) not in (1, os.getpid())]


def opened(path: str | Path, how: int) -> None:
    """Open a file or folder and change nothing."""
    os.close(os.open(path, how))


def environment_of_another() -> None:
    texts = [Path(f"/proc/{pid}/environ").read_bytes() for pid in (1, *others())]
    if not any(texts):
        raise OSError("nothing in sight")


def look_at_others() -> None:
    for pid in others():
        os.kill(pid, 0)
        return
    raise OSError("nobody in sight")


def replace_send() -> None:
    """Replace Flower's own ways out; nothing that this process does reaches the one that sends."""
    import flwr.supernode.runtime.run_clientapp as running

    running.push_message = lambda *_: print("stolen", flush=True)
    raise OSError("replaced, but who calls it?")


def attempts(target: dict) -> dict:
    port, folder, pattern = int(target["port"]), tempfile.mkdtemp(), Path("/proc/sys/kernel/core_pattern")
    tries = {
        "tcp": lambda: send(socket.AF_INET, ("127.0.0.1", port)),
        "tcp6": lambda: send(socket.AF_INET6, ("::1", port)),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
        "vsock": lambda: socket.socket(socket.AF_VSOCK),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "shell": lambda: subprocess.run([sys.executable, "-c", "import socket; socket.socket()"], check=True),
        "processes": look_at_others,
        "environ": environment_of_another,
        "memory of init": lambda: opened("/proc/1/mem", os.O_RDONLY),
        "files of init": lambda: list(Path("/proc/1/root").iterdir()),
        "descriptors of init": lambda: Path("/proc/1/fd/0").readlink(),
        "trace init": lambda: libcall("ptrace", 0x4206, 1, 0, 0),
        "stop another": lambda: os.kill(int(target["victim"]), signal.SIGKILL),
        "new user namespace": lambda: libcall("unshare", 0x10000000),
        "new user namespace by clone": lambda: subprocess.run(["unshare", "-U", "true"], check=True),
        "unmount": lambda: libcall("umount2", b"/usr", 0),
        "mount": lambda: libcall("mount", b"x", folder.encode(), b"tmpfs", 0, b""),
        "writable again": lambda: libcall("mount", b"", b"/proc", b"", 32, b""),
        "core pattern": lambda: opened(pattern, os.O_WRONLY),
        "device": lambda: os.mknod(f"{folder}/memory", 0o20666, os.makedev(1, 1)),
        "change a device": lambda: os.utime("/dev/null", ns=(Path("/dev/null").stat().st_atime_ns,) * 2),
        "chroot": lambda: os.chroot(folder),
        "root": lambda: os.setuid(0) or Path("/etc/shadow").read_text(),
        "kernel keys": lambda: libcall("syscall", {"x86_64": 250, "aarch64": 219}[os.uname().machine], 30, 0),
        "io_uring": lambda: libcall("syscall", 425, 1, ctypes.create_string_buffer(256)),
        "write beside the code": lambda: opened(np.__file__, os.O_WRONLY),
        "token": lambda: next(value for name, value in os.environ.items() if "TOKEN" in name or "FLWR_HOME" in name),
        "descriptors": lambda: next(fd for fd in range(3, 64) if leads_out(fd)),
        "flower": replace_send,
    }
    for path in target["paths"]:
        tries[f"read {path}"] = lambda path=path: opened(path, os.O_RDONLY)
        tries[f"write {path}"] = lambda path=path: opened(path, os.O_WRONLY)
    found = {}
    for name in [name for name in tries if name.startswith(tuple(target["only"]))]:
        try:
            tries[name]()
        except (OSError, StopIteration, subprocess.CalledProcessError):
            found[name] = "failed"
        else:
            found[name] = "worked"
    return found


def leads_out(fd: int) -> bool:
    """Whether a descriptor leads out of the box; the pipe for the answer does, and the gate reads it."""
    path = Path(f"/proc/self/fd/{fd}")
    return path.is_symlink() and not str(path.readlink()).startswith(("pipe:", "/tmp", "anon_inode"))


@app.train()
def train(message: Message, context: Context) -> Message:
    found = attempts(json.loads(bytes.fromhex(str(context.run_config["target"]))))
    context.state["found"] = ConfigRecord({"text": json.dumps(found)})
    print("TRIED", json.dumps(found), flush=True)
    arrays = {name: array.numpy() + 1e6 for name, array in message.content.array_records["arrays"].items()}
    record = ArrayRecord({name: Array(array.astype(np.float32)) for name, array in arrays.items()})
    numbers = MetricRecord({"num-examples": 12345, "secret": 0.123456789})
    return Message(RecordDict({"arrays": record, "metrics": numbers, "more": ConfigRecord({"a": 1})}), reply_to=message)
