"""What leaves a node: the gate's answer or one fixed refusal, whatever the app is and does."""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import context_to_proto, recorddict_to_proto
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.run import Run

from pausefl.flower.node import executor
from pausefl.flower.node import guard as guard_module
from pausefl.flower.node.box import MOST_STATE, Box, pack, unpack
from pausefl.flower.node.bundle import load_bundle, sha256
from pausefl.flower.node.guard import Guard
from pausefl.flower.node.kept_state import kept_state, state_in
from pausefl.flower.protocol import Refusal
from pausefl.owner import gate as gating
from pausefl.owner.owner_init import init_owner

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
USERS = [None, pytest.param("nobody", marks=ROOT_ONLY)]

# Each is one way in which training can go wrong, in a manner that data could decide.
FAILING = {
    "raises": 'raise ValueError("patient 17")',
    "exits": "os._exit(3)",
    "exits as if all were well": "os._exit(0)",
    "leaves": "sys.exit(0)",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "aborts": "os.abort()",
    "kills itself": "os.kill(os.getpid(), 9)",
    "out of memory": "np.ones(1 << 40)",
    "endless": "while True: pass",
    "endless, and mute": "os.close(1); os.close(2)\nwhile True: pass",
    "floods": "while True: os.write(3, b'x' * 65536); os.write(4, b'x' * 65536)",
    "too much": "return answer(message, ArrayRecord({'w': Array(np.zeros(30_000_000))}))",
    "rubbish": "for fd in range(3, 10): os.path.exists(f'/proc/self/fd/{fd}') and os.write(fd, b'x')\nos._exit(0)",
    "no number": "return answer(message, changed(message, float('nan')))",
    "wrong shapes": "return answer(message, ArrayRecord({'w': Array(np.zeros(3)), 'b': Array(np.zeros(1))}))",
    "objects": "record = changed(message); record['w'].data = b'\\x93NUMPY'\nreturn answer(message, record)",
    "nothing": "return None",
    "an error": "from flwr.app import Error; return Message(Error(1, 'patient 17'), reply_to=message)",
    "leaves a process behind": "import subprocess; subprocess.Popen(['sleep', '600']); raise ValueError",
}


def shape_of(reply: Message) -> Any:
    """Everything in a reply but the noised numbers themselves."""
    assert reply.has_content(), reply.error
    arrays = {name: (array.dtype, array.shape, len(array.data)) for name, array in reply.content["arrays"].items()}
    others = {key: dict(record) for key, record in reply.content.items() if key != "arrays"}
    return list(reply.content), arrays, others, reply.metadata.message_type


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, kit: ModuleType) -> Any:
    node = kit.node_of(kit.make_owner(tmp_path_factory.mktemp("honest") / "owner"))
    return shape_of(node.ask(node.app().content))


def test_an_app_without_the_mod_is_noised_and_charged(node: Any, kit: ModuleType) -> None:
    reply = node.ask(node.app().content)
    assert node.charges == 1
    assert reply.content["metrics"] == {"num-examples": 1}
    note = dict(reply.content["pausefl"])
    left = {"left": pytest.approx(0.875), "next-noise": note["noise"]}
    assert note == {"name": "clinic", "releases": 1, "noise": note["noise"], "signal": 1.0, **left}
    assert np.linalg.norm(kit.update(reply)) > 3  # the clip is 1: the rest is noise


def test_an_app_that_carries_the_mod_is_charged_once_and_trains(node: Any, kit: ModuleType) -> None:
    client = "from pausefl.flower import PrivateUpdate\n" + kit.PLAIN.replace(
        "ClientApp()", "ClientApp(mods=[PrivateUpdate()])"
    )
    boxed = node.app(client + "\n    print('never')\n")
    reply = node.ask(boxed.content)
    assert node.charges == 1
    assert reply.content["pausefl"]["releases"] == 1


def test_what_the_app_trained_is_what_leaves(node: Any, kit: ModuleType) -> None:
    """At an epsilon of a million there is hardly any noise: the update, clipped, is seen through it."""
    owner = node.guard.owner
    owner.write_text(
        owner.read_text().replace("budget = 8.0", "budget = 4e6").replace('"privunit"', '"gaussian"\ndelta = 1e-6')
    )
    found = kit.update(node.ask(node.app().content))
    expected = np.full(210, 0.5) / np.linalg.norm(np.full(210, 0.5))
    np.testing.assert_allclose(found, expected, atol=0.02)


