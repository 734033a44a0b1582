"""A file for simulations is used in Flower's simulation engine and in our own grid, and nowhere else."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

from pausefl.flower import PrivateUpdate
from pausefl.flower.protocol import Refusal
from pausefl.flower.simulation import in_simulation, simulated
from pausefl.flower.testing import MemoryGrid


@pytest.fixture
def client(client: Any, tools: Any) -> Any:
    client.write(tools.SIMULATED)
    return client


def made(tools: Any) -> ClientApp:
    app = ClientApp(mods=[PrivateUpdate()])
    app.train()(tools.trained)
    return app


def test_flowers_own_actor_is_a_simulation(client, tools):
    actors = pytest.importorskip("flwr.simulation.ray_transport.ray_actor", reason="needs flwr[simulation]")

    class Actor(actors.VirtualClientEngineActor):
        """What a Ray worker has, without Ray."""

    message = tools.request()
    _, reply, _ = Actor().run(lambda: made(tools), message, "0", client.context())
    assert reply.has_content()
    assert made(tools)(tools.request(round=2), client.context()).has_error()  # the module is loaded, but no caller


def test_our_own_grid_is_a_simulation(client, tools):
    grid = MemoryGrid({5: client.answer})
    [reply] = grid.send_and_receive([tools.request()])
    assert reply.has_content()


@pytest.mark.parametrize("name", ["PAUSEFL_SIMULATION", "RAY_JOB_ID", "FLWR_SIMULATION"])
def test_no_variable_of_the_environment_makes_one(client, tools, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    reply = made(tools)(tools.request(), client.context())
    assert Refusal.of(reply.error) == Refusal("unready")


def test_what_one_thread_simulates_another_does_not():
    seen = []
    with simulated():
        assert in_simulation()
        thread = threading.Thread(target=lambda: seen.append(in_simulation()))
        thread.start()
        thread.join()
    assert seen == [False]
    assert not in_simulation()


def test_it_ends_with_an_error_too():
    def node(message: Message) -> Message:
        raise RuntimeError

    grid = MemoryGrid({5: node})
    [number] = grid.push_messages([Message(RecordDict(), 5, "train")])
    with pytest.raises(RuntimeError):
        grid.pull_messages([number])
    assert not in_simulation()
