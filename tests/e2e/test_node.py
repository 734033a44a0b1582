"""``pausefl node`` in a real deployment: which code runs on an owner's machine, and what leaves; with real kills."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pausefl
from pausefl.cli import main
from pausefl.flower.node.reviewed_apps import FILE
from pausefl.privacy import SqliteLedger

ROOT = Path(__file__).parents[2]
SERVER = """
import json, time
import numpy as np
from pathlib import Path
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    model = ArrayRecord({"w": Array(np.zeros(200, dtype=np.float32))})
    told, waiting, end = None, {}, time.monotonic() + float(context.run_config["patience"])
    while told is None and time.monotonic() < end:  # nodes that were killed are listed for a while; they do not answer
        for node in set(grid.get_node_ids()) - set(waiting):
            asked = {"arrays": model, "config": ConfigRecord({"server-round": 1})}
            [waiting[node]] = grid.push_messages([Message(RecordDict(asked), node, "train")])
        for reply in grid.pull_messages(list(waiting.values())):
            if reply.metadata.src_node_id == 1:
                continue
            told = {"error": reply.error.reason if reply.has_error() else None}
            if reply.has_content():
                arrays = {name: array.numpy().tolist() for name, array in reply.content["arrays"].items()}
                numbers = {key: dict(record) for key, record in reply.content.items() if key != "arrays"}
                told |= {"update": arrays["w"], "numbers": numbers}
        time.sleep(0.1)
    Path(context.run_config["out"]).write_text(json.dumps(told))
"""


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


DEPLOY = load("flower_digits_deploy_for_node", ROOT / "examples" / "flower-digits" / "deploy.py")
KIT = load("node_kit", ROOT / "tests" / "flower" / "node" / "conftest.py")


def patience(seconds: float) -> float:
    """What takes so long on an idle machine takes longer on a busy one."""
    return seconds * min(8.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + patience(60)
    while not true():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


class Site:
    """A SuperLink, and one owner's node on it."""

    def __init__(self, folder: Path, **terms: Any) -> None:
        self.link = DEPLOY.Deployment(folder / "deployment", 0)
        self.owner = KIT.make_owner(folder / "owner", **terms)
        self.folder = folder

    def start_node(self) -> None:
        words = ["node", "start", "--owner", str(self.owner), "--time-limit", "60", "--"]
        self.link._start("node", "pausefl", *words, "--insecure", "--superlink", self.link.address)
        until(lambda: "guarded executor are running" in self.link.log("node").rpartition("reviewed app")[2], "the node")

    def process(self, role: str) -> int:
        """Return the pid of one of the node's processes."""
        [pid] = DEPLOY.descendants(self.link._running["node"].pid, f"pausefl.flower.node {role}")
        return int(pid)

    def killed(self, role: str) -> str:
        """Kill one of the node's processes; return the last line of the node, which ends with it."""
        node, others = self.link._running["node"], [self.process(name) for name in ("supernode", "executor")]
        os.kill(self.process(role), signal.SIGKILL)
        assert node.wait(timeout=patience(30)) == 2
        assert not [pid for pid in others if Path(f"/proc/{pid}").exists()]
        return self.link.log("node").strip().splitlines()[-1]

    def app(self, name: str, client: str, *, reviewed: bool) -> Path:
        app = KIT.write_app(self.folder / name, client, name=name)
        (app / "tried" / "server.py").write_text(SERVER)
        with (app / "pyproject.toml").open("a") as file:
            file.write('out = ""\npatience = 60.0\ntarget = ""\n')
        if reviewed:
            with pytest.raises(SystemExit) as ended:
                main(["node", "review", str(app), "--owner", str(self.owner), "--yes"])
            assert not ended.value.code
        return app

    def run(self, app: Path, **config: object) -> dict[str, Any]:
        """Send a run; return what its server was told."""
        out, log = self.folder / "told.json", self.folder / "run.log"
        out.unlink(missing_ok=True)
        process = self.link.begin_run(app, {"out": str(out), "patience": patience(60), **config}, log)
        try:
            process.wait(timeout=patience(120))
        finally:
            process.kill()
        told = json.loads(out.read_text()) if out.exists() else None
        assert told, log.read_text()[-2000:] + self.link.log("node")[-5000:]
        return dict(told)

    @property
    def charges(self) -> int:
        return len(SqliteLedger(self.owner.with_name("ledger.db")).charges("clinic"))


