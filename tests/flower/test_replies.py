"""Replies that cannot be used, from clients that fail, lie or run other code than they should."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

import pausefl
from pausefl.flower.protocol import Note, Refusal
from pausefl.flower.server.replies import judge
from pausefl.flower.server.timed_grid import Exchange
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon


def test_a_silent_a_failing_and_a_lying_node_count_as_no_answer(clients, start, tools):
    grid = tools.grid_of(clients)

    strange = RecordDict({"arrays": tools.record({"w": np.zeros(1)}), "metrics": MetricRecord({"num-examples": 1})})
    tools.hello_only(grid, 100, lambda message: None)
    tools.hello_only(grid, 101, lambda message: Message(strange, reply_to=message))
    tools.hello_only(grid, 102, tools.broken)
    strategy = tools.wrapped(chooser=tools.selector(per_round=5))
    strategy.start(grid, start, num_rounds=1, timeout=0.2)
    [played] = strategy.history
    assert dict(played.refused) == {"client-0": "no answer", "client-1": "unsound", "client-2": "failed"}
    assert set(played.seconds) == {"client-3", "client-4"}
    cohort = strategy._selector.cohort
    assert cohort.rate[:3].tolist() == [0.0, 0.0, 0.0]
    assert cohort.picks.tolist() == [1] * 5


@pytest.mark.parametrize("fault", ["nan", "no weight", "zero weight", "no array", "two records"])
def test_one_bad_reply_does_not_spoil_the_round(clients, start, tools, fault, caplog):
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
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    result = strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "unsound"}
    assert "could be used" not in caplog.text  # the others' could
    assert np.allclose(result.arrays["w"].numpy(), tools.model()["w"] + 1)


def test_owners_may_allow_different_metrics(clients, start, tools):
    """Flower averages only equal sets of metrics; what not all of them have is left out."""
    clients[0].write(tools.SIMULATED.replace('["num-examples"]', '["num-examples", "loss"]'))
    clients[1].write(tools.SIMULATED.replace('["num-examples"]', "[]"))
    result = tools.wrapped(chooser=tools.selector(per_round=5)).start(tools.grid_of(clients), start, num_rounds=1)
    assert "loss" not in result.train_metrics_clientapp[1]
    assert result.train_metrics_clientapp[1]["pausefl-answered"] == 5


def test_one_that_fell_silent_must_say_hello_before_it_is_asked_again(clients, start, tools):
    grid = tools.grid_of(clients[:3])
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
    strategy = tools.wrapped(tools.inner(), everyone, fewer="smaller")
    strategy.start(grid, start, num_rounds=2)
    assert strategy.history[0].refused == {"client-0": "no answer"}
    assert strategy.history[1].members == ("client-1", "client-2")
    assert [message.content.config_records["pausefl"]["hello"] for message in gone][:2] == [False, True]
    grid.nodes[200] = honest  # restarted, under a new id
    strategy.start(grid, start, num_rounds=1)
    assert set(strategy.history[-1].seconds) == {"client-0", "client-1", "client-2"}


def test_a_round_in_which_nobody_answers_keeps_the_model(clients, start, tools):
    grid = tools.grid_of(clients)
    for node in list(grid.nodes):
        tools.hello_only(grid, node, tools.broken)
    result = tools.wrapped().start(grid, start, num_rounds=1)
    assert np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())


def test_a_refusal_that_costs_the_client_nothing_is_not_counted(clients, start, tools):
    """An owner's file that is broken for a while must not end a client's part in the run."""
    grid = tools.grid_of(clients)
    strategy = tools.wrapped(chooser=tools.selector(per_round=5, schedule=FixedHorizon(8.0, 4)))
    good, client = (clients[0].folder / "owner.toml").read_text(), clients[0]

    def broken_file(message: Message) -> Message:
        client.write("nonsense")
        reply = client.answer(message)
        client.write(good)
        return reply

    tools.hello_only(grid, 100, broken_file)
    strategy.start(grid, start, num_rounds=3)
    assert [dict(played.refused) for played in strategy.history] == [{"client-0": "unready"}] * 3
    assert strategy._selector.cohort.releases.tolist() == [0, 3, 3, 3, 3]


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
    inside = DifferentialPrivacyServerSideFixedClipping(tools.inner(), 0.1, 1.0, 2) if noisy else tools.inner()
    strategy = tools.wrapped(inside, pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == ({} if fault == "list" else {"0": "unsound"})


def test_a_wrapped_strategys_weight_is_asked_for(start, tools):
    bare = RecordDict({"arrays": tools.record(tools.model()), "metrics": MetricRecord({"loss": 1.0})})
    grid = MemoryGrid({n: lambda m: tools.trained(m, None) for n in (1, 2)} | {0: lambda m: Message(bare, reply_to=m)})
    inside = DifferentialPrivacyServerSideFixedClipping(tools.inner(), 0.1, 1.0, 2)
    strategy = tools.wrapped(inside, pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "unsound"}


def test_a_reply_under_another_name_is_not_taken_for_the_clients(clients, start, tools):
    """One node that answers in a neighbour's name, with a count that would put it out of the run."""

    def as_another(message: Message) -> Message:
        reply = clients[0].answer(message)
        reply.content["pausefl"] = Note("client-1", 10**6).record()
        return reply

    grid = tools.grid_of(clients)
    tools.hello_only(grid, 100, as_another)
    strategy = tools.wrapped(chooser=tools.selector(per_round=5), fewer="smaller")
    strategy.start(grid, start, num_rounds=2)
    assert [dict(played.refused) for played in strategy.history] == [{"client-0": "unsound"}] * 2
    assert strategy._selector.cohort.releases.max() == 2
    hellos = [m.metadata.dst_node_id for m in grid.sent if m.content.config_records["pausefl"]["hello"]]
    assert sorted(hellos) == [100, 100, 101, 102, 103, 104]  # asked again who it is


