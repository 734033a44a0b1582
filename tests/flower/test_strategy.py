"""The wrapper with real mods, ledgers and inner strategies, on a grid in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    Result,
    Strategy,
)

import pausefl
from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError, StateFileError
from pausefl.flower import Checkpoint, PauseStrategy
from pausefl.flower.inner import inner_state, restore_inner
from pausefl.flower.loop import Progress
from pausefl.flower.memory import MemoryGrid
from pausefl.privacy import FixedHorizon
from pausefl.sim.latency import FlooredNormal


def selector(count: int = 5, per_round: int = 2, **more):
    more.setdefault("schedule", FixedHorizon(8.0, 4))
    return pausefl.Selector({f"client-{n}": 10.0 * (n + 1) for n in range(count)}, per_round, **more)


def inner(**more) -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, **more)


def wrapped(inside=None, chooser=None, **more) -> PauseStrategy:
    return PauseStrategy(inside or inner(), chooser or selector(), **{"poll": 0.001, "wait": 0.2, **more})


def as_float32(reply: Message) -> Message:
    """As torch apps reply, whatever they were sent."""
    arrays = reply.content.array_records["arrays"]
    for name in arrays:
        arrays[name] = Array(arrays[name].numpy().astype(np.float32))
    return reply


def grid_of(clients) -> MemoryGrid:
    return MemoryGrid({100 + client.number: client.answer for client in clients})


@pytest.fixture
def start(tools) -> ArrayRecord:
    return tools.record(tools.model())


def trained_by(grid: MemoryGrid) -> list[list[int]]:
    """Who was asked to train in each round, as the grid saw it."""
    rounds: dict[int, list[int]] = {}
    for message in grid.sent:
        record = message.content.config_records["pausefl"]
        if not record["hello"]:
            rounds.setdefault(record["round"], []).append(message.metadata.dst_node_id - 100)
    return [sorted(rounds[number]) for number in sorted(rounds)]


def test_the_selector_decides_and_the_ledgers_hold_what_the_server_got(clients, start):
    grid, strategy = grid_of(clients), wrapped()
    result = strategy.start(grid, start, num_rounds=5)
    asked = [sorted(int(str(m)[-1]) for m in played.members) for played in strategy.history]
    assert trained_by(grid) == asked
    assert set().union(*asked[:3]) == set(range(5))  # unknown clients come first
    for client in clients:
        picks = sum(client.number in members for members in asked)
        assert client.charges == picks
        row = strategy._selector.cohort.releases[client.number]
        assert row == picks
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4, 5]
    assert {"pausefl-generalization", "pausefl-privacy", "pausefl-answered"} <= set(result.train_metrics_clientapp[5])
    assert not np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())


def test_the_choice_is_the_selectors_own(clients, start):
    """The same selector alone, told the same latencies, picks the same members."""
    latency = FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05)
    strategy, alone = wrapped(latency=latency), selector()
    strategy.start(grid_of(clients), start, num_rounds=6)
    for played in strategy.history:
        chosen = alone.select()
        assert chosen.members == played.members
        alone.observe({client: played.seconds[str(client)] for client in chosen.members})


@pytest.mark.parametrize(
    "inside",
    [
        inner(), FedProx(fraction_evaluate=0.0, proximal_mu=0.1), FedAdam(fraction_evaluate=0.0),
        FedAvgM(fraction_evaluate=0.0, server_momentum=0.9),
        DifferentialPrivacyServerSideFixedClipping(inner(), 0.1, 1.0, 2),
    ],
    ids=lambda inside: type(inside).__name__,
)  # fmt: skip
def test_other_strategies_work_unmodified(clients, start, inside, tools):
    for client in clients:
        client.app = lambda message, context: as_float32(tools.trained(message, context))
    strategy = wrapped(inside)
    result = strategy.start(grid_of(clients), start, num_rounds=3)
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    assert [dict(played.refused) for played in strategy.history] == [{}, {}, {}]
    assert {array.numpy().dtype for array in result.arrays.values()} == {np.dtype(np.float32)}
    assert not np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (inner(min_train_nodes=3), "min_train_nodes of the inner strategy is 3"),
        (inner(min_available_nodes=5), "min_available_nodes of the inner strategy is 5"),
        (inner(fraction_train=0.5), "fraction_train of the inner strategy is 0.5"),
        (DifferentialPrivacyServerSideFixedClipping(inner(min_train_nodes=3), 0.1, 1.0, 2), "min_train_nodes"),
        ("FedAvg", "must be a Flower strategy"),
    ],
)
def test_an_inner_strategy_that_would_wait_for_ever_is_refused_up_front(inside, said):
    with pytest.raises(InvalidValueError, match=said):
        wrapped(inside)


@pytest.mark.parametrize(
    "more", [{"fewer": "none"}, {"wait": -1}, {"latency": "guess"}, {"latency": FlooredNormal(np.ones(3), 0.1, 0.1)},
             {"epsilon": 0.0}, {"clip": float("nan")}, {"names": "face"}],
)  # fmt: skip
def test_bad_options_are_refused(more, start):
    with pytest.raises(InvalidValueError):
        wrapped(**more).start(MemoryGrid({}), start)


def test_a_selector_is_needed():
    with pytest.raises(InvalidValueError, match="selector is a str"):
        PauseStrategy(inner(), "selector")


def test_too_few_nodes_are_an_error_or_a_smaller_round(clients, start):
    with pytest.raises(NotEnoughClientsError, match="candidates are 1"):
        wrapped().start(grid_of(clients[:1]), start)
    small = wrapped(inner(min_train_nodes=1, min_available_nodes=1), fewer="smaller")
    small.start(grid_of(clients[:1]), start, num_rounds=2)
    assert [played.members for played in small.history] == [("client-0",)] * 2
    with pytest.raises(NotEnoughClientsError, match="round 1 needs 2"):  # FedAvg's own minimum
        wrapped(fewer="smaller").start(grid_of(clients[:1]), start)
    with pytest.raises(NotEnoughClientsError, match="candidates are 0"):
        wrapped().start(MemoryGrid({}), start)


def hello_only(grid, node, otherwise):
    """Let a node answer who it is, and training in another way."""
    honest = grid.nodes[node]

    def answer(message: Message):
        hello = message.content.config_records["pausefl"]["hello"]
        return honest(message) if hello else otherwise(message)

    grid.nodes[node] = answer


def broken(message: Message) -> Message:
    return Message(Error(code=9, reason="no mod here"), reply_to=message)


def test_a_silent_a_failing_and_a_lying_node_count_as_no_answer(clients, start, tools):
    grid = grid_of(clients)

    strange = RecordDict({"arrays": tools.record({"w": np.zeros(1)}), "metrics": MetricRecord({"num-examples": 1})})
    hello_only(grid, 100, lambda message: None)
    hello_only(grid, 101, lambda message: Message(strange, reply_to=message))
    hello_only(grid, 102, broken)
    strategy = wrapped(chooser=selector(per_round=5))
    strategy.start(grid, start, num_rounds=1, timeout=0.2)
    [played] = strategy.history
    assert dict(played.refused) == {"client-0": "no answer", "client-1": "unsound", "client-2": "failed"}
    assert set(played.seconds) == {"client-3", "client-4"}
    cohort = strategy._selector.cohort
    assert cohort.rate[:3].tolist() == [0.0, 0.0, 0.0]
    assert cohort.picks.tolist() == [1] * 5


@pytest.mark.parametrize("fault", ["nan", "no weight", "zero weight", "no array", "two records"])
def test_one_bad_reply_does_not_spoil_the_round(clients, start, tools, fault):
    """From a node that runs other code than it should."""
    good = {name: array + 1 for name, array in tools.model().items()}
    metrics = {"no weight": {"loss": 1.0}, "zero weight": {"num-examples": 0}}.get(fault, {"num-examples": 1})
    if fault == "nan":
        good["b"][0] = np.nan
    arrays = tools.record(good)
    if fault == "no array":
        arrays["b"] = Array("float32", (3,), "numpy.ndarray", b"rubbish")

    def answer(message: Message) -> Message:
        content = RecordDict({"arrays": arrays, "metrics": MetricRecord(metrics)})
        if fault == "two records":
            content["more"] = arrays
        return Message(content, reply_to=message)

    grid = MemoryGrid({0: answer, 1: lambda m: tools.trained(m, None), 2: lambda m: tools.trained(m, None)})
    strategy = wrapped(chooser=pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    result = strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "unsound"}
    assert np.allclose(result.arrays["w"].numpy(), tools.model()["w"] + 1)


def test_owners_may_allow_different_metrics(clients, start, tools):
    """Flower averages only equal sets of metrics; what not all of them have is left out."""
    clients[0].write(tools.OWNER.replace('["num-examples"]', '["num-examples", "loss"]'))
    clients[1].write(tools.OWNER.replace('["num-examples"]', "[]"))
    result = wrapped(chooser=selector(per_round=5)).start(grid_of(clients), start, num_rounds=1)
    assert "loss" not in result.train_metrics_clientapp[1]
    assert result.train_metrics_clientapp[1]["pausefl-answered"] == 5


def test_one_that_fell_silent_must_say_hello_before_it_is_asked_again(clients, start):
    grid = grid_of(clients[:3])
    honest, gone = grid.nodes[100], []

    def unreachable(message: Message) -> Message:
        if message.content.config_records["pausefl"]["hello"] and not gone:
            return honest(message)
        gone.append(message)
        reply = Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1  # the SuperLink speaks for it
        return reply

    grid.nodes[100] = unreachable
    everyone = pausefl.Selector({f"client-{n}": 1.0 for n in range(3)}, 3)
    strategy = wrapped(inner(), everyone, fewer="smaller")
    strategy.start(grid, start, num_rounds=2)
    assert strategy.history[0].refused == {"client-0": "no answer"}
    assert strategy.history[1].members == ("client-1", "client-2")
    assert [message.content.config_records["pausefl"]["hello"] for message in gone][:2] == [False, True]
    grid.nodes[200] = honest  # restarted, under a new id
    strategy.start(grid, start, num_rounds=1)
    assert set(strategy.history[-1].seconds) == {"client-0", "client-1", "client-2"}


def test_a_round_in_which_nobody_answers_keeps_the_model(clients, start):
    grid = grid_of(clients)
    for node in list(grid.nodes):
        hello_only(grid, node, broken)
    result = wrapped().start(grid, start, num_rounds=1)
    assert np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())


def test_a_refusal_that_costs_the_client_nothing_is_not_counted(clients, start):
    """An owner's file that is broken for a while must not end a client's part in the run."""
    grid = grid_of(clients)
    strategy = wrapped(chooser=selector(per_round=5, schedule=FixedHorizon(8.0, 4)))
    good, client = (clients[0].folder / "owner.toml").read_text(), clients[0]

    def broken_file(message: Message) -> Message:
        client.write("nonsense")
        reply = client.answer(message)
        client.write(good)
        return reply

    hello_only(grid, 100, broken_file)
    strategy.start(grid, start, num_rounds=3)
    assert [dict(played.refused) for played in strategy.history] == [{"client-0": "unready"}] * 3
    assert strategy._selector.cohort.releases.tolist() == [0, 3, 3, 3, 3]


@pytest.mark.parametrize("make", [FedAdam, lambda **more: FedAvgM(server_momentum=0.9, **more)])
def test_moments_of_scalars_survive_in_the_file(clients, tmp_path, make, tools):
    """Flower's arithmetic turns arrays without dimensions into plain numbers, which a checkpoint must keep too."""
    model = tools.record({**tools.model(), "scale": np.ones((), dtype=np.float32)})
    used, again = (make(fraction_evaluate=0.0) for _ in range(2))
    wrapped(used, selector(per_round=5), checkpoint=tmp_path / "run.state").start(grid_of(clients), model, num_rounds=2)
    before = inner_state(used)
    assert any(array.shape == () for array in before.values())
    restore_inner(again, Checkpoint.read(tmp_path / "run.state").inner)
    after = inner_state(again)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) and before[key].shape == after[key].shape for key in before)