@pytest.fixture(params=["whole update"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    KIT.need_namespaces()
    terms: dict[str, Any] = {}
    if request.param == "records":
        data = tmp_path_factory.mktemp("data") / "patients.csv"
        data.write_text("".join(f"{number}\n" for number in (1, 2, "bad", 4)))
        terms = {"records_from": data, "budget": 9e5, "releases": 1, "clip": 1e3}
    shared = tmp_path_factory.getbasetemp()
    place = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with place.joinpath("flower.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)  # never two deployments at a time
        patch.setenv("PYTHONPATH", str(Path(pausefl.__file__).parents[1]))
        made = Site(tmp_path_factory.mktemp("site"), **terms)
        with made.link, socket.create_server(("127.0.0.1", 0)) as proxy:
            made.link.env["http_proxy"] = f"http://127.0.0.1:{proxy.getsockname()[1]}"
            made.start_node()
            del made.link.env["http_proxy"]
            yield made
            proxy.setblocking(False)
            with pytest.raises(BlockingIOError):
                proxy.accept()  # what the parts of a node tell each other stays on the machine


def noised(told: dict[str, Any], releases: int) -> None:
    """Check a reply: the update is noise around at most the clip, and the rest are constants."""
    assert told["error"] is None
    note = told["numbers"]["pausefl"]
    left = {"left": pytest.approx(1.0 - releases / 8), "next-noise": note["noise"]}
    assert note == {"name": "clinic", "releases": releases, "noise": note["noise"], "signal": 1.0, **left}
    assert told["numbers"] == {"metrics": {"num-examples": 1}, "pausefl": note}
    assert 3 < np.linalg.norm(told["update"]) < 1e3


@pytest.mark.thorough  # siblings without a deployment: tests/flower/node
def test_the_node_runs_what_was_reviewed_and_nothing_else_gets_out(site: Site) -> None:
    plain = KIT.PLAIN.replace("ClientApp()", "ClientApp(mods=[PrivateUpdate()])")
    carrying = "from pausefl.flower import PrivateUpdate\n" + plain
    good = site.app("good", carrying, reviewed=True)
    noised(site.run(good), 1)
    assert site.charges == 1  # by the gate outside, not by the mod inside as well

    with (good / "tried" / "client.py").open("a") as file:
        file.write("#")
    assert "(unreviewed)" in site.run(good)["error"]
    assert site.charges == 1

    bare = site.app("bare", KIT.PLAIN, reviewed=True)
    noised(site.run(bare), 2)
    assert site.charges == 2

    hostile = site.app("hostile", KIT.HOSTILE.read_text(), reviewed=True)
    hidden = [
        site.owner.parent,
        site.owner,
        site.owner.with_name("ledger.db"),
        site.owner.with_name(FILE),
        site.link.home,
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        target = {"port": listener.getsockname()[1], "victim": site.process("executor"), "only": [""]}
        target["paths"] = [str(path) for path in hidden]
        noised(site.run(hostile, target=json.dumps(target).encode().hex()), 3)
        with pytest.raises(BlockingIOError):
            listener.accept()
    [line] = [line for line in site.link.log("node").splitlines() if "app says: TRIED" in line]
    assert '"failed"' in line and "worked" not in line
    assert "stolen" not in site.link.log("node").replace(line, "")

    assert "the executor ended with code -9" in site.killed("executor")
    site.start_node()
    assert "(unreviewed)" in site.run(good)["error"]
    assert "the SuperNode ended with code -9" in site.killed("supernode")
    site.start_node()
    noised(site.run(bare), 4)
    assert site.charges == 4

    site.link._running["node"].send_signal(signal.SIGTERM)
    assert site.link._running["node"].wait(timeout=patience(40)) == 143


ONE_RECORD = """
@app.train()
def train(message, context):
    one = float(record_in(message).data)
    row = {name: Array(np.full_like(array.numpy(), one)) for name, array in message.content["arrays"].items()}
    return answer(message, ArrayRecord(row))
"""


@pytest.mark.thorough  # siblings without a deployment: tests/flower/node/test_record_rooms.py
@pytest.mark.parametrize("site", ["records"], indirect=True)
def test_the_node_hands_over_one_record_at_a_time(site: Site) -> None:
    app = site.app("each", f"from pausefl.flower import record_in\n{KIT.HEAD}{ONE_RECORD}", reviewed=True)
    told = site.run(app)
    assert told["error"] is None and site.charges == 1
    assert told["numbers"]["metrics"] == {"num-examples": 4}
    assert np.mean(told["update"]) == pytest.approx((1 + 2 + 0 + 4) / 4, abs=0.3)
    assert "the app failed for 1 of 4 records; they count as zeros" in site.link.log("node")