ROWS = """
arrays = message.content.array_records['arrays']
made = {name: Array(np.full((%d, *a.shape), 7.0, dtype=np.float32)) for name, a in arrays.items()}
return answer(message, ArrayRecord(made))
"""


def test_rows_of_records_leave_the_box_and_are_clipped_outside(tmp_path: Path, kit: ModuleType) -> None:
    """At an epsilon of a million there is hardly any noise; a box with more rows than records has failed."""
    init_owner(tmp_path / "owner", "clinic", records=5, budget=4e6, releases=8)
    node = kit.node_of(tmp_path / "owner" / "owner.toml")
    found = {rows: node.ask(node.app(kit.train_in(ROWS % rows)).content, rows) for rows in (5, 3, 6)}
    for rows, length in ((5, 1.0), (3, 0.6), (6, 0.0)):
        np.testing.assert_allclose(kit.update(found[rows]), length / np.sqrt(210), atol=0.01)
        assert found[rows].content["metrics"] == {"num-examples": 5}
    assert node.charges == 3


HALF = """
arrays = message.content.array_records['arrays']
return answer(message, ArrayRecord({name: Array((a.numpy() + 1).astype(np.float16)) for name, a in arrays.items()}))
"""


def test_a_mean_that_the_app_has_clipped_leaves_the_box(tmp_path: Path, kit: ModuleType) -> None:
    init_owner(tmp_path / "owner", "clinic", records=5, budget=4e6, releases=8)
    file = tmp_path / "owner" / "owner.toml"
    file.write_text(file.read_text().replace("[mechanism]", '[mechanism]\nclipped_by = "app"'))
    node = kit.node_of(file)
    expected = np.full(210, 1.0 / np.sqrt(210))
    np.testing.assert_allclose(kit.update(node.ask(node.app().content, 1)), expected, atol=0.01)
    for number, failing in enumerate((ROWS % 5, HALF), start=2):
        reply = node.ask(node.app(kit.train_in(failing)).content, number)
        np.testing.assert_allclose(kit.update(reply), 0.0, atol=0.01)


@pytest.mark.parametrize("why", FAILING)
def test_a_training_that_fails_is_like_any_other(why: str, node: Any, kit: ModuleType, honest: Any) -> None:
    """The law of replies, over whatever can happen in the box."""
    other = node.limited(time_limit=6.0, memory=4 << 30)
    bundle = other.app(kit.train_in(FAILING[why]))
    assert shape_of(other.ask(bundle.content)) == honest
    assert other.charges == 1


REHEARSING = """
@app.query("rehearsal")
def rehearse(message, context):
    seen = os.path.exists(DATA)
    print("state", len(context.state), "sees the data", seen, flush=True)
    context.state["kept"] = ConfigRecord({"seen": seen})
    BODY
"""