def test_those_without_budget_leave_the_pool_and_the_run_ends_when_nobody_is_left(clients, start):
    """The server believes in endless budgets; the clients have four releases each."""
    generous = selector(schedule=pausefl.Geometric(40.0, 0.04))
    strategy = wrapped(inner(min_train_nodes=1, min_available_nodes=1), generous, fewer="smaller")
    result = strategy.start(grid_of(clients), start, num_rounds=50)
    assert strategy.exhausted == {client.name for client in clients}
    assert [client.charges for client in clients] == [4] * 5
    asked = [member for played in strategy.history for member in played.members]
    assert all(asked.count(client.name) == 5 for client in clients)  # four releases and one refusal
    assert len(result.train_metrics_clientapp) == len(strategy.history) < 50


def test_a_client_at_the_end_of_the_servers_schedule_is_no_candidate(clients, start):
    """The inner strategy wants two: one solvent node is too few, and nobody waits for a second."""
    for client in clients[1:]:
        for number in range(4):
            client.ask(run="earlier", round=number + 1)
    with pytest.raises(NotEnoughClientsError, match=r"candidates are 1 \(5 there, 4 without budget\)"):
        wrapped(fewer="smaller").start(grid_of(clients), start)


def test_a_second_start_is_no_repetition_of_the_first(clients, start):
    strategy = wrapped(chooser=selector(per_round=5), inside=inner())
    for _ in range(2):
        strategy.start(grid_of(clients), start, num_rounds=1)
    assert [client.charges for client in clients] == [2] * 5
    assert [played.round for played in strategy.history] == [1, 1]


