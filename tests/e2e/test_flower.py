"""A real SuperLink, real SuperNodes, real kills; the app is the example's, started by the example's own script."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pausefl
from pausefl.flower import Checkpoint
from pausefl.privacy import FixedHorizon, Gaussian, SqliteLedger, suggest
from pausefl.privacy.ledger.price import leaked, rho_share
from pausefl.report.live.server import watching

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Page, find_browser

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower-digits"
HORIZON, DELTA = FixedHorizon(budget=4.0, releases=20), 1e-5
RECORDS = Gaussian(l2=1.0, delta=DELTA, unit="record")


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("flower_digits_deploy", EXAMPLE / "deploy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def patience(seconds: float) -> float:
    """What takes so long on an idle machine takes longer on a busy one."""
    return seconds * min(8.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever distributes the tests: never two deployments at a time, they would starve each other."""
    shared = tmp_path_factory.getbasetemp()
    with (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared).joinpath("flower.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def deployment(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One SuperLink and three SuperNodes, the first of them slow, that protect each record; plaintext."""
    folder = tmp_path_factory.mktemp("deployment")
    script = load_script()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(pausefl.__file__).parents[1]))
        with script.Deployment(
            folder / "d", budget=HORIZON.budget, releases=HORIZON.releases, delays=(3.0, 0.0, 0.0)
        ) as made:
            yield made


class Run:
    """A run under way; whatever happens, its process is gone at the end."""

    def __init__(self, deployment: Any, name: str, app: Path = EXAMPLE, **config: object) -> None:
        self.log = deployment.folder / f"{name}.log"
        patient = {"wait": patience(60), "timeout": patience(120)}  # the example's own, on an idle machine
        self.process: subprocess.Popen[bytes] = deployment.begin_run(app, patient | config, self.log)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def end(self, seconds: float = 150) -> str:
        self.process.wait(timeout=patience(seconds))
        return self.log.read_text(errors="replace")


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + patience(90)
    while not true():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def charges(deployment: Any, node: int) -> tuple[Any, ...]:
    return SqliteLedger(deployment.owner_folder(node) / "ledger.db").charges(f"client-{node}")


def counts(deployment: Any) -> list[int]:
    return [len(charges(deployment, node)) for node in range(3)]


def releases(deployment: Any, since: list[int]) -> list[list[str]]:
    return [[charge.release for charge in charges(deployment, node)[since[node] :]] for node in range(3)]


def test_1_picks_follow_the_selector_and_the_ledgers_hold_what_the_server_received(deployment: Any) -> None:
    before, state, start = counts(deployment), deployment.folder / "first.state", time.monotonic()
    with Run(deployment, "first", **{"rounds": 3, "per-round": 2, "checkpoint": str(state)}) as run:
        said = run.end()
    whole = time.monotonic() - start
    found = Checkpoint.read(state)
    assert found.round == 3, said
    sizes = {f"client-{n}": 479 for n in range(3)}
    alone = pausefl.Selector(sizes, per_round=2, warm_up=1)  # as the first answer of each node is provisional
    alone.report({f"client-{n}": count for n, count in enumerate(before)})
    for played in found.history:  # the same latencies lead to the same choice, among those that are there by then
        here = re.findall(r"node \d+ is '(client-\d)'", said.partition(played.line())[0])
        assert alone.select(here).members == played.members
        alone.observe({member: played.seconds[str(member)] for member in played.members})
        assert not played.refused
        assert all(0.1 < seconds < whole for seconds in played.seconds.values())
        assert played.seconds.get("client-0", math.inf) > 3.0  # its delay
    for node, fresh in enumerate(releases(deployment, before)):
        received = [f"{found.run}/{p.round}" for p in found.history if f"client-{node}" in p.members]
        assert fresh == received
        ledger = SqliteLedger(deployment.owner_folder(node) / "ledger.db")
        spent = leaked(RECORDS, HORIZON.budget, HORIZON.spent(before[node] + len(fresh)))[0]
        assert ledger.spent(f"client-{node}") == pytest.approx(spent)
        assert {(row.noise, row.unit, row.loss) for row in charges(deployment, node)} <= {("secure", "record", "zcdp")}
        ledger.verify()
    for played in found.history:
        assert played.line() in said


@contextmanager
def live_page(path: Path, folder: Path) -> Iterator[Page | None]:
    """The page of ``pausefl watch`` in a browser, from before the run has begun; None without a browser."""
    browser = find_browser()
    if browser is None:
        yield None
        return
    page = Page(browser, folder / "profile")
    try:
        with watching(path) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page.open(server.url)
            yield page
            server.shutdown()
    finally:
        page.close()


