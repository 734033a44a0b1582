"""When an answer leaves a node with ``--answer-after``: at times that tell nothing of what the app did."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import shutil
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.flower.node import executor, noise_time
from pausefl.flower.node import guard as guarding
from pausefl.flower.node.box import Box, BoxError, pack
from pausefl.flower.node.guard import Guard, leaves, time_limit_within
from pausefl.flower.node.noise_time import NoiseTime
from pausefl.flower.protocol import Refusal
from pausefl.owner import gate as gating
from pausefl.owner.kept_replies import Place
from pausefl.owner.ledger_identity import retire_for_ever
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.owner.request_and_reply import Reply
from pausefl.privacy import Gaussian, SqliteLedger

LAUNCHED = 1000.0


class Clock:
    """A clock that only what is told moves, in place of the guard's; it begins when the task is launched."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = LAUNCHED
        patch.setattr(guarding, "time", self)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.woke = time.time()

    def box_takes(self, seconds: float, patch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        def run(*_: object, **__: object) -> bytes:
            self.now += seconds
            if fails:
                raise BoxError("ended")
            return pack(bytes(210 * 4), bytes(100))

        patch.setattr(Box, "run", run)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize(("took", "after"), [(1.0, 40.0), (25.0, 40.0), (34.5, 40.0), (40.5, 80.0), (81.0, 120.0)])
def test_with_a_fixed_time_an_answer_leaves_at_a_multiple_of_it(
    took: float, after: float, fails: bool, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from the launch of its task; an app can make what must be torn down last longer than the slack."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    bundle = node.app().content
    clock.box_takes(took - 0.5, monkeypatch, fails=fails)
    clock.now += 0.5  # until the guard is asked
    reply = guard.answer(bundle, kit.request(), node.context, LAUNCHED)
    assert reply.has_content()
    assert clock.now == LAUNCHED + after
    assert reply.metadata.created_at >= clock.woke  # a message is stamped with the time when it was made
    assert not node.context.state


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize(("took", "kept"), [(1.0, 35.0), (24.0, 35.0), (34.5, 35.0), (35.5, 75.0), (50.0, 75.0)])
def test_with_a_fixed_time_a_reply_is_kept_at_one(
    took: float, kept: float, fails: bool, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends the node before an answer leaves, and asks again, sees whether the reply was kept by then."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    times, keep = [], Place.keep

    def kept_now(place: Place, reply: Reply) -> None:
        times.append(clock.now)
        keep(place, reply)

    monkeypatch.setattr(Place, "keep", kept_now)
    clock.box_takes(took, monkeypatch, fails=fails)
    guard.answer(node.app().content, kit.request(), node.context, LAUNCHED)
    assert times == [LAUNCHED + kept]


@pytest.mark.parametrize("fails", [True, False])
def test_reading_what_the_app_returned_does_not_have_its_reply_kept_later(
    fails: bool, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a training that failed there is nothing to read, and the server decides how long reading takes."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    times: list[float] = []

    def slowly(*words: Any, **more: Any) -> Any:
        clock.now += 3.0 if clock.now > LAUNCHED else 0.0  # not before the app has run
        return read(*words, **more)

    read = gating.difference
    monkeypatch.setattr(gating, "difference", slowly)
    monkeypatch.setattr(Place, "keep", lambda place, reply: times.append(clock.now))
    clock.box_takes(20.0, monkeypatch, fails=fails)
    guard.answer(node.app().content, kit.request(), node.context, LAUNCHED)
    assert times == [LAUNCHED + 35.0]


@pytest.mark.parametrize(("before", "stopped"), [(0.0, 30.0), (4.0, 30.0), (4.9, 30.0)])
def test_an_app_that_starts_late_is_stopped_in_time_for_its_answer(
    before: float, stopped: float, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long request takes long to hand over: the answer of an app that takes long would then be late."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    ends: list[float] = []

    def run(*_: object, end: float) -> bytes:
        ends.append(end)
        return pack(bytes(210 * 4), b"")

    monkeypatch.setattr(Box, "run", run)
    clock.now += before
    assert guard.answer(node.app().content, kit.request(), node.context, LAUNCHED).has_content()
    assert ends == [LAUNCHED + stopped] and clock.now == LAUNCHED + 40.0
    ends.clear()
    replace(guard, answer_after=0.0).answer(node.app().content, kit.request(2), node.context, LAUNCHED)
    assert ends == [math.inf]


@pytest.mark.parametrize("took", [1.0, 24.0])
def test_a_signal_while_a_reply_is_held_back_does_not_have_it_kept_earlier(
    took: float, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower raises SystemExit on a signal; a reply that is kept at once would show that the app had ended."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    times, sleep = [], clock.sleep

    def broken(seconds: float) -> None:
        if seconds > 3.0 and not times:
            sleep(3.0)
            raise SystemExit
        sleep(seconds)

    monkeypatch.setattr(clock, "sleep", broken)
    monkeypatch.setattr(Place, "keep", lambda place, reply: times.append(clock.now))
    clock.box_takes(took, monkeypatch)
    guard.answer(node.app().content, kit.request(), node.context, LAUNCHED)
    assert times == [LAUNCHED + 35.0]


def test_a_reply_that_is_held_back_does_not_leave_after_its_ledger_was_retired(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    clock.box_takes(1.0, monkeypatch)
    sleep = clock.sleep

    def retiring(seconds: float) -> None:
        if clock.now >= LAUNCHED + 35.0 and node.charges == 1:  # the reply was made and kept
            retire_for_ever(SqliteLedger(node.folder / "ledger.db"), "clinic")
        sleep(seconds)

    monkeypatch.setattr(clock, "sleep", retiring)
    reply = guard.answer(node.app().content, kit.request(), node.context, LAUNCHED)
    assert Refusal.of(reply.error) == Refusal("exhausted") and clock.now == LAUNCHED + 40.0
    hello = kit.request()
    hello.content["pausefl"]["hello"] = True
    assert guard.answer(node.app().content, hello, node.context, clock.now).content["pausefl"]["left"] == 0.0


@pytest.mark.parametrize(
    "what",
    ["moved", "removed", "half edited", "for all to write", "no folder", "renamed", "another ledger", "as it was"],
)
def test_a_reply_that_is_held_back_does_not_leave_if_nothing_tells_whether_it_may(
    what: str, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who retires a ledger may move or remove the owner's file right after."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    clock.box_takes(1.0, monkeypatch)
    sleep, file = clock.sleep, node.guard.owner

    def hurried(seconds: float) -> None:
        if clock.now >= LAUNCHED + 35.0 and node.charges == 1:  # the reply was made and kept
            if what == "moved":
                node.folder.rename(node.folder.with_name("old"))
            elif what == "removed":
                file.unlink()
            elif what == "half edited":
                file.write_text(file.read_text()[:200])
            elif what == "for all to write":
                file.chmod(0o666)
            elif what == "no folder":
                shutil.rmtree(node.folder / "ledger.db-replies")
            elif what == "renamed":
                file.write_text(file.read_text().replace('name = "clinic"', 'name = "clinic-b"'))
            elif what == "another ledger":
                shutil.copytree(node.folder / "ledger.db-replies", node.folder / "other.db-replies")
                file.write_text(file.read_text().replace('"ledger.db"', '"other.db"'))
        sleep(seconds)

    monkeypatch.setattr(clock, "sleep", hurried)
    reply = guard.answer(node.app().content, kit.request(), node.context, LAUNCHED)
    assert clock.now == LAUNCHED + 40.0
    assert reply.has_content() if what == "as it was" else Refusal.of(reply.error) == Refusal("exhausted")


@pytest.mark.parametrize(
    ("beside", "settings", "charges"),
    [
        ({}, {}, 1),
        ({"none": ConfigRecord({"text": "", "bytes": b"", "list": [], "texts": [""] * 1000})}, {"note": ""}, 1),
        ({"many": ConfigRecord({"texts": [""] * 33_000})}, {}, 0),
        ({"many": ConfigRecord({"text": "x" * (1 << 16)})}, {}, 0),
        ({"many": ConfigRecord({f"{n}": False for n in range(9_000)})}, {}, 0),
        ({"many": MetricRecord({"numbers": [0] * 66_000})}, {}, 0),
        ({"x" * (1 << 16): ConfigRecord()}, {}, 0),
        ({f"{n}": ConfigRecord() for n in range(8_000)}, {}, 0),
        ({}, {"note": "x" * (1 << 16)}, 0),
        ({"more": ArrayRecord({"a": Array("x" * (1 << 20), (1,), "numpy.ndarray", b"")})}, {}, 0),
        ({"more": ArrayRecord({"a": Array("f", (1,), "x" * (1 << 20), b"")})}, {}, 0),
    ],
    ids=[
        "nothing",
        "empty values",
        "empty texts",
        "a text",
        "false values",
        "zeros",
        "a name",
        "empty records",
        "a setting",
        "a type",
        "a kind",
    ],
)
def test_a_message_that_takes_the_apps_time_is_refused_before_its_charge(
    beside: dict[str, Any], settings: dict[str, Any], charges: int, node: Any, kit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Flower's own count of bytes passes over what is empty, and fails on some of it."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    clock.box_takes(1.0, monkeypatch)
    message = kit.request()
    for name, record in beside.items():
        message.content[name] = record
    node.context.run_config = settings
    bundle = node.app(settings="note = 'plain'\n")
    reply = guard.answer(bundle.content, message, node.context, LAUNCHED)
    assert (node.charges, reply.has_content()) == (charges, bool(charges))
    assert clock.now == LAUNCHED + (40.0 if charges else 10.0)


def test_a_model_whose_noise_might_take_too_long_is_refused_before_its_charge(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server chooses its size, and at the edge a little would decide whether an answer leaves in time."""
    logging.getLogger("flwr").propagate = True
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    clock.box_takes(1.0, monkeypatch)
    for kind, seconds, charges in (("laplace", 1e-9, 0), ("privunit", 2.6, 0), ("privunit", 2.4, 1)):
        guard = replace(guard, noise=NoiseTime(mechanism=kind, each=seconds / 212))
        clock.now = LAUNCHED
        reply = guard.answer(node.app().content, kit.request(), node.context, LAUNCHED)
        assert (node.charges, reply.has_content()) == (charges, bool(charges))
        assert clock.now == LAUNCHED + (40.0 if charges else 10.0)
    assert "2 tensors takes about 2.6 seconds, but must take at most 2.5" in caplog.text
    assert "now says privunit, but the node was started with laplace; start the node again" in caplog.text


@pytest.mark.parametrize("after", [0.0, 40.0])
def test_a_model_that_is_none_gets_the_same_refusal_with_and_without_a_fixed_time(
    after: float, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower opens a zip file of arrays in place of an array, and that has no size: an error passed by the guard."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=after), Clock(monkeypatch)
    zipped, asked = BytesIO(), kit.request()
    np.savez(zipped, a=np.zeros(10, dtype=np.float32))
    asked.content["arrays"]["b"] = Array("float32", (10,), "numpy.ndarray", zipped.getvalue())
    guard = replace(guard, noise=NoiseTime(mechanism="privunit", each=1e-9))
    reply = guard.answer(node.app().content, asked, node.context, LAUNCHED)
    assert reply.error.reason == "pausefl refuses (bad-request): this request cannot be served"
    assert (clock.now, node.charges) == (LAUNCHED + (10.0 if after else 0.0), 0)


@pytest.mark.parametrize("name", ["pausefl-record", "pausefl"])
def test_no_second_model_hides_the_size_of_the_first(
    name: str, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken out of a message before it is trained on must not count when its size is looked at."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    clock.box_takes(1.0, monkeypatch)
    asked = kit.request()
    asked.content[name] = ArrayRecord({"x": Array(np.zeros(1, dtype=np.float32))})
    guard = replace(guard, noise=NoiseTime(mechanism="privunit", each=1.0))
    assert guard.answer(node.app().content, asked, node.context, LAUNCHED).has_error()
    assert (clock.now, node.charges) == (LAUNCHED + 10.0, 0)


def test_whether_a_model_is_too_large_does_not_depend_on_what_the_machine_does(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app could slow the machine down, and the server ask again and again with a model at the edge, uncharged."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    guard = Guard.of(replace(guard, noise=NoiseTime(mechanism="privunit", each=2.4 / 210)).text())
    bundle, told = node.app().content, []
    clock.box_takes(1.0, monkeypatch)
    guard.answer(bundle, kit.request(), node.context, LAUNCHED)
    node.guard.owner.write_text(node.guard.owner.read_text().replace("keep = 2", "keep = 0"))
    other = kit.request()
    other.content["arrays"]["b"] = Array(np.ones(10, dtype=np.float32))
    for slow in (0.0, 1000.0):  # seconds for each look at the clock
        monkeypatch.setattr(noise_time, "time", SimpleNamespace(monotonic=itertools.count(0.0, slow).__next__))
        clock.now = LAUNCHED
        told.append(guard.answer(bundle, other, node.context, LAUNCHED).error.reason)
    assert told[0] == told[1] and "(repeated)" in told[0]


def test_the_noise_of_a_part_tells_how_long_that_of_the_whole_takes(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, make = [], noise_time.released

    def noted(model: dict[str, Any], *words: Any, **more: Any) -> Any:
        tried.append((len(model), model["0"].size))
        return make(model, *words, **more)

    monkeypatch.setattr(noise_time, "time", SimpleNamespace(monotonic=iter([0.0, 0.5, 1.0, 1.25]).__next__))
    monkeypatch.setattr(noise_time, "released", noted)
    owner = read_owner(node.guard.owner)
    found = NoiseTime.of(owner)
    assert found == NoiseTime(mechanism="privunit", each=0.5 / (1 << 15), tensor=0.25 / (1 << 10))
    assert tried == [(1, 1), (1, 1 << 15), (1 << 10, 1)]  # the first one takes longer, and is not timed
    monkeypatch.undo()
    monkeypatch.setattr(noise_time, "_TRIED", 10)
    for one in (owner, replace(owner, mechanism=Gaussian(l2=1.0, delta=1e-6, unit="record"), examples=50)):
        assert NoiseTime.of(one).each > 0.0


@pytest.mark.parametrize(("each", "tensor"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_model_of_many_tensors_or_long_names_might_take_too_long(
    each: float, tensor: float, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an app returned is read tensor by tensor, and only if it returned something: that must not be late."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    guard = Guard.of(replace(guard, noise=NoiseTime(mechanism="privunit", each=each / 9, tensor=tensor)).text())
    monkeypatch.setattr(Box, "run", lambda *_, **__: pack(bytes(4 * count), b""))
    for count, letters, charges in ((2, 8, 1), (3, 8, 1), (1, 30, 1 + (each == 0.0))):
        clock.now, asked = LAUNCHED, kit.request(count)
        names = [f"{number}" + "x" * (letters - 1) for number in range(count)]
        asked.content["arrays"] = ArrayRecord({name: Array(np.zeros(1, dtype=np.float32)) for name in names})
        guard.answer(node.app().content, asked, node.context, LAUNCHED)
        assert node.charges == charges


@pytest.mark.parametrize("by", ["pausefl", "the app"])
def test_rows_that_take_too_long_to_add_up_are_refused(
    by: str, kit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between one record and the next, if pausefl hands them over; otherwise in the time of the noise."""
    (tmp_path / "data").write_bytes(b"1\n" * 10)
    cut = {"records_from": tmp_path / "data"} if by == "pausefl" else {"records": 10}
    init_owner(tmp_path / "owner", "clinic", **cut)
    node = kit.node_of(tmp_path / "owner" / "owner.toml").limited(time_limit=60.0)
    guard = replace(node.guard, answer_after=90.0, noise=NoiseTime(mechanism="gaussian", each=0.0, tensor=0.0))
    numbers = 10 * sum(tensor.size for tensor in kit.model().values())
    most = {"pausefl": (60.0 - 20.0) / 4, "the app": 10.0 / 2}[by]
    for factor, late in ((0.9, False), (1.1, True)):
        monkeypatch.setattr(guarding, "_NUMBERS_A_SECOND", numbers / (factor * most))
        assert guard._is_too_large(kit.model()) is late
    monkeypatch.setattr(guarding, "_NUMBERS_A_SECOND", math.inf)
    for factor, late in ((0.9, False), (1.1, True)):
        monkeypatch.setattr(guarding, "_TENSORS_A_SECOND", 10 * len(kit.model()) / (factor * most))
        assert guard._is_too_large(kit.model()) is late


def test_the_time_of_noise_is_that_on_one_core(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app can keep all other cores busy, and noise that takes longer than was thought would tell of that."""
    seen: list[int] = []

    def noted(model: Any, *_: Any, **__: Any) -> Any:
        seen.append(len(os.sched_getaffinity(0)))
        return model

    monkeypatch.setattr(noise_time, "released", noted)
    before = os.sched_getaffinity(0)
    NoiseTime.of(read_owner(node.guard.owner))
    assert seen == [1, 1, 1] and os.sched_getaffinity(0) == before


def test_with_a_fixed_time_one_processor_is_free_of_apps(
    node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes: list[Box] = []
    monkeypatch.setattr(Box, "run", lambda box, *_, **__: boxes.append(box) or pack(bytes(210 * 4), b""))
    Clock(monkeypatch)
    for number, after in ((1, 0.0), (2, 40.0)):
        guard = replace(node.limited(time_limit=25.0).guard, answer_after=after)
        guard.answer(node.app().content, kit.request(number), node.context, LAUNCHED)
    assert [box.spare_one for box in boxes] == [False, True]


def test_tasks_run_one_after_the_other(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what the app of one does to the machine would show in the time of the other, which costs nothing."""
    ended: list[bool] = []
    process = SimpleNamespace(poll=lambda: 0 if ended else None)
    monkeypatch.setattr(executor, "begin", lambda *_: process)
    tasks, kinds = executor._GuardedExecutor(node.guard.text()), {executor.TaskType.CLIENT_APP}
    seen = [tasks.get_eligible_capacity(kinds)]
    tasks.launch(SimpleNamespace(runtime_api_address="here", task_type="x", token="t"))  # type: ignore[arg-type]
    for end in (False, True):
        ended += [True] * end
        tasks.reconcile()
        seen.append(tasks.get_eligible_capacity(kinds))
    assert seen == [(kinds, set()), (set(), set()), (kinds, set())]


@pytest.mark.parametrize(("late", "after"), [(0.1, 10.0), (9.0, 10.0), (10.5, 20.0)])
def test_with_a_fixed_time_answers_without_the_app_have_one_too(
    late: float, after: float, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    bundle = node.app().content
    clock.box_takes(1.0, monkeypatch)
    guard.answer(bundle, kit.request(), node.context, LAUNCHED)
    hello, unknown = kit.request(), kit.request()
    hello.content["pausefl"]["hello"] = True
    unknown.metadata.__dict__["_message_type"] = "else"
    requests = [hello, kit.request(), kit.request(kind="evaluate"), unknown]
    for sent, message in [(bundle, one) for one in requests] + [(b"", kit.request()), (None, kit.request())]:
        clock.now = LAUNCHED + late
        guard.answer(sent, message, node.context, LAUNCHED)
        assert clock.now == LAUNCHED + after
    assert node.charges == 1


@given(period=st.floats(1.0, 1e4), launched=st.floats(0.0, 1e7), took=st.floats(0.0, 1e5))
def test_when_an_answer_leaves_is_a_multiple_that_has_not_passed(period: float, launched: float, took: float) -> None:
    now = launched + took
    end = leaves(launched, period, now)
    times = (end - launched) / period
    assert abs(times - round(times)) < 1e-6 and round(times) >= 1
    assert -1e-6 < end - now < period * (1 + 1e-6) or round(times) == 1


def test_a_task_is_told_when_it_was_launched(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading Python, and pulling the message, take time that others on the machine can stretch."""
    tasks: list[dict[str, Any]] = []
    monkeypatch.setattr(executor, "begin", lambda secret, role, words, guard: tasks.append(json.loads(words)))
    before = time.monotonic()
    spec = SimpleNamespace(runtime_api_address="here", task_type="x", token="t")
    executor._GuardedExecutor(node.guard.text()).launch(spec)  # type: ignore[arg-type]
    assert before <= tasks[0]["launched"] <= time.monotonic()


@pytest.mark.parametrize("after", [5.0, 8.0, 22.9, -1.0, float("nan")])
def test_an_answer_waits_longer_than_an_app_and_its_end_may_take(node: Any, after: float) -> None:
    limited = node.limited(time_limit=8.0).guard
    with pytest.raises(
        InvalidValueError, match=r"--answer-after is .*, but must be at least 23, 15 seconds above the t"
    ):
        replace(limited, answer_after=after)
    assert replace(limited, answer_after=23.0).answer_after == 23.0


def test_the_time_limit_follows_from_the_answers_time_if_none_is_told() -> None:
    assert [time_limit_within(after) for after in (16.0, 50.0, 1000.0)] == [1.0, 35.0, 900.0]
    for after in (15.0, 0.1, -1.0, float("nan")):
        with pytest.raises(InvalidValueError, match=r"--answer-after is .*, but must be above 15 seconds"):
            time_limit_within(after)


@pytest.mark.parametrize("how", ["late", "large"])
def test_a_message_that_would_leave_an_app_less_time_is_refused_before_the_charge(
    how: str, node: Any, kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With less time, one record that takes a little longer would decide whether training fails."""
    guard, clock = replace(node.limited(time_limit=25.0).guard, answer_after=40.0), Clock(monkeypatch)
    clock.box_takes(1.0, monkeypatch)
    message = kit.request()
    if how == "late":
        clock.now += 5.1  # a third of the slack is 5 seconds
    else:
        message.content["more"] = ConfigRecord({"list": [1] * 300_000})
    reply = guard.answer(node.app().content, message, node.context, LAUNCHED)
    assert reply.has_error() and "bad-request" in reply.error.reason
    assert clock.now == LAUNCHED + 10.0
    assert not node.charges