def test_the_clients_count_corrects_the_servers(clients, start, tools):
    for number in range(3):
        clients[0].ask(run="earlier", round=number + 1)
    strategy = wrapped()
    strategy.start(grid_of(clients), start, num_rounds=1)
    picked = int("client-0" in strategy.history[0].members)
    assert strategy._selector.cohort.releases[0] == 3 + picked
    assert strategy._selector.spent()[0] == pytest.approx(2.0 * (3 + picked))


def test_reported_seconds_are_a_hint_within_the_round_trip(clients, start, tools):
    for client in clients:
        client.write(tools.OWNER.replace('["num-examples"]', '["seconds"]'))
    strategy = wrapped(latency="reported", chooser=selector(per_round=5))
    strategy.start(grid_of(clients), start, num_rounds=1)
    measured = wrapped(chooser=selector(per_round=5))
    for client in clients:
        client.write(tools.OWNER)
    measured.start(grid_of(clients), start, num_rounds=1)
    assert max(strategy.history[0].seconds.values()) < min(1.0, max(measured.history[0].seconds.values()))


def test_a_stricter_wish_reaches_the_client(clients, start):
    wrapped(clip=0.25).start(grid_of(clients), start, num_rounds=1)
    used = {charge.mechanism for client in clients if client.charges for charge in client.ledger.charges(client.name)}
    assert len(used) == 1
    assert "l2=0.25" in used.pop()