def test_where_the_superlink_vouches_the_name_in_a_note_does_not_matter(start, tools):
    def answer(message: Message) -> Message:
        reply = tools.trained(message, None)
        reply.content["pausefl"] = Note("clinic", 3).record()
        return reply

    strategy = tools.wrapped(chooser=pausefl.Selector([1.0, 1.0], 2), names="node")
    strategy.start(MemoryGrid({0: answer, 1: answer}), start, num_rounds=1)
    assert strategy.history[0].refused == {}
    assert strategy._selector.cohort.releases.tolist() == [3, 3]


def test_a_round_without_a_single_sound_reply_is_worth_a_warning_that_says_why(start, tools, caplog):
    """An app that was set up wrongly is seen at once."""
    wide = {**tools.model(), "b": np.zeros(4, dtype=np.float32)}

    def with_arrays(arrays, **metrics):
        content = {"arrays": tools.record(arrays), "metrics": MetricRecord({"num-examples": 1, **metrics})}
        return lambda message: Message(RecordDict(dict(content)), reply_to=message)

    grid = MemoryGrid(
        {
            0: with_arrays(wide),
            1: with_arrays({"w": np.zeros(1)}),
            2: with_arrays(tools.model(), **{"num-examples": 0}),
            3: with_arrays({**tools.model(), "b": np.full(3, np.nan, dtype=np.float32)}),
            4: lambda message: Message(Error(code=9, reason="no such\nmodule"), reply_to=message),
            5: lambda message: Message(Refusal("unready").error(), reply_to=message),
            6: lambda message: None,
        }
    )
    for count, per_round in ((5, 5), (7, 7)):
        caplog.clear()
        strategy = tools.wrapped(chooser=pausefl.Selector([1.0] * count, per_round), names="node")
        strategy.start(grid, start, num_rounds=1, timeout=0.1)
        [line] = [record.getMessage() for record in caplog.records if "no reply could be used" in record.getMessage()]
        assert "\n" not in line
        assert "0 unsound (tensor 'b' is float32 (4,), not float32 (3,))" in line
        assert "1 unsound (1 tensors that are not the model's 2)" in line
        assert "2 unsound ('num-examples' is 0, not above 0 and at most 2^53)" in line
        assert "3 unsound (tensor 'b' holds NaN or infinity, as float32)" in line
        assert r"4 failed (Flower's error 9: 'no such\nmodule')" in line
        assert line.endswith(", and 2 more") == (count == 7)


def test_a_warning_names_those_that_refused_and_those_that_were_silent(start, tools, caplog):
    silent = {0: lambda message: Message(Refusal("unready").error(), reply_to=message), 1: lambda message: None}
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0, 1.0], 2), names="node")
    strategy.start(MemoryGrid(silent), start, num_rounds=1, timeout=0.1)
    assert "round 1: no reply could be used: 0 unready, 1 no answer" in caplog.text


@pytest.mark.parametrize("kind", [np.float64, np.longdouble])
def test_a_number_that_the_model_cannot_hold_is_unsound(clients, start, tools, kind):
    """Finite as it was sent, infinite as the model's float32: one reply would end training for good."""
    huge = {name: array.astype(kind) for name, array in tools.model().items()}
    huge["b"][0] = 1e300

    def answer(message: Message) -> Message:
        numbers = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": tools.record(huge), "metrics": numbers}), reply_to=message)

    grid = MemoryGrid({0: answer, 1: lambda m: tools.trained(m, None), 2: lambda m: tools.trained(m, None)})
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    result = strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "unsound"}
    assert np.allclose(result.arrays["w"].numpy(), tools.model()["w"] + 1)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_reply_in_another_order_or_precision_does_not_change_the_models(clients, start, tools, kind):
    """Flower's strategies take order and arithmetic from the first reply."""

    def turned(message: Message) -> Message:
        reply = tools.trained(message, None)
        arrays = {name: array.numpy().astype(kind) for name, array in reply.content.array_records["arrays"].items()}
        reply.content["arrays"] = tools.record(dict(reversed(arrays.items())))
        return reply

    grid = MemoryGrid({0: turned, 1: lambda m: tools.trained(m, None)})
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0, 1.0], 2, policy="clustered-similarity"), names="node")
    result = strategy.start(grid, start, num_rounds=2)
    assert list(result.arrays) == list(start)
    assert [array.dtype for array in result.arrays.values()] == ["float32", "float32"]
    assert np.allclose(result.arrays["w"].numpy(), tools.model()["w"] + 2, atol=1e-2)


