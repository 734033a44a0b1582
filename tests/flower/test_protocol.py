"""What is said between the two sides, and what is not believed."""

from __future__ import annotations

import math
from io import BytesIO

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from pausefl.errors import InvalidValueError
from pausefl.flower.protocol import REFUSED, Note, Refusal, tensors_of, view_of
from pausefl.privacy.mechanisms.base import NoiseLevel


@pytest.mark.parametrize("why", ["exhausted", "not-allowed", "bad-request", "repeated", "failed", "unready"])
@pytest.mark.parametrize("count", [None, 0, 12])
def test_a_refusal_survives_the_way(why, count):
    assert Refusal.of(Refusal(why, count).error()) == Refusal(why, count)


@pytest.mark.parametrize(
    "error",
    [
        Error(code=2, reason="<class 'ValueError'>:<'pausefl refuses (exhausted): x'>"),
        Error(code=REFUSED, reason="pausefl refuses (whatever): x"),
        Error(code=REFUSED, reason="pausefl refuses (exhausted): x\n [releases: 3]"),
        Error(code=REFUSED),
        Error(code=2, reason=Refusal("exhausted", 3).error().reason),
    ],
)
def test_other_errors_are_no_refusals(error):
    assert Refusal.of(error) is None


@pytest.mark.parametrize("seconds", [-1.0, 0.0, float("nan"), float("inf"), "fast", True])
def test_senseless_seconds_are_not_taken(tools, seconds):
    told = RecordDict({"pausefl": ConfigRecord({"name": "a", "releases": 1, "seconds": seconds})})
    assert Note.of(Message(told, reply_to=tools.request())) == Note("a", 1)


@pytest.mark.parametrize(("said", "meant"), [({}, False), ({"replayed": True}, True), ({"replayed": False}, False)])
def test_a_note_of_an_older_release_is_no_replay(tools, said, meant):
    told = RecordDict({"pausefl": ConfigRecord({"name": "a", "releases": 1, **said})})
    assert Note.of(Message(told, reply_to=tools.request())) == Note("a", 1, replayed=meant)


@pytest.mark.parametrize("said", [1, 0, "yes", "True", 1.0, b"1", [True]])
def test_only_a_plain_yes_is_a_replay(tools, said):
    told = RecordDict({"pausefl": ConfigRecord({"name": "a", "releases": 1, "replayed": said})})
    assert Note.of(Message(told, reply_to=tools.request())) == Note("a", 1)
    assert Note.of(Message(RecordDict({"pausefl": Note("a", 1, 2.0, True).record()}), reply_to=tools.request())) == (
        Note("a", 1, 2.0, True)
    )


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ({"noise": 2.0, "signal": 1}, NoiseLevel(2.0, 1.0)), ({"noise": 2.0}, None),
        ({"noise": 0.0, "signal": 1.0}, None), ({"noise": -1.0, "signal": 1.0}, None),
        ({"noise": math.nan, "signal": 1.0}, None),
        ({"noise": 2.0, "signal": math.inf}, None), ({"noise": "loud", "signal": 1.0}, None),
        ({"noise": [2.0], "signal": 1.0}, None),
    ],
)  # fmt: skip
def test_a_level_is_two_finite_numbers_above_zero_or_none(said, level, tools):
    told = RecordDict({"pausefl": ConfigRecord({"name": "a", "releases": 1, **said})})
    assert Note.of(Message(told, reply_to=tools.request())) == Note("a", 1, level=level)
    if level is not None:
        again = RecordDict({"pausefl": Note("a", 1, level=level).record()})
        assert Note.of(Message(again, reply_to=tools.request())) == Note("a", 1, level=level)


@pytest.mark.parametrize(
    "tensor",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(4, dtype=">i4"),
        np.array(2.5),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.array(["a", "bc"]),
        np.array([1 + 2j]),
        np.zeros(2, dtype=[("a", "f4"), ("b", "i8")]),
        np.zeros((1,) * 30, dtype=np.uint8),
    ],
    ids=lambda tensor: f"{tensor.dtype}{tensor.shape[:3]}",
)
def test_a_view_of_an_array_is_what_flower_reads(tensor):
    array = Array(tensor)
    seen, read = view_of(array), array.numpy()
    assert (seen.dtype, seen.shape, seen.tolist()) == (read.dtype, read.shape, read.tolist())


def damaged(**changes: bytes | str) -> Array:
    array = Array(np.arange(6.0).reshape(2, 3))
    fields = {"dtype": array.dtype, "shape": array.shape, "stype": array.stype, "data": array.data, **changes}
    return Array(**fields)


WHOLE = Array(np.arange(6.0).reshape(2, 3)).data


@pytest.mark.parametrize(
    "array",
    [
        damaged(data=b""),
        damaged(data=WHOLE[:9]),
        damaged(data=WHOLE[:40]),
        damaged(data=WHOLE[:-1]),
        damaged(data=b"rubbish"),
        damaged(data=WHOLE.replace(b"(2, 3)", b"(2, 9)")),
        damaged(data=WHOLE.replace(b"(2, 3)", b"(-2,3)")),
        damaged(data=WHOLE.replace(b"<f8", b"|O8")),
        damaged(data=WHOLE.replace(b"'descr'", b"'other'")),
        damaged(data=WHOLE[:8] + b"\xff\xff" + WHOLE[10:]),
        damaged(stype="pickle"),
    ],
)
def test_what_flower_cannot_read_has_no_view_either(array):
    with pytest.raises(Exception) as flower:
        array.numpy()
    with pytest.raises(type(flower.value)):
        view_of(array)


def test_a_file_of_several_arrays_is_no_array():
    """Flower opens one, and what it returns is no tensor."""
    zipped = BytesIO()
    np.savez(zipped, a=np.zeros((2, 3)))
    array = damaged(data=zipped.getvalue())
    for read in (view_of, lambda one: tensors_of(ArrayRecord({"w": one}))):
        with pytest.raises(InvalidValueError, match="array is 'NpzFile', but must be one tensor"):
            read(array)


def test_a_view_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        view_of(Array(np.zeros(2)))[0] = 1.0