def test_requests_expire_with_their_round(clients, start):
    grid = grid_of(clients)
    wrapped().start(grid, start, num_rounds=1, timeout=600)
    assert {m.metadata.ttl for m in grid.sent if not m.content.config_records["pausefl"]["hello"]} == {600}


class CrashError(Exception):
    pass


def crashing(grid: MemoryGrid, number: int) -> MemoryGrid:
    """The server dies in round ``number``, after its clients have been asked and have answered."""
    real = grid.pull_messages

    def pull(message_ids):
        replies = list(real(message_ids))
        asked = grid.sent[-1].content.config_records["pausefl"]
        if asked["round"] == number:
            raise CrashError
        return replies

    grid.pull_messages = pull
    return grid


@pytest.mark.parametrize("make", [inner, lambda: FedAvgM(fraction_evaluate=0.0, server_momentum=0.9)])
def test_a_server_that_died_in_mid_round_goes_on_without_a_second_charge(clients, start, tmp_path, make):
    latency = FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05)
    path = tmp_path / "run.state"
    with pytest.raises(CrashError):
        wrapped(make(), latency=latency, checkpoint=path).start(crashing(grid_of(clients), 3), start, num_rounds=4)
    assert Checkpoint.read(path).round == 2
    before = [client.charges for client in clients]
    assert sum(before) == 6  # the third round was charged, and its replies were lost
    strategy = wrapped(make(), latency=latency, checkpoint=path)
    seen = [len(client.seen) for client in clients]
    result = strategy.start(grid_of(clients), start, num_rounds=3)
    assert [client.charges for client in clients] == before  # the same bytes again, for nothing
    assert [len(client.seen) for client in clients] == seen
    assert [played.round for played in strategy.history] == [1, 2, 3]
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    again = wrapped(make(), latency=latency, checkpoint=path).start(grid_of(clients), start, num_rounds=3)
    assert np.array_equal(again.arrays["w"].numpy(), result.arrays["w"].numpy())  # complete: nothing is played
    assert [client.charges for client in clients] == before


