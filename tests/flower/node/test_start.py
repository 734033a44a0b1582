"""What a node refuses before it starts anything, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from flwr.common.serde import message_from_proto
from flwr.proto.message_pb2 import Message as MessageBytes
from flwr.proto.message_pb2 import Metadata as MetadataBytes

from pausefl.cli import main
from pausefl.errors import ConfigError, LedgerError, PauseError, WorkerError
from pausefl.flower.node import even_waits, executor, flower_parts, start, supernode
from pausefl.flower.node.bundle import load_bundle
from pausefl.flower.node.clean_log import clean_log
from pausefl.flower.node.executor import environment
from pausefl.flower.node.flower_parts import check_flower
from pausefl.flower.node.supernode import check_options
from pausefl.owner import owner_check
from pausefl.owner.noted_heads import node_lock, witness_path
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.system.lock import only_writer

INSECURE = ("--insecure", "--superlink", "127.0.0.1:9")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--isolation", "process"], "--isolation"),
        (["--isolation=subprocess"], "--isolation"),
        (["--isol", "subprocess"], "--isolation"),
        (["--superexec-auth-secret-file", "x"], "--superexec-auth-secret-file"),
        (["--host", "0.0.0.0"], "--host"),
        (["--port", "99"], "--port"),
        (["--ssl-certfile", "x"], "--ssl-certfile"),
        (["--appio-ssl-keyfile", "x"], "--ssl-keyfile"),
        (["--allow-runtime-dependency-installation"], "--allow-runtime-dependency-installation"),
        (["--node-config", 'partition-id=0 pausefl-owner="x"'], "pausefl-owner"),
    ],
)
def test_options_that_would_undo_the_guard_are_refused(options: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        check_options([*INSECURE, *options])


def test_other_options_are_the_supernodes(tmp_path: Path) -> None:
    key = ["--auth-supernode-private-key", str(tmp_path / "keys" / "node")]
    hidden = check_options(["--root-certificates", "ca.crt", "--trusted-entities", "t.yaml", *key])
    assert tmp_path / "keys" in hidden


def checked(node: Any, folder: Path, *options: str) -> Any:
    return start.check(
        replace(node.guard, box=replace(node.guard.box, hidden=(), data=(folder,))), (*INSECURE, *options)
    )


@pytest.mark.parametrize("way", ["state", "home", "replies", "notes", "hard link", "key by a link"])
def test_a_data_folder_with_something_of_the_owner_starts_no_node(
    way: str, node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app that holds the lock of the second note, say, makes the gate of another node wait."""
    (data := tmp_path / "data").mkdir()
    notes = witness_path(read_owner(node.guard.owner).ledger_id).parent
    folder, options = data, ()
    if way == "hard link":
        os.link(node.guard.owner, data / "notes.txt")
    elif way == "key by a link":
        (data / "key").write_text("")
        (tmp_path / "key").symlink_to(data / "key")
        options = ("--auth-supernode-private-key", str(tmp_path / "key"))
    else:
        folder = {"state": notes.parents[1], "home": notes.parents[1].parent, "notes": notes}.get(
            way, node.folder / "ledger.db-replies"
        )
    monkeypatch.setattr(start, "check_box", lambda *_: pytest.fail("too late"))
    with pytest.raises(ConfigError, match="must stay hidden"):
        checked(node, folder, *options)