def test_weights_that_overflow_are_unsound(clients, start, tools):
    def heavy(message: Message) -> Message:
        reply = tools.trained(message, None)
        reply.content["metrics"] = MetricRecord({"num-examples": 1e308})
        return reply

    grid = MemoryGrid({0: heavy, 1: heavy, 2: lambda m: tools.trained(m, None), 3: lambda m: tools.trained(m, None)})
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0] * 4, 4), names="node")
    result = strategy.start(grid, start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "unsound", "1": "unsound"}
    assert np.allclose(result.arrays["w"].numpy(), tools.model()["w"] + 1)


def test_the_type_of_a_tensor_is_what_its_bytes_say(start, tools):
    """A client that says float32 of float64 would change the arithmetic of the round."""
    reply = tools.trained(Message(RecordDict({"arrays": start}), 0, "train"), None)
    [(key, arrays)] = reply.content.array_records.items()
    for name, array in arrays.items():
        wide = Array(array.numpy().astype(np.float64))
        arrays[name] = Array(array.dtype, wide.shape, wide.stype, wide.data)
    [verdict] = judge(Exchange([reply], {0: reply}, {0: 1.0}), {0: "a"}, start, None)
    assert verdict.fault == ""
    assert {array.numpy().dtype for array in reply.content[key].values()} == {np.dtype("float32")}


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_an_error_is_one_clean_line_in_the_servers_log(start, tools, caplog, kind):
    """Flower's strategies log an error's text as it is, and a client chooses it."""
    text = "\x1b[2K\r\nINFO : pausefl: round 1: all is well\x07" + "x" * 5_000

    def liar(message: Message) -> Message:
        if message.metadata.message_type == kind:
            return Message(Error(code=1, reason=text), reply_to=message)
        return tools.trained(message, None)

    grid = MemoryGrid({0: liar, 1: lambda m: tools.trained(m, None), 2: lambda m: tools.trained(m, None)})
    strategy = tools.wrapped(FedAvg(), pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    strategy.start(grid, start, num_rounds=1)
    said = [one.getMessage() for one in caplog.records if "all is well" in one.getMessage()]
    assert said
    assert all(line.strip("\t").isprintable() and len(line) < 1200 for line in said)


def test_an_error_without_a_text_is_handed_on(start, tools):
    nodes = {n: lambda m: tools.trained(m, None) for n in (1, 2)}
    nodes[0] = lambda m: Message(Error(code=1), reply_to=m)
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0, 1.0, 1.0], 3), names="node")
    strategy.start(MemoryGrid(nodes), start, num_rounds=1)
    assert strategy.history[0].refused == {"0": "failed"}


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_one_clients_metrics_do_not_fill_the_journal(start, tools, tmp_path, caplog, kind):
    """It is the only one that answers, so it alone decides what all who answered have."""
    flood = {f"{n:060d}": 0.5 for n in range(5_000)}
    odd = {"\x1b[2K": 0.5, "x" * 5_000: 0.5}

    def liar(message: Message) -> Message:
        reply = tools.trained(message, None)
        if message.metadata.message_type == kind:
            reply.content["metrics"] = MetricRecord({**odd, "loss": 0.25, **flood, "num-examples": 1})
        return reply

    grid = MemoryGrid({0: liar, 1: tools.broken, 2: tools.broken})
    strategy = tools.wrapped(
        FedAvg(), pausefl.Selector([1.0, 1.0, 1.0], 3), names="node", checkpoint=tmp_path / "run.state"
    )
    result = strategy.start(grid, start, num_rounds=1)
    kept = (result.train_metrics_clientapp if kind == "train" else result.evaluate_metrics_clientapp)[1]
    assert kept["loss"] == 0.25
    assert not set(odd) & set(kept)
    assert (tmp_path / "run.state.rounds").stat().st_size < 30_000
    assert caplog.text.count("of 5004 metrics only 100 are kept") == 1


def test_the_weight_counts_wherever_it_stands_among_many_metrics(start, tools):
    def heavy(weight: int, loss: float):
        def answer(message: Message) -> Message:
            reply = tools.trained(message, None)
            many = {f"m{n}": 0.5 for n in range(500)}
            reply.content["metrics"] = MetricRecord({"loss": loss, **many, "num-examples": weight})
            return reply

        return answer

    grid = MemoryGrid({0: heavy(1, 0.0), 1: heavy(3, 1.0)})
    strategy = tools.wrapped(FedAvg(), pausefl.Selector([1.0, 1.0], 2), names="node")
    result = strategy.start(grid, start, num_rounds=1)
    assert result.train_metrics_clientapp[1]["loss"] == result.evaluate_metrics_clientapp[1]["loss"] == 0.75