def test_2_a_node_killed_in_mid_round_comes_back_and_its_count_never_falls(deployment: Any, tmp_path: Path) -> None:
    before, state = counts(deployment), deployment.folder / "killed.state"
    asked = {
        "rounds": 3,
        "per-round": 3,
        "fewer": "smaller",
        "timeout": patience(20),
        "wait": patience(30),
        "checkpoint": str(state),
    }
    with live_page(state, tmp_path) as page, Run(deployment, "killed", **asked) as run:
        until(lambda: counts(deployment)[0] > before[0], "the slow node to be charged")
        deployment.kill("supernode-0", signal.SIGKILL)
        after_kill = counts(deployment)[0]
        assert after_kill == before[0] + 1
        deployment.start_node(0)
        if page is not None:  # it sees the round arrive, and an alarm that goes when the client is back
            page.until("document.documentElement.dataset.rounds >= 1", patience(90))
            page.until("document.querySelector('.alarm.silent[data-clients~=client-0]')", patience(60))
        said = run.end()
        if page is not None:
            page.until("document.documentElement.dataset.rounds == 3", patience(30))
            page.until("!document.querySelector('.alarm.silent')", patience(30))
            assert page.evaluate("document.getElementById('progress').innerText").startswith("3 rounds · finished")
            assert page.complaints() == []
    found = Checkpoint.read(state)
    assert found.round == 3, said
    assert found.history[0].refused["client-0"] == "no answer"
    back = [played.round for played in found.history if "client-0" in played.seconds]
    assert back and back[-1] == 3, said
    for node, fresh in enumerate(releases(deployment, before)):
        asked_in = [played.round for played in found.history if f"client-{node}" in played.members]
        assert fresh == [f"{found.run}/{number}" for number in asked_in]
    assert [charge.play for charge in charges(deployment, 0)] == list(range(1, after_kill + len(back) + 1))


@pytest.mark.thorough  # siblings without a deployment: tests/flower/test_checkpoint.py, test_checkpoint_journal.py
def test_3_a_server_app_killed_in_mid_round_goes_on_in_that_round(deployment: Any) -> None:
    before, state = counts(deployment), deployment.folder / "resumed.state"
    asked = {"per-round": 2, "checkpoint": str(state)}
    with Run(deployment, "dying", rounds=4, **asked):  # more than it will live to see
        until(lambda: state.exists() and Checkpoint.read(state).round == 1, "the first round")
        after_first = counts(deployment)
        until(lambda: counts(deployment) != after_first, "a charge of the second round")
        pid = deployment.server_app()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    dead = Checkpoint.read(state)
    assert 1 <= dead.round < 4
    with Run(deployment, "resumed", rounds=dead.round + 1, **asked) as run:
        said = run.end()
    found = Checkpoint.read(state)
    assert f"the run continues after round {dead.round}" in said
    assert (found.run, found.round) == (dead.run, dead.round + 1), said
    assert found.history[0] == dead.history[0]
    for node, fresh in enumerate(releases(deployment, before)):
        received = {f"{found.run}/{p.round}" for p in found.history if f"client-{node}" in p.members}
        assert len(fresh) == len(set(fresh))
        assert received <= set(fresh)  # one that was asked before the crash and not after it was charged, too


@pytest.mark.thorough  # siblings without a deployment: tests/flower/test_client.py, tests/owner/test_gate.py
def test_4_a_hostile_server_gets_no_more_than_the_budget_and_nothing_bare(deployment: Any, tmp_path: Path) -> None:
    """A node of its own, with two releases to give, that protects the whole update.

    Hundreds of requests go through the mod in tests/flower.
    """
    app = tmp_path / "hostile"
    shutil.copytree(EXAMPLE, app, ignore=shutil.ignore_patterns("__pycache__", "deployment"))
    shutil.copy(Path(__file__).with_name("hostile_server.py"), app / "digits_app" / "server.py")
    deployment.add_owner(3, "update", budget=4.0, releases=2)
    deployment.start_node(3)
    try:
        with Run(deployment, "hostile", app, unit="update", checkpoint=str(tmp_path / "told.json")) as run:
            said = run.end()
        assert (tmp_path / "told.json").exists(), said + deployment.log("supernode-3")[-3000:]
    finally:
        deployment.kill("supernode-3", signal.SIGTERM)
    told = {entry["what"]: entry for entry in json.loads((tmp_path / "told.json").read_text())}
    ledger = SqliteLedger(deployment.owner_folder(3) / "ledger.db")
    assert len(ledger.charges("client-3")) == 2
    assert ledger.spent("client-3") <= 4.0
    answered = {what: entry["update"] for what, entry in told.items() if entry["update"] is not None}
    assert len({tuple(update) for update in answered.values()}) == 2
    assert answered["first"] == answered["replay"]
    for what, update in answered.items():
        # The clip is 1: noise makes it far longer.
        assert np.linalg.norm(update) > 20, what
        assert told[what]["metrics"] == {"num-examples": 1}
        assert told[what]["records"] == [["arrays"], ["arrays", "metrics", "pausefl"]]
    refused = {what: entry["error"] for what, entry in told.items() if entry["error"] is not None}
    assert "(repeated)" in refused["other content"]
    assert "(not-allowed)" in refused["evaluate"]
    later = [what for what in ("no name", "new run", "new round") if what in refused]
    assert len(later) == 2
    assert all("(exhausted)" in refused[what] and "[releases: 2]" in refused[what] for what in later)