@pytest.mark.parametrize("what", ["the folder", "one file"])
def test_a_second_mount_of_something_of_the_owner_starts_no_node(what: str, node: Any, tmp_path: Path) -> None:
    """As with two volumes of a container, one in the other: no path tells."""
    data = tmp_path / "data"
    point = data / "deep" / "there"
    point.mkdir(parents=True) if what == "the folder" else (data / "deep").mkdir(parents=True) or point.touch()
    source = node.folder if what == "the folder" else node.guard.owner
    code = (
        "import sys; from pathlib import Path; from pausefl.flower.node.plain_files import require_plain_files\n"
        "require_plain_files(Path(sys.argv[1]), map(Path, sys.argv[2:]))"
    )
    words = [sys.executable, "-c", code, str(data), str(node.folder), str(node.guard.owner)]
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(source), str(point)]
    done = subprocess.run([*inside, *words], capture_output=True, text=True, check=False)
    assert "must stay hidden" in done.stderr and "deep/there" in done.stderr
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_a_second_way_to_the_owner_that_comes_later_fails_the_training(node: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    guard = checked(node, tmp_path / "data")
    guard.box.check_folders()
    os.link(node.guard.owner, tmp_path / "data" / "x")
    with pytest.raises(ConfigError, match="must stay hidden"):
        guard.box.check_folders()


def test_no_proxy_comes_between_the_parts_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTPS_PROXY", "grpc_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy:1")
    monkeypatch.setenv("no_proxy", "intra")
    monkeypatch.setenv("no_grpc_proxy", "")
    for role in ("executor", "task"):
        assert not [name for name in environment(role) if name.lower().endswith("_proxy")]
    found = environment("supernode")
    assert (found["https_proxy".upper()], found["grpc_proxy"]) == ("http://proxy:1",) * 2
    assert (found["no_proxy"], found["no_grpc_proxy"]) == ("intra,127.0.0.1", "127.0.0.1")


def test_no_server_is_told_how_long_a_task_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supernode._state, "get_message_processing_duration", lambda state, message_id: 1.5)
    supernode.hide_durations()
    state = supernode._state(MagicMock())  # of its store nothing is used here
    assert state.get_message_processing_duration("1") == 0.0


def test_the_supernode_follows_no_redirect_and_unpacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server would learn by it what other services of the machine answer, and how busy the machine is."""
    answers = {"": 200, "gzip": 200, "identity": 302}
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind = self.path[1:]
            asked.append((kind, self.headers["accept-encoding"]))
            self.send_response(answers[kind])
            self.send_header("location", "/")
            if kind:
                self.send_header("content-encoding", kind)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"no")

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(supernode._client, "__init__", supernode._client.__init__)  # put back afterwards
    supernode.take_plain_answers_only()
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(supernode._client(where := f"http://127.0.0.1:{server.server_port}")._client) as client:
            assert client.get(f"{where}/").content == b"no"
            assert client.get(f"{where}/identity").status_code == 302
            with pytest.raises(httpx.TransportError, match="packed its answer"):
                client.get(f"{where}/gzip")
        server.shutdown()
    assert asked == [("", "identity"), ("identity", "identity"), ("gzip", "identity")]


@pytest.mark.parametrize("reply_to, number, taken", [("", "7", True), ("x", "7", False), ("", "8", False)])
def test_a_message_that_no_server_app_sends_is_left_alone(
    reply_to: str, number: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply went back at once, past the guard: 9,269 times in one training.  The other kept the node silent."""
    monkeypatch.setattr(supernode._messages, "_pull_and_store_message", lambda *, receive, run: (receive(), run))
    supernode.take_requests_only()
    sent = (SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=reply_to, message_id=number)),
            SimpleNamespace(object_id="7"))  # fmt: skip
    pull = supernode._messages._pull_and_store_message
    assert pull(receive=lambda: sent, run=1) == (sent if taken else None, 1)
    assert pull(receive=lambda: None, run=1) == (None, 1)


def test_a_message_that_flower_cannot_read_does_not_end_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supernode._messages, "_pull_and_store_message", lambda *, receive: receive())
    supernode.take_requests_only()
    proto = MessageBytes(metadata=MetadataBytes(run_id=1, message_id="7", message_type="\u202ezz\n"))
    with pytest.raises(ValueError, match="message"):
        message_from_proto(proto)
    assert supernode._messages._pull_and_store_message(receive=lambda: message_from_proto(proto)) is None


