"""The executor of a node: it takes tasks from the SuperNode, and the guard answers each, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.run import Run
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult
from flwr.supercore.utils import disable_process_dumping

from pausefl.flower.node.clean_log import clean_log
from pausefl.flower.node.even_waits import wait_evenly
from pausefl.flower.node.flower_parts import check_flower
from pausefl.flower.node.guard import Guard
from pausefl.system.freed_memory import give_back_freed_memory

_executor: Any = import_module("flwr.supercore.superexec.run_superexec")
_task: Any = import_module("flwr.supernode.runtime.run_clientapp")
_MOST_WAITING = 3600.0
"""Seconds for which a task waits for its message: over a slow network a large one takes long."""


def run_executor(address: str, guard: str) -> None:
    """Take tasks from the SuperNode at ``address``, until the parent ends; the secret is read from stdin."""
    _begin()
    executor = _GuardedExecutor(guard)
    _executor.get_executor = lambda *_, **__: executor
    wait_evenly(_executor)
    _executor.run_superexec(
        runtime_api_address=address, insecure=True, superexec_auth_secret=sys.stdin.buffer.read(),
        runtime_dependency_install=False,
    )  # fmt: skip


class _GuardedExecutor:
    """Starts our own task for every type of task: the server chooses the type, and none of Flower's may run here.

    Law: one task at a time.  A server can make a SuperNode take more messages while an app runs, and would see by their
    answers, which cost nothing, what the app does to the machine.
    """

    def __init__(self, guard: str) -> None:
        self._guard = guard
        self._running: list[subprocess.Popen[bytes]] = []

    def get_eligible_capacity(self, supported_task_types: set[TaskType], **_: Any) -> tuple[set[TaskType], set[str]]:
        return set() if self._running else supported_task_types, set()

    def wait_for_capacity(self, task_type: TaskType | None = None, **_: Any) -> None:
        return None

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        # This clock is the same in all processes of a machine.
        task = {"address": spec.runtime_api_address, "type": spec.task_type, "launched": time.monotonic()}
        self._running.append(begin(spec.token.encode(), "task", json.dumps(task), self._guard))
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        self._running = [process for process in self._running if process.poll() is None]

    def close(self) -> None:
        for process in self._running:
            process.kill()


def run_task(words: str, guard: str) -> None:
    """Answer the one message of a task; the token is read from stdin."""
    give_back_freed_memory()  # what a record took must be there for the next ones
    _begin()
    task = json.loads(words)
    install_guard(Guard.of(guard), task["type"], task["launched"])
    _task.run_clientapp(
        runtime_api_address=task["address"], token=sys.stdin.read(), insecure=True, runtime_dependency_install=False
    )


def install_guard(guard: Guard, task_type: str, launched: float) -> None:
    """Put the guard where Flower would unpack an app, and where it would load and call it."""
    bundles: list[bytes] = []

    def answer(message: Message, context: Context) -> Message:
        # Other kinds of task have other rights, and no mod stands before them.
        one = task_type == TaskType.CLIENT_APP and len(bundles) == 1
        return guard.answer(bundles[0] if one else None, message, context, launched)

    def load(*_: object) -> Callable[[Message, Context], Message]:
        return answer

    pull = _task.pull_task_input

    def pulled(client: Any) -> tuple[Message, Context, Run, Fab]:
        # Flower waits for ever for what the server does not hand over, and there is one task at a time.
        late = threading.Timer(_MOST_WAITING, os._exit, [1])
        late.daemon = True
        late.start()
        message, context, run, fab = pull(client)
        late.cancel()
        # The server fills the other fields, and their memory would be lacking while the app runs.
        return message, context, Run.create_empty(run.run_id), Fab(hash_str="", content=fab.content, verifications={})

    _task.pull_task_input = pulled
    _task.install_from_fab = lambda content, **_: bundles.append(content)
    _task.get_project_dir = lambda *_: Path()
    _task.get_load_client_app_fn = lambda **_: load


def begin(secret: bytes, role: str, *words: str) -> subprocess.Popen[bytes]:
    """Start one of a node's own processes; it reads its secret from stdin, where no list of processes shows it."""
    # -P: no code from the folder it is started in.  A session of its own: Ctrl-C is for the first process, which then
    # ends the others in order.
    command = [sys.executable, "-P", "-m", "pausefl.flower.node", role, str(os.getpid()), *words]
    process = subprocess.Popen(  # noqa: S603 - our own words
        command, stdin=subprocess.PIPE, start_new_session=True, env=environment(role)
    )
    if process.stdin is not None:
        process.stdin.write(secret)
        process.stdin.close()
    return process


def environment(role: str) -> dict[str, str]:
    """Return the environment of one of a node's own processes.

    Executor and task talk to this machine's SuperNode alone, in the clear: no proxy may come between.  The SuperNode
    may need one on its way to the SuperLink.  None of them tells Flower's makers that it runs.
    """
    found = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    if role != "supernode":
        return {name: value for name, value in found.items() if not name.lower().endswith("_proxy")}
    for name in ("no_proxy", "no_grpc_proxy"):
        if name == "no_proxy" or name in found:  # gRPC reads the second one first
            found[name] = ",".join(filter(None, (found.get(name), "127.0.0.1")))
    return found


def _begin() -> None:
    disable_process_dumping(strict=False)  # then a process of the same user cannot look into this one
    clean_log()
    check_flower()
