"""A server that died goes on where it was, and nobody pays twice."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import Context, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    Result,
    Strategy,
)

import pausefl
from pausefl.errors import ConfigError, StateFileError
from pausefl.flower import Checkpoint
from pausefl.flower.server.inner_strategy import inner_state, restore_inner
from pausefl.flower.server.training_rounds import PlayedRound, RunState
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon, Geometric
from pausefl.sim.latency import FlooredNormal


@pytest.mark.parametrize("make", [FedAdam, lambda **more: FedAvgM(server_momentum=0.9, **more)])
def test_moments_of_scalars_survive_in_the_file(clients, tmp_path, make, tools):
    """Flower's arithmetic turns arrays without dimensions into plain numbers, which a checkpoint must keep too."""
    model = tools.record({**tools.model(), "scale": np.ones((), dtype=np.float32)})
    used, again = (make(fraction_evaluate=0.0) for _ in range(2))
    tools.wrapped(used, tools.selector(per_round=5), checkpoint=tmp_path / "run.state").start(
        tools.grid_of(clients), model, num_rounds=2
    )
    before = inner_state(used)
    assert any(array.shape == () for array in before.values())
    restore_inner(again, Checkpoint.read(tmp_path / "run.state").inner)
    after = inner_state(again)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) and before[key].shape == after[key].shape for key in before)


@pytest.mark.parametrize(
    "make", [lambda: FedAvg(fraction_evaluate=0.0), lambda: FedAvgM(fraction_evaluate=0.0, server_momentum=0.9)]
)
def test_a_server_that_died_in_mid_round_goes_on_without_a_second_charge(clients, start, tmp_path, make, tools):
    latency = FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05)
    path = tmp_path / "run.state"
    with pytest.raises(tools.CrashError):
        tools.wrapped(make(), latency=latency, checkpoint=path).start(
            tools.crashing(tools.grid_of(clients), 3), start, num_rounds=4
        )
    assert Checkpoint.read(path).round == 2
    before = [client.charges for client in clients]
    assert sum(before) == 6  # the third round was charged, and its replies were lost
    strategy = tools.wrapped(make(), latency=latency, checkpoint=path)
    seen = [len(client.seen) for client in clients]
    result = strategy.start(tools.grid_of(clients), start, num_rounds=3)
    assert [client.charges for client in clients] == before  # the same bytes again, for nothing
    assert [len(client.seen) for client in clients] == seen
    assert [played.round for played in strategy.history] == [1, 2, 3]
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    again = tools.wrapped(make(), latency=latency, checkpoint=path).start(tools.grid_of(clients), start, num_rounds=3)
    assert np.array_equal(again.arrays["w"].numpy(), result.arrays["w"].numpy())  # complete: nothing is played
    assert [client.charges for client in clients] == before


def momentum() -> FedAvgM:
    return FedAvgM(fraction_evaluate=0.0, server_momentum=0.9)


def clipped(inside: FedAvg) -> Strategy:
    """Flower's wrapper with a clip that bites, and no noise, which would be different each time."""
    return DifferentialPrivacyServerSideFixedClipping(inside, 0.0, 1.0, 2)


@pytest.mark.parametrize(
    ("make", "moment"),
    [
        (lambda: FedAdam(fraction_evaluate=0.0), "m_t"),
        (lambda: clipped(FedAdam(fraction_evaluate=0.0)), "m_t"),
        (lambda: clipped(momentum()), "momentum_vector"),
    ],
    ids=["adam", "clipped adam", "clipped momentum"],
)
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path, start, tools, make, moment):
    """To the bit, where no noise is drawn: the moments are in the checkpoint, also those of a strategy in a wrapper."""
    context = Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})
    grid = MemoryGrid({node: lambda message: tools.trained(message, context) for node in range(5)})

    def play(name: str, rounds: int):
        inside = make()
        strategy = tools.wrapped(
            inside,
            pausefl.Selector([1.0, 2.0, 3.0, 4.0, 5.0], 2),
            latency=FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05),
            checkpoint=tmp_path / name,
            names="node",
        )
        arrays = strategy.start(grid, start, num_rounds=rounds).arrays
        return arrays, strategy.history, getattr(getattr(inside, "strategy", inside), moment)

    whole, story, moments = play("whole", 6)
    play("parts", 2)
    parts, same_story, same_moments = play("parts", 6)
    assert story == same_story
    assert repr(moments) == repr(same_moments)
    assert np.any([np.any(one) for one in (moments.values() if isinstance(moments, dict) else moments)])
    assert all(np.array_equal(whole[name].numpy(), parts[name].numpy()) for name in whole)