def test_a_loop_asks_at_times_that_do_not_depend_on_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question took 5 ms more while an app kept a processor busy, and the next ones came so much later."""
    now, asked = 100.25, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", asked.append)
    for module in (supernode._messages, executor._executor):
        monkeypatch.setattr(module, "time", module.time)  # put back afterwards
        even_waits.wait_evenly(module)
        for seconds in (0.5, 3.0, 0.0):
            module.time.sleep(seconds)
    assert asked == [0.25, 1.75, 0.0] * 2


def test_an_executor_asks_at_such_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(executor, "_begin", lambda: None)
    monkeypatch.setattr(executor, "wait_evenly", asked.append)
    monkeypatch.setattr(executor._executor, "get_executor", executor._executor.get_executor)  # put back afterwards
    monkeypatch.setattr(executor._executor, "run_superexec", lambda **_: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(read=bytes)))
    executor.run_executor("127.0.0.1:9", "{}")
    assert asked == [executor._executor]


SENDS = """
import sys
from pausefl.flower.node import supernode
supernode.take_plain_answers_only()
client = supernode._client(sys.argv[1])._client
client.post(sys.argv[1], content=b"x" * 400_000)
"""


@pytest.mark.parametrize("proxy", [False, True])
@pytest.mark.parametrize("guarded", [True, False])
def test_what_a_server_does_not_take_does_not_leave_after_the_node_has_ended(guarded: bool, proxy: bool) -> None:
    """The kernel went on to send whole updates, up to 248 seconds after the node had ended: 5 of 5."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen()
        code = SENDS if guarded else SENDS.replace("supernode.take_plain_answers_only()", "")
        here = f"http://127.0.0.1:{server.getsockname()[1]}/"
        words = [sys.executable, "-c", code, "http://hub.example/" if proxy else here]
        with subprocess.Popen(words, env=os.environ | ({"http_proxy": here} if proxy else {})) as sender:
            taken, _ = server.accept()
            with taken:
                before = -1
                while before != (waiting := len(taken.recv(1 << 20, socket.MSG_PEEK))) or not waiting:
                    before = waiting
                    time.sleep(0.2)
                sender.kill()
                sender.wait()
                got = 0
                try:
                    while more := taken.recv(1 << 16):
                        got += len(more)
                except ConnectionResetError:
                    pass
    assert (got <= waiting) is guarded


@pytest.mark.parametrize("ends", [None, RuntimeError("a redirect")])
def test_a_supernode_is_guarded_and_ends_when_it_asks_for_no_more_messages(
    node: Any, monkeypatch: pytest.MonkeyPatch, ends: Exception | None
) -> None:
    """Its other threads would keep the process alive, and the node silent."""
    done: list[Any] = []
    steps = ("disable_process_dumping", "clean_log", "limit_own_memory", "read_reviewed_only", "hide_durations",
             "take_plain_answers_only", "take_requests_only", "wait_evenly")  # fmt: skip
    for step in steps:
        monkeypatch.setattr(supernode, step, lambda *words, step=step, **more: done.append((step, *words, more)))

    def flower() -> None:
        done.append(sys.argv[1:])
        if ends is not None:
            raise ends

    monkeypatch.setattr(supernode._supernode, "flower_supernode", flower)
    monkeypatch.setattr(os, "_exit", lambda code: done.append(code))
    monkeypatch.setattr(sys, "argv", [])
    supernode.run_supernode("99", "apps.toml", str(node.guard.owner), *INSECURE)
    assert {one[0] for one in done[:-2]} == {*steps}
    assert ("limit_own_memory", {"rooms": False}) in done
    assert done[-2][: len(INSECURE)] == [*INSECURE] and done[-1] == 1


