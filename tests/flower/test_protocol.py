"""What is said between the two sides, and what is not believed."""

from __future__ import annotations

import math

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from pausefl.flower.protocol import REFUSED, Note, Refusal
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
