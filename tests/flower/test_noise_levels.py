"""A server that knows how loud each reply is: weights, steps, the mean of models, and clients that lie about it."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedMedian

import pausefl
from pausefl.flower import Checkpoint
from pausefl.flower.protocol import Note
from pausefl.flower.server.replies import Verdict, believed_levels
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import PrivUnit
from pausefl.privacy.mechanisms.base import NoiseLevel

QUIET = NoiseLevel(1.0, 1e-9)


def telling(tools, *levels: NoiseLevel | None, shift: float = 1.0):
    """Nodes that add their number, times ``shift``, to the model, and claim a level."""

    def node(number: int, level: NoiseLevel | None):
        def answer(message: Message) -> Message:
            arrays = message.content.array_records["arrays"].items()
            content = RecordDict({
                "arrays": tools.record({name: array.numpy() + shift * number for name, array in arrays}),
                "metrics": MetricRecord({"num-examples": 10}),
                "pausefl": Note(str(number), 1, level=level).record(),
            })  # fmt: skip
            return Message(content, reply_to=message)

        return answer

    return MemoryGrid({number: node(number, level) for number, level in enumerate(levels)})


def strategy(tools, count: int, inside=None, **more):
    return tools.wrapped(inside, pausefl.Selector([1.0] * count, count, "all"), names="node", **more)


def moved(result, tools, name: str = "b") -> float:
    """How far every number of the model has moved."""
    way = result.arrays[name].numpy().astype(np.float64) - tools.model()[name]
    assert np.ptp(way) < 1e-5
    return float(way.mean())


def test_the_quieter_weigh_more(start, tools):
    loud = NoiseLevel(3.0, 1e-9)
    result = strategy(tools, 2, aggregation="matched").start(telling(tools, QUIET, loud), start, num_rounds=1)
    assert moved(result, tools) == pytest.approx(0.25, abs=1e-6)  # weights 3 : 1 for 0 and 1
    result = strategy(tools, 2).start(telling(tools, QUIET, loud), start, num_rounds=1)
    assert moved(result, tools) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("inside", [FedAvg, FedAdam, FedAvgM, FedMedian], ids=lambda kind: kind.__name__)
def test_with_equal_noise_it_is_plain_averaging_to_the_bit(start, tools, inside):
    ends = [
        strategy(tools, 3, inside(fraction_evaluate=0.0), aggregation=rule).start(
            telling(tools, *[NoiseLevel(7.0, 0.1)] * 3, shift=0.1), start, num_rounds=3
        )
        for rule in ("plain", "matched")
    ]
    assert all(np.array_equal(ends[0].arrays[name].numpy(), ends[1].arrays[name].numpy()) for name in start)


def test_replies_that_tell_no_noise_are_averaged_plainly(start, tools):
    result = strategy(tools, 3, aggregation="matched").start(telling(tools, None, None, None), start, num_rounds=1)
    assert moved(result, tools) == pytest.approx(1.0, abs=1e-6)


def test_a_liar_gains_a_bounded_weight(start, tools):
    """One of three claims to be a million times quieter: it counts as 16 times quieter, 16 / 18 of the whole."""
    lying = NoiseLevel(QUIET.noise / 1e6, QUIET.signal)
    result = strategy(tools, 3, aggregation="matched").start(telling(tools, QUIET, QUIET, lying), start, num_rounds=1)
    assert moved(result, tools) == pytest.approx((16 * 2 + 1) / 18, abs=1e-6)


def test_a_client_of_two_that_claims_to_be_loud_cannot_stop_the_run(start, tools):
    """It loses its weight, and the model goes all the way to where the other one is."""
    loud = NoiseLevel(1e308, QUIET.signal)
    result = strategy(tools, 2, aggregation="matched").start(telling(tools, QUIET, loud), start, num_rounds=1)
    assert moved(result, tools) == pytest.approx(0.0, abs=1e-6)
    model = strategy(tools, 2, aggregation="matched").start(telling(tools, loud, QUIET), start, num_rounds=1)
    assert moved(model, tools) == pytest.approx(1.0, abs=1e-6)


EXTREME = [NoiseLevel(1e308, 1e308), NoiseLevel(1e300, 1.0), NoiseLevel(1e-3, 1e308), NoiseLevel(5e-324, 5e-324)]


@pytest.mark.parametrize("inside", [FedAvg, FedMedian], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lie", EXTREME, ids=str)
def test_one_note_among_replies_that_tell_no_noise_changes_nothing(start, tools, inside, lie):
    """The round is a plain one: the others do not take the liar's level for theirs."""
    ends = []
    for notes in ([None] * 3, [NoiseLevel(1.0, 1.0), lie, lie]):
        grid, said = telling(tools, *[None] * 5), iter(notes)
        grid.nodes[0] = lambda message, said=said: telling(tools, next(said)).nodes[0](message)
        run = strategy(tools, 5, inside(fraction_evaluate=0.0), aggregation="matched", average=0.9)
        ends.append(run.start(grid, start, num_rounds=3).arrays)
    assert all(np.array_equal(ends[0][name].numpy(), ends[1][name].numpy()) for name in start)