def test_a_node_does_not_look_at_the_records_when_it_starts(
    tmp_path: Path, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a long line takes, of time and of memory, would show."""

    def look(path: Path) -> list[str]:
        raise AssertionError

    (tmp_path / "data.csv").write_text("1\n2\n")
    owner = init_owner(tmp_path / "own", "other", records_from=tmp_path / "data.csv")
    monkeypatch.setattr(owner_check, "doubtful_records", look)
    place, begun, freed = owner.ledger.with_name("owner.toml"), [], []
    monkeypatch.setattr(start, "start", lambda *words: begun.append(words))
    monkeypatch.setattr("pausefl.system.freed_memory.give_back_freed_memory", lambda: freed.append(1))
    with pytest.raises(SystemExit) as ended:
        main(["node", "start", "--owner", str(place), "--", *INSECURE])
    assert (ended.value.code or 0, len(begun), len(freed)) == (0, 1, 1)
    with pytest.raises(AssertionError):
        owner_check.check_owner(place)


def test_another_flower_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_flower()
    for name in ("1.40.0", "1.42.0", "1.410.0"):
        monkeypatch.setattr(flower_parts, "version", lambda _, name=name: name)
        with pytest.raises(ConfigError, match=f"flwr is {name}"):
            check_flower()


@pytest.mark.parametrize("part", flower_parts._PARTS, ids=lambda part: part[1])
def test_a_part_that_is_another_is_refused(part: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    *inside, name = part[1].split(".")
    holder = __import__("importlib").import_module(part[0])
    for one in inside:
        holder = getattr(holder, one)
    monkeypatch.setattr(holder, name, lambda other: None)
    with pytest.raises(ConfigError, match=f"{part[1]} is not that of flwr"):
        check_flower()


def test_the_owners_folder_is_hidden_and_checked(node: Any, tmp_path: Path) -> None:
    assert node.folder in start.check(node.guard, INSECURE).box.hidden
    with pytest.raises(ConfigError, match="must stay hidden"):
        start.check(replace(node.guard, box=replace(node.guard.box, hidden=(), data=(tmp_path,))), INSECURE)
    (node.folder / "ledger.db").chmod(0o666)
    with pytest.raises(PauseError, match="chmod"):
        start.check(node.guard, INSECURE)
    (node.folder / "ledger.db").unlink()
    with pytest.raises(LedgerError):
        start.check(node.guard, INSECURE)


def test_limits_under_which_no_app_could_be_loaded_are_refused(node: Any) -> None:
    """Else every message would be paid for, and none trained."""
    for limits in ({"memory": 1 << 27}, {"time_limit": 0.2}):
        with pytest.raises(ConfigError, match="raise --memory-limit or --time-limit"):
            start.check_limits(node.limited(**limits).guard.box)
    start.check_limits(node.limited(memory=4 << 30).guard.box)


def test_a_data_folder_with_a_pipe_starts_no_node(node: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / "pipe")
    with pytest.raises(ConfigError, match="pipe' is a named pipe"):
        start.check(node.limited(data=(tmp_path / "data",)).guard, INSECURE)


def test_the_supernode_opens_no_bundle_that_was_not_reviewed(node: Any, kit: ModuleType, tmp_path: Path) -> None:
    """And one that cannot be read does not end it."""
    folder = kit.write_app(tmp_path / "unknown", kit.PLAIN)
    for path in (folder, reviewed := kit.write_app(tmp_path / "reviewed", kit.PLAIN, version="2")):
        with (path / "pyproject.toml").open("a") as file:
            file.write("rate = 0.1\nrounds = 3\n")
    node.apps.add(load_bundle(reviewed))
    run = SimpleNamespace(override_config={"rate": 0.5})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supernode._messages, "get_fused_config_from_fab", supernode._messages.get_fused_config_from_fab)
        supernode.read_reviewed_only(node.guard.reviewed)
        read = supernode._messages.get_fused_config_from_fab
        assert read(load_bundle(reviewed).content, run) == {"rate": 0.5, "rounds": 3}
        for content in (load_bundle(folder).content, b"rubbish", b""):
            assert read(content, run) == {"rate": 0.5}
        node.guard.reviewed.write_text("rubbish")
        assert read(load_bundle(reviewed).content, run) == {"rate": 0.5}


def test_a_process_of_another_user_is_not_taken_for_the_supernode() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        start._check_listener(own.getsockname()[1])
    if os.geteuid() != 0 or not Path("/usr/bin/python3").exists():
        pytest.skip("only root can start a process of another user, with the system's Python")
    code = "import socket, sys; one = socket.create_server(('127.0.0.1', 0))\n"
    code += "print(one.getsockname()[1], flush=True); sys.stdin.read()"
    words = ["/usr/bin/python3", "-c", code]
    with subprocess.Popen(words, user="nobody", stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as process:
        assert process.stdout is not None and process.stdin is not None
        with pytest.raises(WorkerError, match="not to the SuperNode; start the node again"):
            start._check_listener(int(process.stdout.readline()))
        process.stdin.close()


def test_what_others_write_into_the_log_is_one_line_of_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    said, log = StringIO(), logging.getLogger("flwr")
    handler = logging.StreamHandler(said)
    hostile = "\x1b[2J\x9b31m\nINFO :  pausefl: all is well" + "x" * 5000
    log.addHandler(handler)
    others = {one: list(one.filters) for one in (*log.handlers, logging.lastResort)}
    for module in (sys, threading):
        monkeypatch.setattr(module, "excepthook", module.excepthook)
    try:
        clean_log()
        log.error("%s", hostile)
        log.error("failed", exc_info=ValueError(hostile))
    finally:
        log.removeHandler(handler)
        for one, filters in others.items():
            one.filters = filters
    one, other, end = said.getvalue().split("\n")
    assert end == "" and other.startswith("failed (ValueError:  [2J 31m INFO :  pausefl")
    assert one.isprintable() and other.isprintable() and len(one) == len(other) == 1000


_UNCAUGHT = """
import logging, sys, threading
import flwr.supercore
from pausefl.flower.node.clean_log import clean_log

clean_log()
hostile = "\\x1b[2J\\x9b31m\\nINFO :  pausefl: all is well" + "x" * 5000

def fail(error):
    raise error

logging.getLogger("asyncio").error(hostile)
for error in (SystemExit(hostile), ValueError(hostile)):
    thread = threading.Thread(target=fail, args=(error,))
    thread.start()
    thread.join()
fail(ValueError(hostile))
"""


def test_an_error_that_nobody_catches_is_a_clean_line_too() -> None:
    """A server can make the SuperNode's heartbeat fail, and chooses the text of the error."""
    done = subprocess.run([sys.executable, "-c", _UNCAUGHT], capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).split("\n") if "all is well" in line]
    assert done.returncode == 1 and len(lines) == 3
    for line in lines:
        assert "\x1b[2J" not in line and "\x9b" not in line and not line.startswith("INFO") and len(line) < 1100