def test_a_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path, start, tools):
    """To the bit, where no noise is drawn; FedAdam's moments are in the checkpoint."""
    context = Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})
    grid = MemoryGrid({node: lambda message: tools.trained(message, context) for node in range(5)})

    def play(name: str, rounds: int):
        strategy = wrapped(
            FedAdam(fraction_evaluate=0.0),
            pausefl.Selector([1.0, 2.0, 3.0, 4.0, 5.0], 2),
            latency=FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05),
            checkpoint=tmp_path / name,
            names="node",
        )
        return strategy.start(grid, start, num_rounds=rounds).arrays, strategy.history

    whole, story = play("whole", 6)
    play("parts", 2)
    parts, same_story = play("parts", 6)
    assert story == same_story
    assert all(np.array_equal(whole[name].numpy(), parts[name].numpy()) for name in whole)


def test_a_checkpoint_of_another_model_or_a_damaged_one_is_refused(clients, start, tmp_path, tools):
    path = tmp_path / "run.state"
    wrapped(checkpoint=path).start(grid_of(clients), start, num_rounds=1)
    with pytest.raises(StateFileError, match="another model"):
        wrapped(checkpoint=path).start(grid_of(clients), tools.record({"w": np.zeros(2)}), num_rounds=2)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StateFileError, match="damaged"):
        wrapped(checkpoint=path).start(grid_of(clients), start, num_rounds=2)


def test_moments_survive_a_checkpoint_in_their_own_form():
    one, other = FedAvgM(), FedAvgM()
    one.momentum_vector = [np.arange(3.0), np.zeros(())]
    adam = FedAdam()
    adam.m_t = {"a|b": np.ones(2), "c": np.zeros(1)}
    restore_inner(other, inner_state(one))
    assert [array.tolist() for array in other.momentum_vector] == [[0.0, 1.0, 2.0], 0.0]
    back = FedAdam()
    restore_inner(back, inner_state(adam))
    assert {name: array.tolist() for name, array in back.m_t.items()} == {"a|b": [1.0, 1.0], "c": [0.0]}


def test_evaluation_is_left_out_rather_than_waited_for(clients, start):
    inside = FedAvg(min_evaluate_nodes=9, min_available_nodes=2)
    result = wrapped(inside).start(grid_of(clients), start, num_rounds=1)
    assert result.evaluate_metrics_clientapp == {}


def test_evaluation_goes_to_those_that_are_there(clients, start, tools):
    for client in clients:
        client.write(tools.OWNER + 'messages = ["evaluate"]\n')
    grid = grid_of(clients)
    seen: list[int] = []
    result = wrapped(FedAvg()).start(
        grid, start, num_rounds=1, evaluate_fn=lambda number, arrays: seen.append(number) or MetricRecord({"x": 1.0})
    )
    assert 1 in result.evaluate_metrics_clientapp
    assert seen == [0, 1]
    assert sum(message.metadata.message_type == "evaluate" for message in grid.sent) == 5