@pytest.mark.thorough
def test_5_three_supernodes_learn_under_a_promise_about_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secure noise, and a budget of 4 for life, in the example's own settings.  25 trials ended at 93 to 97 %.

    The same apps in one process: ``tests/flower/test_example_learns.py``.
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(pausefl.__file__).parents[1]))
    state, script = tmp_path / "records.state", load_script()
    with script.Deployment(tmp_path / "d", delays=()) as made:
        with Run(made, "records", checkpoint=str(state)) as run:
            said = run.end(400)
        logs = [made.log(f"supernode-{node}") for node in range(3)]
    found = Checkpoint.read(state)
    assert found.round == 12, said
    assert not any("training failed" in log for log in logs), logs
    for node in range(3):
        ledger, name = SqliteLedger(made.owner_folder(node) / "ledger.db"), f"client-{node}"
        ledger.verify()
        rows = ledger.charges(name)
        assert [row.release for row in rows] == [f"{found.run}/{number}" for number in range(1, 13)], said
        assert {(row.unit, row.noise, row.dimension, row.budget) for row in rows} == {("record", "secure", 1290, 4.0)}
        assert {row.protects for row in rows} == {"one record, any one record replaced"}
        assert ledger.spent(name) <= 4.0 and sum(row.delta for row in rows) == DELTA
    assert found.state.result.evaluate_metrics_serverapp[12]["accuracy"] >= 0.85