def test_a_file_for_simulations_starts_no_node(node: Any) -> None:
    lines = [line for line in node.guard.owner.read_text().splitlines() if not line.startswith("ledger")]
    node.guard.owner.write_text("simulation = true\n" + "\n".join(lines))
    with pytest.raises(ConfigError, match="is for simulations"):
        start.check(node.guard, INSECURE)


def test_a_node_whose_supernode_does_not_start_ends(node: Any) -> None:
    said: list[str] = []
    with pytest.raises(WorkerError, match="the SuperNode does not listen"):
        start.start(node.guard, ["--insecure", "--root-certificates", "x"], said.append, 0.0)
    assert said == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_end_ends_all_and_says_so(how: int, node: Any, kit: ModuleType) -> None:
    """There is no SuperLink: the SuperNode keeps trying."""
    words = ["-m", "pausefl", "node", "start", "--owner", str(node.guard.owner), "--", *INSECURE]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "guarded executor are running" in line:
                break
        process.send_signal(how)
        rest = process.stdout.read()  # ends when nobody holds the pipe: SuperNode and executor are gone, too
    assert process.returncode == 128 + how, rest
    assert "interrupted; the SuperNode and the executor are ending" in rest
    assert f"second note: {witness_path(read_owner(node.guard.owner).ledger_id)}\n" in said


def test_a_ledger_has_one_node_at_a_time(node: Any) -> None:
    """Two trainings at the same time: the time that one takes decides how far the other gets."""
    lock = node_lock(read_owner(node.guard.owner).ledger)
    assert lock in start.check(node.guard, INSECURE).box.hidden, "an app that held it would stop the node"
    with (
        only_writer(lock, lock, "wait"),
        pytest.raises(ConfigError, match=r"owner\.toml is being used by another process; .* or stop that node"),
    ):
        start.start(node.guard, INSECURE, lambda line: None, 0.0)


@pytest.mark.parametrize("busy", [False, True])
def test_a_node_killed_takes_all_with_it(node: Any, busy: bool) -> None:
    """Also those that have no time to look: a server can keep the SuperNode in one long call."""
    words = ["-m", "pausefl", "node", "start", "--owner", str(node.guard.owner), "--", *INSECURE]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "guarded executor are running" in line:
                break
        if busy:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGSTOP)  # the SuperNode; the executor may only have begun
        process.kill()
        process.stdout.read()  # as above: it would wait for ever if one of them lived on
    assert process.returncode == -signal.SIGKILL