@pytest.mark.parametrize("level", EXTREME, ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_no_level_makes_the_model_nan(start, tools, level, count):
    inside = tools.inner(min_train_nodes=1, min_available_nodes=1)
    run = strategy(tools, count, inside, aggregation="matched", average=0.9)
    result = run.start(telling(tools, *[level] * count), start, num_rounds=2)
    assert all(np.isfinite(result.arrays[name].numpy()).all() for name in start)


def test_claims_are_bounded_by_those_of_the_median_reply():
    told = [NoiseLevel(1.0, 1.0), None, NoiseLevel(1e-9, 1e9), NoiseLevel(2.0, 1.0), NoiseLevel(1e9, 1e-9)]
    taken = believed_levels([Verdict(str(number), level=level) for number, level in enumerate(told)])
    assert taken == [told[0], NoiseLevel(1.0, 1.0), NoiseLevel(1.0 / 16.0, 16.0), told[3], told[4]]
    assert believed_levels([Verdict("a"), Verdict("b")]) == [None, None]
    assert believed_levels([Verdict("a", level=QUIET), Verdict("b")]) == [None, None]  # no more than half tell it


@pytest.mark.parametrize("step", [0.5, 1.0])
def test_a_step_is_a_part_of_the_way(start, tools, step):
    result = strategy(tools, 3, step=step).start(telling(tools, None, None, None), start, num_rounds=2)
    assert moved(result, tools) == pytest.approx(2 * step, abs=1e-5)
    assert moved(result, tools, "w") == pytest.approx(2 * step, abs=1e-5)


def test_counters_take_no_steps(tools):
    start = tools.record({"w": np.zeros(3, dtype=np.float32), "count": np.array(4)})

    def answer(message: Message) -> Message:
        arrays = message.content.array_records["arrays"].items()
        grown = tools.record({name: array.numpy() + array.numpy().dtype.type(2) for name, array in arrays})
        content = RecordDict({"arrays": grown, "metrics": MetricRecord({"num-examples": 10})})
        return Message(content, reply_to=message)

    result = strategy(tools, 2, step=0.25).start(MemoryGrid({0: answer, 1: answer}), start, num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [0.5] * 3
    assert result.arrays["count"].numpy() == 6


def test_the_mean_of_models_is_evaluated_and_returned_and_training_goes_on_from_the_model(start, tools):
    scored: list[float] = []
    grid = telling(tools, None, None, None)

    def evaluate(number, arrays):
        scored.append(float(arrays["b"].numpy()[0]))

    result = strategy(tools, 3, average=0.5).start(grid, start, num_rounds=30, evaluate_fn=evaluate)
    models, mean, wanted = np.arange(1.0, 31.0), 0.0, [0.0]  # every round adds one
    for number, model in enumerate(models, start=1):
        share = max(0.5, 17.0 / (number + 16.0))
        mean = (1.0 - share) * mean + share * model
        wanted.append(mean)
    assert scored == pytest.approx(wanted, abs=1e-3)
    assert moved(result, tools) == pytest.approx(wanted[-1], abs=1e-3)
    asked = [message.content.array_records["arrays"]["b"].numpy()[0] for message in grid.sent[-3:]]
    assert asked == pytest.approx([29.0] * 3, abs=1e-3)


def test_a_resumed_server_goes_on_with_the_first_noise_and_the_mean(clients, start, tmp_path, tools):
    """Secure noise differs each time, but the kept replies do not: both servers end with the same bytes."""
    more = {"aggregation": "matched", "average": 0.8, "checkpoint": tmp_path / "run.state"}
    with pytest.raises(tools.CrashError):
        tools.wrapped(**more).start(tools.crashing(tools.grid_of(clients), 3), start, num_rounds=4)
    kept = Checkpoint.read(tmp_path / "run.state").aggregator
    assert kept["rounds"].tolist() == [2]
    resumed = tools.wrapped(**more)
    result = resumed.start(tools.grid_of(clients), start, num_rounds=4)
    assert resumed._aggregator.state()["first"].tolist() == kept["first"].tolist()
    assert Checkpoint.read(tmp_path / "run.state").aggregator["rounds"].tolist() == [4]
    over = tools.wrapped(**more).start(tools.grid_of(clients), start, num_rounds=4)
    assert all(np.array_equal(over.arrays[name].numpy(), result.arrays[name].numpy()) for name in start)
    latest = Checkpoint.read(tmp_path / "run.state").state.model
    assert not np.array_equal(latest["w"].numpy(), result.arrays["w"].numpy())


def test_a_second_start_begins_without_the_first_ones_mean(start, tools):
    run = strategy(tools, 3, average=0.9)
    ends = [run.start(telling(tools, None, None, None), start, num_rounds=2) for _ in range(2)]
    assert moved(ends[0], tools) == moved(ends[1], tools)


def test_real_clients_tell_what_their_owners_file_means(clients, start, tools):
    """A client that has released more often has a smaller epsilon left per release, and so a smaller weight."""
    clients[0].write(tools.OWNER.replace("budget = 8.0", "budget = 2.0"))
    run = tools.wrapped(chooser=tools.selector(2, 2), aggregation="matched")
    run.start(tools.grid_of(clients[:2]), start, num_rounds=1)
    quiet, loud = (PrivUnit(l2=1.0).noise_level(15, epsilon).noise for epsilon in (2.0, 0.5))
    weights = np.array([(quiet + 1.0) / (loud + 1.0), 1.0])
    shares = weights / weights.sum()
    assert run._aggregator.state()["first"][0] == pytest.approx(float(shares**2 @ [loud, quiet]), rel=1e-6)