def test_6_thirty_simulated_clients_learn_under_a_promise_about_the_whole_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secure noise, and a budget of 40 for life.  96 such runs ended at 92 to 98 %."""
    monkeypatch.setenv("PYTHONPATH", str(Path(pausefl.__file__).parents[1]))
    state, script = tmp_path / "sim.state", load_script()
    with script.Deployment(tmp_path / "s", 30, simulation=True, unit="update") as made:
        config = {"unit": "update", "clients": 30, "per-round": 5, "latency": "virtual", "checkpoint": str(state)}
        with Run(made, "sim", **config, rehearse=True) as run:
            said = run.end()
    found = Checkpoint.read(state)
    assert found.round == 18, said
    assert "3 releases of each client, 18 rounds: a model can learn so" in said
    assert suggest(3, 2, 1290, 40.0).verdict == "cannot learn"  # so three clients protect records
    assert "rehearsal: 30 of 30 answered" in said
    columns = found.selector[1]
    assert (columns["timings"] == columns["picks"] + 1).all()
    ledger = SqliteLedger(made.folder / "simulated" / f"{found.run}.db")
    assert ledger.simulation
    for node in range(30):
        received = [f"{found.run}/{p.round}" for p in found.history if f"client-{node}" in p.members]
        rows = ledger.charges(f"client-{node}")
        assert [row.release for row in rows] == received
        assert {(row.unit, row.loss, row.noise, row.dimension) for row in rows} == {("update", "pure", "secure", 1290)}
        assert ledger.spent(f"client-{node}") <= 40.0
    assert sum(len(played.seconds) for played in found.history) == 90
    assert all(seconds < 2.0 for played in found.history for seconds in played.seconds.values())  # virtual
    assert found.state.result.evaluate_metrics_serverapp[18]["accuracy"] >= 0.85


@pytest.mark.thorough  # siblings without a deployment: tests/flower/test_clients_and_nodes.py, test_second_budget.py
def test_7_a_second_run_over_tls_with_keys_continues_the_same_ledgers(deployment: Any) -> None:
    """The same clients in another deployment, where SuperNodes prove by key who they are; one of them stays away."""
    before = counts(deployment)
    if not any(before):  # else the runs before this one are the first
        with Run(deployment, "one", rounds=1, checkpoint=str(deployment.folder / "one")) as run:
            run.end()
        before = counts(deployment)
    deployment.stop()
    state = deployment.folder / "two.state"
    secure = load_script().Deployment(deployment.folder, tls=True)
    asked = {"rounds": 1, "per-round": 2, "names": "registered", "checkpoint": str(state)}
    try:
        secure.start_link()
        for node in range(2):
            secure.start_node(node)
        with Run(secure, "two", **asked) as run:
            said = run.end()
    finally:
        secure.stop()
    found = Checkpoint.read(state)
    assert found.round == 1, said
    [played] = found.history
    assert (set(played.seconds), dict(played.refused)) == ({"client-0", "client-1"}, {}), said
    assert "is 'client-0'" in said  # by the name it was registered under, which the SuperLink has verified
    assert [now - then for now, then in zip(counts(deployment), before, strict=True)] == [1, 1, 0]
    for node in range(2):
        rows = charges(deployment, node)
        assert len({row.release.partition("/")[0] for row in rows}) >= 2
        assert [row.play for row in rows] == list(range(1, len(rows) + 1))
        assert [row.rho for row in rows] == [
            rho_share(HORIZON.budget, DELTA, HORIZON.epsilon(row.play)) for row in rows
        ]
        # The second run's server knows of the first run's releases.
        assert found.selector[1]["releases"][node] == len(rows)


def hang(deployment: Any, node: int, how: int) -> None:
    """Stop a SuperNode and what it has started, or let them go on."""
    pid = deployment._running[f"supernode-{node}"].pid
    for one in (pid, *load_script().descendants(pid)):
        os.kill(one, how)


def lose_two(deployment: Any, name: str, deadline: float, **config: object) -> tuple[Checkpoint, int, int, str]:
    """Play three rounds of 3 of 5 nodes; in the second one of those that were asked hangs, and another is killed."""
    state = deployment.folder / f"{name}.state"

    def charged() -> list[int]:
        return [len(charges(deployment, node)) for node in range(5)]

    asked = {"rounds": 3, "clients": 5, "per-round": 3, "timeout": 3600.0, "deadline": deadline, **config}
    with Run(deployment, name, **asked, checkpoint=str(state)) as run:
        until(lambda: state.exists() and Checkpoint.read(state).round == 1, "the first round")
        before = charged()
        # Those that were asked in the first round, and are late, may be charged now: the second round has its name.
        second = f"{Checkpoint.read(state).run}/2"

        def working() -> list[int]:
            rows = [charges(deployment, node)[before[node] :] for node in range(5)]
            return [node for node in range(5) if any(row.release == second for row in rows[node])]

        until(lambda: len(working()) >= 2, "two charges of the second round")
        hung, killed = working()[:2]
        hang(deployment, hung, signal.SIGSTOP)
        deployment.kill(f"supernode-{killed}", signal.SIGKILL)
        said = run.end(240)
    found = Checkpoint.read(state)
    assert found.round == 3, said
    assert all(played.took is not None and played.took <= deadline + 5.0 for played in found.history), said
    return found, hung, killed, said


@pytest.mark.thorough  # siblings without a deployment: tests/flower/test_late_replies.py, tests/sim/test_closing.py
def test_8_a_node_that_hangs_and_one_that_is_killed_cost_a_deadline_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five SuperNodes that take three seconds.  All five are asked and three are waited for; then three are asked."""
    monkeypatch.setenv("PYTHONPATH", str(Path(pausefl.__file__).parents[1]))
    deadline = patience(25)
    with load_script().Deployment(tmp_path / "d", 5, budget=4.0, releases=20, delays=(3.0,) * 5) as made:
        found, hung, killed, said = lose_two(made, "over", deadline, **{"over-select": 1.6})
        for played in found.history:
            assert len(played.seconds) >= 3 and played.took < deadline, said
        assert not {f"client-{hung}", f"client-{killed}"} & {*found.history[2].seconds}
        hang(made, hung, signal.SIGCONT)
        made.kill(f"supernode-{hung}", signal.SIGKILL)
        for node in (hung, killed):
            made.start_node(node)
        found, hung, killed, said = lose_two(made, "cut", deadline)
        # At the deadline, or sooner if the SuperLink says that they cannot be reached.
        assert found.history[1].refused == {f"client-{node}": "no answer" for node in (hung, killed)}, said
        assert len(found.history[1].seconds) == 1 and len(found.history[2].seconds) == 3, said
        hang(made, hung, signal.SIGCONT)