def test_another_ledger_of_this_user_is_named_at_the_start(
    node: Any, kit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial on the real data, with a ledger of its own, would be a second budget."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert start.start_warnings(node.guard) == []
    kit.make_owner(tmp_path / "trial")
    (told,) = start.start_warnings(node.guard)
    assert "has another ledger" in told and read_owner(tmp_path / "trial" / "owner.toml").ledger_id in told


def test_values_that_go_to_the_app_with_each_record_are_named(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mean of all records, say: then each row depends on all of them."""
    options = (*INSECURE, "--node-config", "mean=7.5 scale=2.0")
    assert start.start_warnings(node.guard, options) == start.start_warnings(node.guard), "the app cuts the data itself"
    (tmp_path / "data.csv").write_text("1\n2\n")
    owner = init_owner(tmp_path / "own", "other", records_from=tmp_path / "data.csv")
    guard = replace(node.guard, owner=owner.ledger.with_name("owner.toml"))
    before = start.start_warnings(guard, INSECURE)
    [told] = set(start.start_warnings(guard, options)) - set(before)
    assert told.startswith("--node-config hands mean, scale to the app with each record")
    monkeypatch.setattr(start, "start", lambda *words: None)
    monkeypatch.setattr(start, "check", lambda guard, options: guard)
    for given, said in ((options, True), (INSECURE, False)):
        with pytest.raises(SystemExit):
            main(["node", "start", "--owner", str(guard.owner), "--", *given])
        assert (f"WARNING: {told}" in capsys.readouterr().err) is said


def test_a_single_processor_is_named_where_answers_have_a_fixed_time(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    guard = node.limited(time_limit=10.0).guard
    for processors, told in (({0}, 1), ({0, 1}, 0)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, found=processors: found)
        assert len(start.start_warnings(replace(guard, answer_after=30.0))) == told
        assert start.start_warnings(guard) == []


def test_data_in_memory_is_named_at_the_start(node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    guard = node.limited(data=(tmp_path / "data",), time_limit=10.0).guard
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(start, "forgetful_file_system", lambda path: "tmpfs: memory")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    for one in (guard, replace(guard, answer_after=30.0)):
        (told,) = start.start_warnings(one)
        assert f"{tmp_path / 'data'} is in memory (tmpfs)" in told
    monkeypatch.setattr(start, "forgetful_file_system", lambda path: "overlay: a layer")
    assert start.start_warnings(guard) == []


@pytest.mark.parametrize(("answer_after", "took"), [(0.0, None), (4000.0, 30.0)])
@pytest.mark.parametrize("ending", [0.02, 12.0])
def test_with_a_fixed_time_a_node_takes_as_long_to_end_whether_or_not_an_app_ran(
    answer_after: float, took: float | None, ending: float, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server can make the SuperNode end, and see when it is back; processes of an app take time to end."""
    clock = SimpleNamespace(now=1000.0)

    def passes(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(start, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=passes))
    monkeypatch.setattr(start, "begin", lambda *_: SimpleNamespace(poll=lambda: 1, returncode=1))
    monkeypatch.setattr(start, "_wait_for", lambda *_: None)
    monkeypatch.setattr(start, "_end", lambda _: passes(ending))
    with pytest.raises(WorkerError, match="the SuperNode ended with code 1"):
        start.start(replace(node.guard, answer_after=answer_after), INSECURE, lambda _: None, 1000.0)
    assert clock.now - 1000.0 == pytest.approx(ending if took is None else 20.0 + took)


@pytest.mark.parametrize(("answer_after", "expected"), [(0.0, 1003.0), (4000.0, 1020.0)])
def test_with_a_fixed_time_a_node_connects_at_one_however_long_its_records_took_to_read(
    answer_after: float, expected: float, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, began = SimpleNamespace(now=1003.0), []

    def begins(*_: Any) -> Any:
        began.append(clock.now)
        return SimpleNamespace(poll=lambda: 1, returncode=1)

    def passes(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(start, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=passes))
    monkeypatch.setattr(start, "begin", begins)
    monkeypatch.setattr(start, "_wait_for", lambda *_: None)
    monkeypatch.setattr(start, "_end", lambda _: None)
    with pytest.raises(WorkerError):
        start.start(replace(node.guard, answer_after=answer_after), INSECURE, lambda _: None, 1000.0)
    assert began[0] == pytest.approx(expected)