def test_an_inner_strategy_that_asks_others_is_stopped(clients, start):
    class Wilful(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return [Message(RecordDict({"arrays": arrays}), 104, "train")]

    with pytest.raises(OutOfOrderError, match="asks 1 nodes, but 2 were chosen"):
        wrapped(Wilful(fraction_evaluate=0.0)).start(grid_of(clients), start)


def test_it_keeps_the_time_itself(clients, start):
    outer = DifferentialPrivacyServerSideFixedClipping(wrapped(), 0.1, 1.0, 2)
    with pytest.raises(OutOfOrderError, match="put other strategies inside"):
        outer.start(grid_of(clients), start)
    with pytest.raises(OutOfOrderError, match="no open round"):
        wrapped().aggregate_train(1, [])
    assert isinstance(outer, Strategy)


def test_policies_with_weights_of_their_own_and_those_that_compare_updates(clients, start):
    for policy in ("clustered", "clustered-similarity"):
        strategy = wrapped(inner(min_train_nodes=1, min_available_nodes=1), selector(policy=policy), fewer="smaller")
        result = strategy.start(grid_of(clients), start, num_rounds=1)
        assert 1 in result.train_metrics_clientapp
        for client in clients:
            (client.folder / "ledger.db").unlink(missing_ok=True)
            for kept in (client.folder / "ledger.db-replies").glob("*"):
                kept.unlink()


def test_the_summary_says_who_was_picked_and_why(clients, start, caplog):
    strategy = wrapped()
    strategy.start(grid_of(clients), start, num_rounds=1)
    strategy.summary()
    members = ", ".join(str(member) for member in strategy.history[0].members)
    assert f"round 1: picked {members} (speed unbounded, generalization" in caplog.text
    assert "budget gone: nobody's" in caplog.text


@pytest.mark.parametrize("fault", ["text", "complex", "list"])
@pytest.mark.parametrize("noisy", [False, True])
def test_one_client_cannot_crash_the_server(start, tools, fault, noisy):
    arrays = {name: array + 1 for name, array in tools.model().items()}
    if fault in ("text", "complex"):
        arrays["b"] = arrays["b"].astype("<U5" if fault == "text" else np.complex128)
    metrics = MetricRecord({"num-examples": 1, "loss": [1.0, 2.0] if fault == "list" else 1.0})

    def strange(message: Message) -> Message:
        return Message(RecordDict({"a": tools.record(arrays), "m": metrics}), reply_to=message)

    grid = MemoryGrid({0: strange, 1: lambda m: tools.trained(m, None), 2: lambda m: tools.trained(m, None)})
    inside = DifferentialPrivacyServerSideFixedClipping(inner(), 0.1, 1.0, 2) if noisy else inner()
    strategy = wrapped(inside, pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == ({} if fault == "list" else {"0": "unsound"})


def test_a_wrapped_strategys_weight_is_asked_for(start, tools):
    bare = RecordDict({"arrays": tools.record(tools.model()), "metrics": MetricRecord({"loss": 1.0})})
    grid = MemoryGrid({n: lambda m: tools.trained(m, None) for n in (1, 2)} | {0: lambda m: Message(bare, reply_to=m)})
    inside = DifferentialPrivacyServerSideFixedClipping(inner(), 0.1, 1.0, 2)
    strategy = wrapped(inside, pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "unsound"}


def test_evaluations_with_unlike_metrics_are_averaged_and_expire(clients, start, tools):
    for client in clients:
        allow = '["num-examples", "loss"]' if client.number else "[]"
        client.write(tools.OWNER.replace('["num-examples"]', allow) + 'messages = ["evaluate"]\n')
    grid = grid_of(clients)
    result = wrapped(FedAvg()).start(grid, start, num_rounds=1, timeout=600)
    assert 1 in result.evaluate_metrics_clientapp
    assert {m.metadata.ttl for m in grid.sent if m.metadata.message_type == "evaluate"} == {600}


def test_metrics_survive_a_checkpoint(start):
    odd = {"a": np.float64(0.75), "b": float("nan"), "c": float("inf"), "d": [1.5, float("nan")], "e": 3}
    progress = Progress(1, start, Result(arrays=start, train_metrics_clientapp={1: MetricRecord(odd)}))
    text = json.dumps(progress.metrics(), allow_nan=False)
    back = Progress.of(1, start, json.loads(text)).result.train_metrics_clientapp[1]
    assert repr(dict(back)) == repr({**odd, "a": 0.75})
