"""What of an inner strategy's state is kept, and in which types its averages come out."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg, FedAvgM

import pausefl
from pausefl.errors import InvalidValueError, StateFileError
from pausefl.flower import PauseStrategy
from pausefl.flower.server.inner_strategy import in_types_of, inner_state, restore_inner
from pausefl.flower.testing import MemoryGrid
from pausefl.selector import Selector
from pausefl.system.state_file import read_state, write_state


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


def test_a_bare_array_is_kept_too(tmp_path):
    """A strategy of one's own, say, that keeps its moment flat."""

    class Flat(FedAvg):
        def __init__(self, moment):
            super().__init__()
            self.moment, self.names = moment, np.array([object()], dtype=object)

    for moment in (np.arange(6.0).reshape(2, 3), np.array(3.5), np.zeros(0), np.array([True])):
        wrapper = DifferentialPrivacyServerSideFixedClipping(Flat(moment), 0.1, 1.0, 2)
        write_state(tmp_path / "inner", "inner", {}, inner_state(wrapper))
        back = Flat(None)
        restore_inner(
            DifferentialPrivacyServerSideFixedClipping(back, 0.1, 1.0, 2), read_state(tmp_path / "inner", "inner")[1]
        )
        assert type(back.moment) is np.ndarray
        assert (back.moment.shape, back.moment.dtype) == (moment.shape, moment.dtype)
        assert np.array_equal(back.moment, moment)


def test_an_account_that_no_checkpoint_holds_is_refused_with_one(tmp_path):
    class Accountant:
        """As Flower's, which need further packages."""

        def compose(self, event, count=1): ...

        def get_epsilon(self, delta): ...

    inner = FedAvg()
    inner.accountant = Accountant()
    wrapped = DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 1.0, 2)
    PauseStrategy(wrapped, Selector([1, 1, 1], 2))
    with pytest.raises(InvalidValueError, match="accountant of the inner strategy is a Accountant"):
        PauseStrategy(wrapped, Selector([1, 1, 1], 2), checkpoint=tmp_path / "run.state")


def cast(tools, values, model):
    return in_types_of(tools.record({"t": np.asarray(model)}), tools.record({"t": np.asarray(values)}))["t"].numpy()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_whole_numbers_are_rounded_and_stay_within_their_type(tools, kind):
    info = np.iinfo(kind)
    values = np.array([2.7, 2.2, 99.99999, 1e300, -1e300, np.inf, -np.inf, np.nan, float(info.max), float(info.min)])
    model = np.full(10, 5, dtype=kind)
    found = cast(tools, values, model)
    assert found.dtype == kind
    assert found.tolist() == [3, 2, 100, info.max, info.min, info.max, info.min, 5, info.max, info.min]


def test_flags_go_with_the_majority(tools):
    found = cast(tools, [0.0, 0.3, 0.7, 1.0, np.nan, np.nan], np.array([1, 1, 0, 0, 1, 0], dtype=bool))
    assert found.tolist() == [False, False, True, True, True, False]
    assert found.dtype == bool


def test_a_counter_without_dimensions_stays_one(tools):
    found = cast(tools, 41.6, np.array(7))
    assert (found.shape, found.dtype, found.item()) == ((), np.dtype(np.int64), 42)


def test_floats_come_back_in_the_models_precision_and_infinity_stays_infinite(tools):
    """Clients refuse an infinite model without a charge; one cut to the largest float would cost them budget."""
    model = np.zeros(2, dtype=np.float32)
    assert cast(tools, np.array([1e300, -np.inf]), model).tolist() == [np.inf, -np.inf]
    assert cast(tools, np.ones(2, dtype=np.float32), np.zeros(2)).dtype == np.float64


def test_what_is_of_the_models_type_is_left_alone(tools):
    assert cast(tools, np.array([2**62 + 1]), np.array([0])).tolist() == [2**62 + 1]
    assert cast(tools, np.array([0.1, 1e300]), np.zeros(2, dtype=np.float32)).dtype == np.float32


def test_batches_tracked_by_a_batch_norm_are_averaged_to_a_whole_number(start, tools):
    """Three clients with 10, 11 and 11 batches: 11, where cutting off would say 10."""
    model = tools.record({"bn.num_batches_tracked": np.array(10), "w": np.zeros(2, dtype=np.float32)})

    def client(batches: int):
        def answer(message: Message) -> Message:
            arrays = tools.record({"bn.num_batches_tracked": np.array(batches), "w": np.ones(2, dtype=np.float32)})
            return Message(
                RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message
            )

        return answer

    strategy = tools.wrapped(chooser=pausefl.Selector([1.0] * 3, 3), names="node")
    result = strategy.start(MemoryGrid({0: client(10), 1: client(11), 2: client(11)}), model, num_rounds=1)
    tracked = result.arrays["bn.num_batches_tracked"].numpy()
    assert (tracked.item(), tracked.dtype) == (11, np.dtype(np.int64))


@pytest.mark.parametrize(
    "key",
    ["0|array|noise_multiplier|", "0|array|aggregate_train|", "7|array|momentum|", "x|array|momentum|", "momentum"],
)
def test_a_checkpoint_from_others_sets_no_setting_and_replaces_no_method(key: str) -> None:
    inner = FedAvg()
    inner.noise_multiplier = 1.0
    with pytest.raises(StateFileError, match="the checkpoint"):
        restore_inner(inner, {key: np.array(0.0)})
    assert inner.noise_multiplier == 1.0
