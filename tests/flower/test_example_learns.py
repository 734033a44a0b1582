"""The example's own apps in one process, with real owners' files and ledgers: they learn digits under their promise.

The same in a deployment with its processes: ``test_5`` in ``tests/e2e/test_flower.py``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict

from pausefl.flower import Checkpoint
from pausefl.flower.testing import MemoryGrid
from pausefl.owner.owner_init import init_owner
from pausefl.privacy import SqliteLedger

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-digits"
RECORDS, BUDGET, RELEASES, DELTA = 479, 4.0, 12, 1e-5


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[object, object]]:
    """The server app and the client app."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from digits_app.client import app as client
    from digits_app.server import app as server

    yield server, client


def test_three_clients_learn_under_a_promise_about_each_record(tmp_path: Path, apps) -> None:
    """Secure noise, and a budget of 4 for life, in the example's own settings, as the deployment has them."""
    server, client = apps
    state, config = tmp_path / "run.state", tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    config = config["tool"]["flwr"]["app"]["config"] | {"checkpoint": str(state)}

    def context(node: int, **settings: object) -> Context:
        return Context(run_id=1, node_id=node, node_config=settings, state=RecordDict(), run_config=dict(config))

    def node(number: int):
        folder = tmp_path / f"client-{number}"
        init_owner(folder, folder.name, records=RECORDS, budget=BUDGET, releases=RELEASES, delta=DELTA)
        owner = {"pausefl-owner": str(folder / "owner.toml")}

        def answer(message: Message) -> Message:
            return client(message, context(100 + number, **{"partition-id": number, "num-partitions": 3, **owner}))

        return answer

    server(MemoryGrid({100 + number: node(number) for number in range(3)}), context(1))
    found = Checkpoint.read(state)
    assert found.round == RELEASES
    for number in range(3):
        ledger, name = SqliteLedger(tmp_path / f"client-{number}" / "ledger.db"), f"client-{number}"
        ledger.verify()
        rows = ledger.charges(name)
        assert [row.release for row in rows] == [f"{found.run}/{number}" for number in range(1, RELEASES + 1)]
        assert {(row.unit, row.noise, row.dimension, row.budget) for row in rows} == {
            ("record", "secure", 1290, BUDGET)
        }
        assert {row.protects for row in rows} == {"one record, any one record replaced"}
        assert ledger.spent(name) <= BUDGET and sum(row.delta for row in rows) == DELTA
    assert not any(played.refused for played in found.history)
    assert found.state.result.evaluate_metrics_serverapp[RELEASES]["accuracy"] >= 0.85