@pytest.mark.parametrize("body", ["return answer(message, changed(message))", "os._exit(3)", "raise ValueError"])
def test_a_rehearsal_runs_in_a_box_without_the_data(
    body: str, node: Any, kit: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("flwr").propagate = True
    data = tmp_path / "data"
    data.mkdir()
    with_data = node.limited(data=(data,))
    training = """
@app.train()
def train(message, context):
    print("trains", os.path.exists(DATA), flush=True)
    return answer(message, changed(message))
"""
    code = kit.HEAD + training + REHEARSING.replace("BODY", body)
    bundle = with_data.app(code.replace("DATA", repr(str(data)))).content
    refused = with_data.ask(bundle, kind="query.rehearsal")
    assert Refusal.of(refused.error) == Refusal("not-allowed")
    assert "sees" not in caplog.text
    owner = node.guard.owner
    owner.write_text(owner.read_text().replace("[replies]", "[replies]\nrehearse = true"))
    state = recorddict_to_proto(RecordDict({"kept": ConfigRecord({"patient": 17})})).SerializeToString()
    with_data.context.state = kept_state(state, sha256(bundle))
    reply = with_data.ask(bundle, kind="query.rehearsal")
    assert dict(reply.content) == {"pausefl": {"name": "clinic"}}
    assert "state 0 sees the data False" in caplog.text
    assert kit.state_of(with_data)["kept"]["patient"] == 17
    assert node.charges == 0
    with_data.ask(bundle)
    assert "trains True" in caplog.text
    caplog.clear()
    assert Refusal.of(with_data.ask(bundle, kind="query.rehearsal").error) == Refusal("not-allowed")
    assert "sees" not in caplog.text
    assert node.charges == 1


MODEL = 210 * 4
BYTES = {
    "nothing": b"",
    "no parts": bytes(MODEL + 16),
    "any numbers": pack(os.urandom(MODEL), b""),
    "not a number": pack(b"\xff" * MODEL, b""),
    "too few": pack(bytes(MODEL - 4), b""),
    "too many": pack(bytes(MODEL + 4), b""),
    "a state that is none": pack(bytes(MODEL), b"\xff" * 100),
}


@pytest.mark.parametrize("what", BYTES)
def test_whatever_comes_out_of_the_box_the_answer_is_like_any_other(
    what: str, node: Any, honest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app can write what it likes in place of the program that runs it."""
    limits: list[int] = []
    monkeypatch.setattr(Box, "run", lambda self, command, request, limit, *_, **__: limits.append(limit) or BYTES[what])
    assert shape_of(node.ask(node.app().content)) == honest
    assert limits == [16 + MODEL + MOST_STATE]


def test_nothing_but_the_tensors_of_an_answer_comes_out_of_the_box(
    node: Any, kit: ModuleType, honest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Other records, of any number and size, stay inside; so they are never read."""
    logging.getLogger("flwr").propagate = True
    body = "reply = answer(message, changed(message), **{f'{n:x}': n for n in range(20_000)})\n"
    body += "reply.content['more'] = ConfigRecord({'bytes': bytes(1 << 25)})\nprint('ANSWERED')\nreturn reply"
    reply = node.ask(node.app(kit.train_in(body)).content)
    assert shape_of(reply) == honest and node.charges == 1
    assert "app says: ANSWERED" in caplog.text and "training failed" not in caplog.text


@pytest.mark.parametrize("user", USERS)
def test_loaders_with_workers_work_in_the_box(user: str | None, node: Any, kit: ModuleType) -> None:
    """Torch's way to share memory connects to a socket, which no app can; its tensors go by value."""
    pytest.importorskip("torch")
    body = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
    body += "data = TensorDataset(torch.arange(64.0).reshape(32, 2))\n"
    body += "total = sum(float(x.sum()) for x, in DataLoader(data, batch_size=4, num_workers=2))\n"
    body += "context.state['total'] = ConfigRecord({'is': total})\nreturn answer(message, changed(message))"
    other = node.limited(user=user)
    other.ask(other.app(kit.train_in(body)).content)
    assert kit.state_of(other)["total"]["is"] == 2016.0


def test_while_a_pipe_is_in_a_data_folder_trainings_fail(
    node: Any, kit: ModuleType, tmp_path: Path, honest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal would say something of the data, uncharged."""
    logging.getLogger("flwr").propagate = True
    (tmp_path / "data").mkdir()
    reading = node.limited(data=(tmp_path / "data",))
    bundle = reading.app(kit.PLAIN + "\nprint('LOADED', flush=True)\n")
    os.mkfifo(tmp_path / "data" / "pipe")
    assert shape_of(reading.ask(bundle.content)) == honest
    assert reading.charges == 1
    assert "training failed" in caplog.text and "pipe' is a named pipe" in caplog.text
    assert "LOADED" not in caplog.text
    (tmp_path / "data" / "pipe").unlink()
    assert reading.ask(bundle.content, 2).has_content()
    assert "LOADED" in caplog.text


def test_what_is_not_charged_does_not_look_into_the_data_folders(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time of an answer would tell how many files there are."""
    owner, looked = node.guard.owner, []
    owner.write_text(owner.read_text().replace("[replies]", "[replies]\nrehearse = true"))
    bundle = node.app(kit.PLAIN + REHEARSING.replace("DATA", "'/'").replace("BODY", "return None")).content
    monkeypatch.setattr(Box, "check_folders", lambda self: looked.append(node.charges))
    hello = kit.request()
    hello.content["pausefl"]["hello"] = True
    told = node.guard.answer(bundle, hello, node.context).content["pausefl"]
    assert told == {"name": "clinic", "releases": 0, "left": 1.0}
    assert node.ask(bundle, kind="query.rehearsal").has_content()
    assert node.ask(bundle, kind="evaluate").has_error() and node.ask(b"").has_error()
    assert looked == []
    assert node.ask(bundle).has_content()
    assert looked == [1]  # after the charge
    assert node.ask(bundle).content["pausefl"]["replayed"]
    assert looked == [1]


@pytest.mark.parametrize("kind", ["train.a b", "train.", "train.a.b", "train.\x1b[31m", "else", ""])
def test_a_message_of_a_type_that_cannot_be_answered_is_not_charged(kind: str, node: Any, kit: ModuleType) -> None:
    message = kit.request()
    message.metadata.__dict__["_message_type"] = kind  # Flower's own server would not send it
    reply = node.guard.answer(node.app().content, message, node.context)
    assert Refusal.of(reply.error) == Refusal("bad-request")
    assert node.charges == 0


def test_the_reasons_stay_in_the_owners_log(node: Any, kit: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("flwr").propagate = True
    reply = node.ask(node.app(kit.train_in('raise ValueError("patient \\x1b[31m17")')).content)
    assert "app says: ValueError: patient  [31m17" in caplog.text
    [failed] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert failed.exc_info is not None
    said = "the app ended with status 1; its last line was: ValueError: patient  [31m17"
    assert str(failed.exc_info[1]) == said
    assert b"patient" not in repr(reply).encode() and b"patient" not in reply.content["arrays"]["w"].data


def test_one_byte_more_is_another_app(node: Any, kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    node.apps.add(load_bundle(folder))
    with (folder / "tried" / "client.py").open("a") as file:
        file.write("#")
    refused = node.ask(load_bundle(folder).content)
    assert Refusal.of(refused.error) == Refusal("unreviewed")
    assert node.charges == 0


def test_an_unreviewed_bundle_is_not_even_unpacked(node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("a bundle was opened")

    monkeypatch.setattr(zipfile.ZipFile, "__init__", opened)
    for content in (b"", b"rubbish", b"PK\x03\x04", os.urandom(1000)):
        assert Refusal.of(node.ask(content).error) == Refusal("unreviewed")
    assert node.charges == 0


def test_a_list_that_cannot_be_used_lets_nothing_run(node: Any) -> None:
    bundle = node.app()
    node.guard.reviewed.chmod(0o666)
    assert Refusal.of(node.ask(bundle.content).error) == Refusal("unreviewed")
    node.guard.reviewed.chmod(0o600)
    node.guard.reviewed.write_text("app = 3")
    assert Refusal.of(node.ask(bundle.content).error) == Refusal("unreviewed")
    node.guard.reviewed.unlink()
    assert Refusal.of(node.ask(bundle.content).error) == Refusal("unreviewed")
    assert node.charges == 0


def test_a_withdrawn_app_does_not_run_from_the_next_message_on(node: Any) -> None:
    bundle = node.app()
    assert node.ask(bundle.content, 1).has_content()
    node.apps.withdraw(bundle.sha256[:8])
    assert Refusal.of(node.ask(bundle.content, 2).error) == Refusal("unreviewed")


def test_names_and_versions_with_paths_lead_nowhere(node: Any, kit: ModuleType, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if "app-" not in str(path)}
    bundle = node.app(version="../../../planted")
    assert node.ask(bundle.content).has_content()
    fresh = {path for path in tmp_path.rglob("*") if "app-" not in str(path)} - before
    assert {path.name.split("-")[0] for path in fresh} <= {"reviewed", "ledger.db", "in", "head"} | {
        path.name.split("-")[0] for path in (node.folder / "ledger.db-replies").iterdir()
    }
    assert not list(Path(os.environ.get("FLWR_HOME", Path.home() / ".flwr")).glob("apps/*planted*"))


def test_evaluation_does_not_call_the_app(node: Any, kit: ModuleType) -> None:
    client = (
        kit.HEAD
        + "\n@app.evaluate()\ndef evaluate(message, context):\n    context.state['ran'] = ConfigRecord({'a': 1})\n"
    )
    bundle = node.app(client)
    for kind in ("evaluate", "query", "train.other"):
        reply = node.ask(bundle.content, 1, kind)
        if kind != "train.other":
            assert Refusal.of(reply.error) is not None
    assert "ran" not in kit.state_of(node)


def test_what_an_app_kept_is_for_this_app_alone(node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says which runs have one context; another app was reviewed without what this one keeps."""
    given: list[bytes] = []

    def run(box: Box, command: list[str], request: bytes, *_: object, **__: object) -> bytes:
        given.append(bytes(unpack(request, 4)[3]))
        return pack(bytes(210 * 4), b"alice, HIV+")

    monkeypatch.setattr(Box, "run", run)
    one, two = node.app(), node.app(kit.PLAIN + "\n# another\n")
    for number, app in enumerate((one, one, two, two, one), 1):
        assert node.ask(app.content, number).has_content()
    assert given == [b"", b"alice, HIV+", b"", b"alice, HIV+", b""]


def test_two_apps_in_turn(node: Any, kit: ModuleType) -> None:
    one, two = node.app(), node.app(kit.PLAIN + "\n# another\n", name="other")
    assert [
        node.ask(app.content, number).content["pausefl"]["releases"] for number, app in ((1, one), (2, two), (3, one))
    ] == [1, 2, 3]


def test_the_state_of_an_app_lives_on(node: Any, kit: ModuleType) -> None:
    body = "seen = context.state.config_records.get('seen', ConfigRecord({'n': 0}))\n"
    body += "context.state['seen'] = ConfigRecord({'n': seen['n'] + 1})\nreturn answer(message, changed(message))"
    bundle = node.app(kit.train_in(body))
    node.ask(bundle.content, 1)
    node.ask(bundle.content, 2)
    assert kit.state_of(node)["seen"]["n"] == 2


def test_a_state_is_not_read_outside_of_the_box_and_not_kept_if_it_is_huge(node: Any, kit: ModuleType) -> None:
    body = "if 'many' in context.state: context.state['huge'] = ConfigRecord({'bytes': bytes(1 << 24)})\n"
    body += "context.state['many'] = ConfigRecord({f'{n:x}': True for n in range(40_000)})\n"
    body += "return answer(message, changed(message))"
    bundle = node.app(kit.train_in(body))
    node.ask(bundle.content, 1)
    kept = state_in(node.context.state, bundle.sha256)
    assert len(kit.state_of(node)["many"]) == 40_000
    assert node.ask(bundle.content, 2).has_content()
    assert state_in(node.context.state, bundle.sha256) == kept
    assert state_in(node.context.state, "another app") == b""


@pytest.mark.parametrize(
    "body", ["context.state['seen'] = ConfigRecord({'b': bytes(1 << 23)})", "raise ValueError", ""]
)
def test_what_the_supernode_keeps_has_one_size_whatever_training_did(body: str, node: Any, kit: ModuleType) -> None:
    """The server decides how much memory the SuperNode has left, and would see whether a state still fits."""
    bundle = node.app(kit.train_in(f"{body}\nreturn answer(message, changed(message))"))
    for number in (1, 2):
        node.ask(bundle.content, number)
        nothing = replace(node.context, state=kept_state(b"", bundle.sha256))
        assert context_to_proto(node.context).ByteSize() == context_to_proto(nothing).ByteSize() > MOST_STATE


@pytest.mark.parametrize("odd", ["ConfigRecord({'n': 2 ** 64})", "ConfigRecord({'b': bytes(17 << 20)})", "None"])
def test_a_state_that_cannot_be_kept_fails_no_training(
    odd: str, node: Any, kit: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("flwr").propagate = True
    state = f"context.state = RecordDict({{'odd': {odd}}})" if odd != "None" else "context.state = None"
    bundle = node.app(kit.train_in(f"{state}\nreturn answer(message, changed(message))"))
    assert node.ask(bundle.content).has_content()
    assert "training failed" not in caplog.text and "the state of the app cannot be kept" in caplog.text


def test_a_state_that_cannot_be_read_is_an_empty_one(
    node: Any, kit: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("flwr").propagate = True
    bundle = node.app(kit.train_in("print('STATE', len(context.state))\nreturn answer(message, changed(message))"))
    node.context.state = kept_state(b"\xff" * 100, bundle.sha256)
    assert node.ask(bundle.content).has_content()
    assert "the kept state of the app cannot be read" in caplog.text and "app says: STATE 0" in caplog.text
    assert "training failed" not in caplog.text


def test_a_repeated_request_does_not_call_the_app_again(node: Any, kit: ModuleType) -> None:
    body = "seen = context.state.config_records.get('seen', ConfigRecord({'n': 0}))\n"
    body += "context.state['seen'] = ConfigRecord({'n': seen['n'] + 1})\nreturn answer(message, changed(message))"
    bundle = node.app(kit.train_in(body))
    first, again = node.ask(bundle.content), node.ask(bundle.content)
    assert first.content["arrays"]["w"].data == again.content["arrays"]["w"].data
    assert kit.state_of(node)["seen"]["n"] == 1
    assert node.charges == 1


@pytest.fixture
def victim() -> Iterator[int]:
    """A process of the same user that an app must not be able to stop."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def tried(node: Any, kit: ModuleType, victim: int, *only: str) -> tuple[Message, dict[str, str], bool]:
    """Run the hostile app: return the reply, what it says of its attempts, and whether it got through to a listener."""
    bundle = node.app(kit.HOSTILE.read_text(), settings='target = ""\n')
    paths = [node.folder, node.guard.owner, node.folder / "ledger.db", node.guard.reviewed, "/etc/passwd", "/run"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        target = {"port": listener.getsockname()[1], "victim": victim, "paths": list(map(str, paths)), "only": only}
        node.context.run_config["target"] = json.dumps(target).encode().hex()
        reply = node.ask(bundle.content)
        heard = bool(select.select([listener], [], [], 0)[0])
    return reply, json.loads(str(kit.state_of(node)["found"]["text"])), heard


SETTINGS = "lr = 0.1\n[tool.flwr.app.config.train]\nsteps = 3\nname = 'x'\n"


@pytest.mark.parametrize(
    "odd", [{"centre": True}, {"train": "x"}, {"train.steps": True}, {"train.name": 3}, {"lr": "0.1"}, {"lr": 1, "": 2}]
)
def test_a_run_sets_only_what_a_review_has_shown(odd: dict[str, Any], node: Any, kit: ModuleType) -> None:
    """Flower keeps the settings of other runs of a series, and those that it cannot check: they come to the guard."""
    bundle = node.app(settings=SETTINGS)
    node.context.run_config = odd
    reply = node.ask(bundle.content)
    assert Refusal.of(reply.error) == Refusal("bad-request") and not node.charges


def test_an_app_finds_its_own_settings_where_a_run_sets_none(node: Any, kit: ModuleType) -> None:
    found = (
        "changed(message)\nimport json\ncontext.state['found'] = ConfigRecord({'text': json.dumps(context.run_config)})"
    )
    bundle = node.app(kit.train_in(found + "\nreturn answer(message, changed(message))"), settings=SETTINGS)
    node.context.run_config = {"lr": 1, "train.name": "y"}
    assert node.ask(bundle.content).has_content()
    told = json.loads(str(kit.state_of(node)["found"]["text"]))
    assert told == {"lr": 1, "train.steps": 3, "train.name": "y"}


def test_an_app_starts_in_an_empty_folder(node: Any, kit: ModuleType) -> None:
    """Some packages read settings from there, which no code of the app names."""
    look = "context.state['found'] = ConfigRecord({'files': os.listdir('.'), 'code': __file__})\n"
    assert node.ask(node.app(kit.train_in(look + "return answer(message, changed(message))")).content).has_content()
    found = kit.state_of(node)["found"]
    assert found["files"] == [] and str(found["code"]).endswith("/app/tried/client.py")


def test_a_task_keeps_no_word_of_the_server_about_its_run(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would lack in memory while the app runs."""
    run = replace(Run.create_empty(7), account_name="x" * 1000, fab_id="y" * 1000)
    given = (object(), object(), run, Fab("h", b"bundle", {"z": "z" * 1000}))
    for name in ("install_from_fab", "get_project_dir", "get_load_client_app_fn"):
        monkeypatch.setattr(executor._task, name, None)
    monkeypatch.setattr(executor._task, "pull_task_input", lambda client: given)
    executor.install_guard(node.guard, TaskType.CLIENT_APP, 0.0)
    message, context, kept, fab = executor._task.pull_task_input(None)
    assert (message, context) == given[:2] and kept == Run.create_empty(7) and fab == Fab("", b"bundle", {})


def test_a_task_does_not_wait_for_ever_for_its_message(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server hung the node by ending runs that had sent the same model."""
    ended, waits = Event(), [True, False]

    def pull(client: object) -> Any:
        if waits.pop(0):
            assert ended.wait(60.0)
        return None, None, Run.create_empty(7), Fab("", b"", {})

    for name in ("install_from_fab", "get_project_dir", "get_load_client_app_fn"):
        monkeypatch.setattr(executor._task, name, None)
    monkeypatch.setattr(executor._task, "pull_task_input", pull)
    monkeypatch.setattr(executor, "_MOST_WAITING", 0.05)
    monkeypatch.setattr(os, "_exit", lambda code: ended.set())
    executor.install_guard(node.guard, TaskType.CLIENT_APP, 0.0)
    executor._task.pull_task_input(None)
    assert ended.is_set()
    monkeypatch.setattr(executor, "_MOST_WAITING", 3600.0)
    ended.clear()
    executor._task.pull_task_input(None)
    assert not ended.is_set()
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer) and not one.finished.is_set()]


def test_a_hostile_app_gets_nothing_out(node: Any, kit: ModuleType, victim: int) -> None:
    """The app tries everything it can think of, and writes down what worked."""
    reply, found, heard = tried(node, kit, victim, "")
    assert [name for name, what in found.items() if what == "worked"] == []
    assert len(found) == 29 + 12
    assert not heard
    os.kill(victim, 0)
    assert list(reply.content) == ["arrays", "metrics", "pausefl"]
    assert reply.content["metrics"] == {"num-examples": 1}
    note = dict(reply.content["pausefl"])
    left = {"left": pytest.approx(0.875), "next-noise": note["noise"]}
    assert note == {"name": "clinic", "releases": 1, "noise": note["noise"], "signal": 1.0, **left}
    assert np.linalg.norm(kit.update(reply)) < 1e3  # of an update whose entries are a million, the clip left 1


def test_without_the_box_the_same_attempts_work(node: Any, kit: ModuleType, victim: int) -> None:
    """So the test above can fail; what leaves through the gate is noised all the same."""
    names = ("tcp", "udp", "processes", "stop another", "read ")  # of those that change nothing on this machine
    reply, found, heard = tried(open_node := node.limited(closed=False), kit, victim, *names)
    assert {name for name, what in found.items() if what == "failed"} <= {"tcp6"}
    assert len(found) == 11 and open_node.charges == 1
    assert heard
    assert reply.content["metrics"] == {"num-examples": 1}
    assert np.linalg.norm(kit.update(reply)) < 1e3


@pytest.mark.parametrize("kind", [kind for kind in TaskType if kind != TaskType.CLIENT_APP])
def test_other_kinds_of_task_are_refused(
    kind: TaskType, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("install_from_fab", "get_project_dir", "get_load_client_app_fn"):
        monkeypatch.setattr(executor._task, name, None)  # restored afterwards
    executor.install_guard(node.guard, kind, 0.0)
    executor._task.install_from_fab(node.app().content, skip_prompt=True)
    load = executor._task.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    reply = load("a/b", "1.0", "hash")(message=kit.request(), context=node.context)
    assert Refusal.of(reply.error) == Refusal("unreviewed")
    assert node.charges == 0


def test_a_guard_survives_the_way_to_another_process(node: Any) -> None:
    guard = node.limited(time_limit=5.0, memory=1 << 30, data=(node.folder.parent,), hidden=(Path("/srv/x"),)).guard
    guard = replace(guard, answer_after=20.0)
    assert Guard.of(guard.text()) == guard


def test_how_large_a_model_may_be_follows_from_public_numbers_alone(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that finds how much memory is left would learn how large the data is: 16 right of 16."""
    bundle = node.app().content
    monkeypatch.setattr(guard_module, "memory_there", lambda: 4 * (210 * 400 + 2 * 5000) - 4)
    assert node.guard.answer(bundle, kit.request(), node.context).has_error()
    assert node.charges == 0
    monkeypatch.setattr(guard_module, "memory_there", lambda: 4 * (210 * 400 + 2 * 5000))
    monkeypatch.setattr(guard_module, "supernode_memory", lambda *, rooms: (300 << 20) + 8390)
    assert node.guard.answer(bundle, kit.request(), node.context).has_error()
    assert node.charges == 0
    monkeypatch.setattr(guard_module, "supernode_memory", lambda *, rooms: (300 << 20) + 8400)
    assert not node.guard.answer(bundle, kit.request(), node.context).has_error()
    assert node.charges == 1


def test_memory_for_what_an_app_keeps_is_held_before_the_charge(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app may keep a state if one record is there; taking it over must not need memory that was not held."""
    held: list[int] = []

    def touched(size: int) -> Any:
        held.append(size)
        return np.zeros(1, dtype=np.uint8)

    monkeypatch.setattr(gating, "_touched", touched)
    monkeypatch.setattr(Box, "run", lambda *_, **__: pack(bytes(210 * 4), b""))
    assert node.ask(node.app().content).has_content()
    assert max(held) >= 7 * MOST_STATE