def test_a_checkpoint_of_another_model_or_a_damaged_one_is_refused(clients, start, tmp_path, tools):
    path = tmp_path / "run.state"
    tools.wrapped(checkpoint=path).start(tools.grid_of(clients), start, num_rounds=1)
    with pytest.raises(StateFileError, match="another model"):
        tools.wrapped(checkpoint=path).start(tools.grid_of(clients), tools.record({"w": np.zeros(2)}), num_rounds=2)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StateFileError, match="damaged"):
        tools.wrapped(checkpoint=path).start(tools.grid_of(clients), start, num_rounds=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": Geometric(4000.0, 0.04)}, "its schedule is .*'FixedHorizon'.*a budget is for life"),
        ({"alpha": 0.0}, "its alpha is 100.0, but here it is 0.0"),
        ({"seed": 1}, "its seed is 0, but here it is 1"),
    ],
)
def test_a_selector_with_other_arguments_is_refused(clients, start, tmp_path, tools, change, words):
    path = tmp_path / "run.state"
    tools.wrapped(chooser=tools.selector(), checkpoint=path).start(tools.grid_of(clients), start, num_rounds=1)
    before, charges = path.read_bytes(), [client.charges for client in clients]
    with pytest.raises(StateFileError, match=words):
        tools.wrapped(chooser=tools.selector(**change), checkpoint=path).start(
            tools.grid_of(clients), start, num_rounds=2
        )
    assert path.read_bytes() == before
    assert [client.charges for client in clients] == charges
    tools.wrapped(chooser=tools.selector(), checkpoint=path).start(tools.grid_of(clients), start, num_rounds=2)


def test_metrics_survive_a_checkpoint(start):
    odd = {"a": np.float64(0.75), "b": float("nan"), "c": float("inf"), "d": [1.5, float("nan")], "e": 3}
    played = PlayedRound(1, ("a", 7), {"speed": None}, {"a": 0.5}, {"7": "failed"}, {"a": 2.0, "7": 2.0})
    result = Result(arrays=start, train_metrics_clientapp={1: MetricRecord(odd)})
    text = json.dumps(RunState("run", 1, result, [played]).latest_round(), allow_nan=False)
    back = RunState("run", 1)
    back.add_round(json.loads(text))
    assert back.history == [played]
    assert repr(dict(back.result.train_metrics_clientapp[1])) == repr({**odd, "a": 0.75})


def test_a_second_server_is_kept_off_the_checkpoint(clients, start, tools, tmp_path):
    """Sent again while the first still waits, say: both would write, and spoil, the same files."""
    path, refused = tmp_path / "run.state", []

    def second(number, _):
        with pytest.raises(ConfigError, match="is being written by another process"):
            tools.wrapped(checkpoint=path).start(tools.grid_of(clients), start, num_rounds=1)
        refused.append(number)

    strategy = tools.wrapped(checkpoint=path)
    strategy.start(tools.grid_of(clients), start, num_rounds=2, evaluate_fn=second)
    assert refused == [0, 1, 2]
    assert Checkpoint.read(path).round == 2
    (tmp_path / "link").symlink_to(path)
    again = tools.wrapped(checkpoint=tmp_path / "link")
    again.start(tools.grid_of(clients), start, num_rounds=3)
    assert len(again.history) == 3


def test_the_journal_is_as_secret_as_the_checkpoint(clients, start, tools, tmp_path):
    path = tmp_path / "run.state"
    tools.wrapped(checkpoint=path).start(tools.grid_of(clients), start, num_rounds=0)
    path.chmod(0o600)
    tools.wrapped(checkpoint=path).start(tools.grid_of(clients), start, num_rounds=1)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("run.state", "run.state.rounds")] == [0o600, 0o600]


def test_numpys_whole_numbers_name_clients_too(clients, start, tools, tmp_path):
    grid = MemoryGrid({n: lambda m: tools.trained(m, None) for n in (3, 4)})
    chooser = pausefl.Selector({np.int64(3): 1.0, np.int64(4): 1.0}, 2, schedule=FixedHorizon(8.0, 1))
    strategy = tools.wrapped(chooser=chooser, names="node", checkpoint=tmp_path / "run.state")
    strategy.start(grid, start, num_rounds=2)
    assert strategy.exhausted == {3, 4}
    assert Checkpoint.read(tmp_path / "run.state").exhausted == {3, 4}
