"""The gate, without any framework: plain values in, a reply or a refusal out."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.owner import gate as gate_module
from pausefl.owner.gate import Gate, measured
from pausefl.owner.kept_replies import ReplyStore
from pausefl.owner.ledger_identity import make_ledger, retire_for_ever
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import SENTENCES, Refused, Reply, TrainingRequest
from pausefl.privacy import FixedHorizon, Gaussian, Laplace, PrivUnit, SqliteLedger
from pausefl.privacy.ledger import sqlite
from pausefl.privacy.ledger.charge import alone_epsilon

MODEL = {"w": np.linspace(-1.0, 1.0, 12).reshape(4, 3).astype(np.float32), "b": np.zeros(3, dtype=np.float32)}


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    ledger = make_ledger(tmp_path / "ledger.db")
    return Owner(
        name="clinic", ledger=ledger.path, ledger_id=ledger.id, schedule=FixedHorizon(8.0, 4),
        mechanism=PrivUnit(l2=1.0), examples=7,
    )  # fmt: skip


@pytest.fixture
def simulation(tmp_path: Path) -> Owner:
    return Owner(
        name="clinic", ledger=tmp_path / "simulated", schedule=FixedHorizon(8.0, 4), mechanism=PrivUnit(l2=1.0),
        simulation=True, allow=frozenset(["num-examples", "loss"]), messages=frozenset(["evaluate"]),
    )  # fmt: skip


class Training:
    """Adds one to every number, and counts how often it was called."""

    def __init__(self, arrays=None, numbers=None, during=lambda: None) -> None:
        self.calls, self.during = 0, during
        self.arrays = {name: tensor + 1 for name, tensor in MODEL.items()} if arrays is None else arrays
        self.numbers = {"num-examples": 17, "accuracy": 0.9} if numbers is None else numbers

    def __call__(self):
        self.calls += 1
        self.during()
        return self.arrays, self.numbers


def ask(owner, training=None, *, model=None, **request):
    request = {"run": "run", "round": 1, **request}
    gate = Gate(owner, request["run"])
    return gate.train(TrainingRequest(**request), MODEL if model is None else model, training or Training())


def refused(owner, *arguments, **request) -> Refused:
    with pytest.raises(Refused) as caught:
        ask(owner, *arguments, **request)
    return caught.value


def charged(owner) -> list[str]:
    return [charge.release for charge in SqliteLedger(owner.ledger).charges(owner.name)]


def same(one, other) -> bool:
    return one.arrays.keys() == other.arrays.keys() and all(
        one.arrays[name].dtype == other.arrays[name].dtype and np.array_equal(one.arrays[name], other.arrays[name])
        for name in one.arrays
    )


def test_a_reply_holds_the_noised_model_and_no_number_of_the_app(owner):
    training = Training()
    reply = ask(owner, training)
    assert {name: (t.shape, t.dtype) for name, t in reply.arrays.items()} == {
        name: (t.shape, t.dtype) for name, t in MODEL.items()
    }
    assert not any(np.isclose(reply.arrays[name] - MODEL[name], 1.0).any() for name in MODEL)
    assert reply.numbers == {"num-examples": 7}
    assert (reply.releases, reply.seconds, reply.replayed, training.calls) == (1, None, False, 1)


def test_the_charge_is_on_the_disk_before_training_begins(owner):
    seen = []
    ask(owner, Training(during=lambda: seen.extend(charged(owner))), action="tune")
    assert seen == ["run/1/tune"]


def test_each_charge_is_one_line_of_the_log_written_before_training_begins(owner, caplog):
    """If the ledger is lost, the log tells how many releases there were; the server chooses the name of a request."""
    caplog.set_level("INFO")
    seen = []
    for number in (1, 2):
        ask(owner, lambda: seen.append(caplog.text) or (MODEL, {}), round=number)
    ask(owner, round=2)  # repeated: not charged
    lines = [record.getMessage() for record in caplog.records if "charged release" in record.getMessage()]
    charges, head = SqliteLedger(owner.ledger).charges(owner.name), SqliteLedger(owner.ledger).head
    assert len(lines) == 2 and f"charged release 1 of {owner.name!r}" in seen[0] and "release 2 of" in seen[1]
    assert charges[1].when in lines[1] and lines[1].endswith(f"head {head.hash}")


def test_a_repeated_request_gets_the_same_bytes_without_training_or_charge(owner):
    first, training = ask(owner), Training()
    again = ask(owner, training)
    assert same(first, again)
    assert (again.numbers, again.replayed, training.calls) == (first.numbers, True, 0)
    assert charged(owner) == ["run/1"]


def test_a_repeated_request_with_another_model_is_refused(owner):
    ask(owner)
    training = Training()
    other = {name: tensor + 1 for name, tensor in MODEL.items()}
    answer = refused(owner, training, model=other)
    assert (answer.reason, answer.releases, training.calls, charged(owner)) == ("repeated", 1, 0, ["run/1"])


def test_a_kept_reply_follows_todays_file_and_tells_todays_count(owner):
    first = ask(owner)
    ask(owner, run="other")
    again = ask(replace(owner, examples=9))
    assert (first.numbers, again.numbers, again.releases) == ({"num-examples": 7}, {"num-examples": 9}, 2)
    assert same(first, again)


def test_in_a_simulation_allowed_numbers_leave_and_a_kept_reply_follows_todays_list(simulation):
    open_handed = replace(simulation, allow=frozenset(["num-examples", "accuracy", "seconds"]))
    first = ask(open_handed)
    assert first.numbers == {"num-examples": 17, "accuracy": 0.9}
    assert first.seconds is not None
    again = ask(replace(simulation, allow=frozenset()))
    assert (again.numbers, again.seconds) == ({"num-examples": 1}, None)
    assert same(first, again)


def test_a_simulated_ledger_belongs_to_its_run_and_never_to_a_deployment(simulation, owner):
    for run in ("one", "two"):
        assert ask(simulation, run=run).releases == 1
    assert sorted(path.name for path in simulation.ledger.glob("*.db")) == ["one.db", "two.db"]
    made = SqliteLedger(simulation.ledger / "one.db")
    assert made.simulation
    answer = refused(replace(owner, ledger=made.path, ledger_id=made.id))
    assert (answer.reason, "made for a simulation" in str(answer)) == ("unready", True)
    shutil.copy(owner.ledger, simulation.ledger / "three.db")
    answer = refused(simulation, run="three")
    assert (answer.reason, "not made for a simulation" in str(answer)) == ("unready", True)


def test_simulated_clients_that_begin_at_once_share_one_ledger(simulation, monkeypatch):
    """A client that makes a ledger removes what another has half made: none may fail for that."""
    fill, begun = sqlite.fill_empty, []
    other_begins, other_ends = Event(), Event()

    def slowly(*arguments):
        begun.append(arguments)
        if len(begun) == 1:
            other_begins.wait(1.0)  # with one maker at a time, nobody else begins
        else:
            other_begins.set()
            other_ends.wait(1.0)
        fill(*arguments)

    monkeypatch.setattr(sqlite, "fill_empty", slowly)
    with ThreadPoolExecutor(3) as pool:
        opened = [pool.submit(Gate, replace(simulation, name=f"clinic-{n}"), "run") for n in range(3)]
        opened[0].exception()
        other_ends.set()
        assert [one.result().releases for one in opened] == [0, 0, 0]
    assert len(begun) == 1


def test_the_budget_ends_politely_and_for_good(owner):
    for number in range(1, 5):
        ask(owner, round=number)
    training = Training()
    answer = refused(owner, training, round=5)
    assert (answer.reason, answer.releases, training.calls) == ("exhausted", 4, 0)
    assert len(charged(owner)) == 4


@pytest.mark.parametrize(
    ("model", "wish"),
    [
        ({}, {}),
        ({"w": np.array([1, 2])}, {}),
        ({"w": np.array([np.nan], dtype=np.float32)}, {}),
        ({"bn.running_mean": np.zeros(2)}, {}),
        ({"w": [1.0, 2.0]}, {}),
        ({"w": np.ones(2), "bn.num_batches_tracked": np.zeros(2, [("a", "f4"), ("b", "i4")])}, {}),
        ({"w": np.ones(2), "bn.num_batches_tracked": np.array(["2020-01-01"], "M8[D]")}, {}),
        (None, {"round": 0}),
        (None, {"epsilon": 1e-9}),
    ],
    ids=["empty", "integers", "nan", "batch norm", "no array", "fields", "dates", "round 0",
         "tiny epsilon"],
)  # fmt: skip
def test_a_bad_request_is_refused_before_it_costs_anything(owner, model, wish):
    training = Training()
    if model and any("tracked" in name for name in model):
        owner = replace(owner, batch_norm="noise")
    assert refused(owner, training, model=model, **wish).reason == "bad-request"
    assert charged(owner) == []
    assert training.calls == 0


@pytest.mark.parametrize(
    "bad",
    [{"run": ""}, {"run": "a/b"}, {"run": 7}, {"round": -1}, {"round": True}, {"round": 1.0}, {"epsilon": 0.0},
     {"epsilon": float("nan")}, {"clip": "1"}, {"clip": -1.0},
     {"action": "x" * 901}, {"action": "two\nlines"}, {"action": None}],
)  # fmt: skip
def test_a_request_validates_itself(bad):
    with pytest.raises(InvalidValueError):
        TrainingRequest(**{"run": "run", "round": 1, **bad})


def test_the_longest_name_that_a_request_can_have_fits_into_the_ledger(owner):
    request = {"run": "r" * 64, "round": 2**31 - 1, "action": "x" * 900}
    assert ask(owner, **request).releases == 1
    assert charged(owner) == [TrainingRequest(**request).release]


def failing(error):
    def during():
        raise error

    return Training(during=during)


FAILURES = {
    "exception": lambda: failing(ValueError("SECRET")),
    "exit": lambda: failing(SystemExit("SECRET")),
    "refusal": lambda: failing(Refused("exhausted", "SECRET")),
    "nothing": lambda: lambda: None,
    "missing tensor": lambda: Training(arrays={"w": MODEL["w"]}),
    "stray tensor": lambda: Training(arrays={**MODEL, "secret": np.ones(3)}),
    "shape": lambda: Training(arrays={**MODEL, "b": np.zeros(4, dtype=np.float32)}),
    "nan": lambda: Training(arrays={**MODEL, "b": np.full(3, np.nan, dtype=np.float32)}),
    "text": lambda: Training(arrays={**MODEL, "b": np.array(["a", "b", "c"])}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_training_is_answered_like_any_other(owner, name):
    """Whether training fails may depend on the data: a refusal would be a bit of it without noise."""
    usual, reply = ask(owner, round=2), ask(owner, FAILURES[name]())
    assert reply.arrays.keys() == usual.arrays.keys()
    assert {n: (t.shape, t.dtype) for n, t in reply.arrays.items()} == {
        n: (t.shape, t.dtype) for n, t in usual.arrays.items()
    }
    assert reply.numbers == usual.numbers
    assert (reply.releases, reply.replayed) == (2, False)
    assert same(reply, ask(owner, FAILURES[name]()))  # and it is kept like any other
    assert charged(owner) == ["run/2", "run/1"]


def test_a_failed_training_releases_the_noise_of_an_unchanged_model(owner):
    quiet = replace(owner, mechanism=Gaussian(l2=1e-7, delta=1e-5))
    found = ask(quiet, failing(ValueError())).arrays
    assert all(np.allclose(found[name], MODEL[name], atol=1e-5) for name in MODEL)
    assert not all(np.array_equal(found[name], MODEL[name]) for name in MODEL)


def test_training_may_write_into_the_model_it_was_given(owner):
    """The update is measured against what the server sent, whatever became of those arrays."""
    given = {name: tensor.copy() for name, tensor in MODEL.items()}

    def in_place():
        for tensor in given.values():
            tensor += 1.0
        return given, {}

    big = replace(owner, mechanism=Laplace(unit="coordinate", width=4.0), schedule=FixedHorizon(2e5, 2))
    found = ask(big, in_place, model=given).arrays
    assert np.allclose(np.concatenate([(found[name] - MODEL[name]).ravel() for name in MODEL]), 1.0, atol=0.01)


def test_a_tensor_without_dimensions_is_one_like_the_others(owner):
    model = {"w": np.ones(3, dtype=np.float32), "scale": np.array(2.0, dtype=np.float32), "shift": np.array(1.0)}
    trained = Training(arrays={name: np.asarray(tensor + 1) for name, tensor in model.items()})
    reply = ask(owner, trained, model=model)
    assert {n: (type(t), t.shape, t.dtype) for n, t in reply.arrays.items()} == {
        n: (np.ndarray, t.shape, t.dtype) for n, t in model.items()
    }
    assert same(reply, ask(owner, trained, model=model))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (np.zeros((1,) * 31, dtype=np.int64), "dimensions of 'bn.num_batches_tracked' is 31, but must be at most 30"),
        (np.zeros((0, 1 << 31), dtype=np.int64), "size of 'bn.num_batches_tracked' is 0, but must be 1 or more"),
    ],
)
def test_tensors_that_could_not_come_back_from_a_kept_reply_are_refused_before_the_charge(owner, extra, said):
    """Also those that stay local: they are kept with the reply, and sent again when a request is repeated."""
    owner = replace(owner, batch_norm="keep-local")
    model = {"w": np.ones(3, dtype=np.float32), "bn.num_batches_tracked": extra}
    with pytest.raises(Refused, match=said):
        ask(owner, model=model)
    assert charged(owner) == []
    fine = {**model, "bn.num_batches_tracked": np.zeros((1,) * 30, dtype=np.int64)}
    first = ask(owner, Training(arrays=fine), model=fine)
    assert same(first, ask(owner, Training(arrays=fine), model=fine))


def spread(owner, **wish) -> float:
    """The mean size of Laplace noise around a model of zeros that training leaves as it is."""
    zeros = {"w": np.zeros(20_000)}
    return float(np.abs(ask(owner, Training(arrays=zeros), model=zeros, **wish).arrays["w"]).mean())


def test_wishes_make_it_stricter_and_never_less_strict(owner):
    noisy = replace(owner, mechanism=Laplace(unit="coordinate", width=0.5))
    assert spread(noisy) == pytest.approx(0.25, rel=0.05)  # width / epsilon
    assert spread(noisy, run="small", epsilon=0.5) == pytest.approx(1.0, rel=0.05)
    assert spread(noisy, run="clip", clip=0.1) == pytest.approx(0.25, rel=0.05)  # the noise of the owner's own clip
    assert spread(noisy, run="greedy", epsilon=1e9, clip=1e9) == pytest.approx(0.25, rel=0.05)
    rows = SqliteLedger(owner.ledger).charges("clinic")
    assert [row.epsilon for row in rows] == [FixedHorizon(8.0, 4).epsilon(1)] * 4  # charged in full all the same


def test_a_reply_tells_how_loud_it_is_by_the_epsilon_that_was_used(owner):
    level, size = owner.mechanism.noise_level, sum(tensor.size for tensor in MODEL.values())
    assert ask(owner).level == level(size, FixedHorizon(8.0, 4).epsilon(1))
    assert ask(owner, run="strict", epsilon=0.5).level == level(size, 0.5)


def test_a_tiny_clip_gives_no_secret_away(owner):
    """A bit in 1000 tiny coordinates, guessed from the mean of each of 200 releases, by the clip the server prefers.

    Guessing by chance is right 64 to 136 times, except once in five million runs.
    """
    tries, zeros = 200, {"w": np.zeros(1000)}
    noisy = replace(
        owner, mechanism=Laplace(unit="coordinate", width=1.0), schedule=FixedHorizon(float(tries), tries), keep=0
    )
    right = 0
    for number, secret in enumerate(np.random.default_rng(8).choice([-1.0, 1.0], tries), start=1):
        reply = ask(noisy, Training(arrays={"w": zeros["w"] + 1e-6 * secret}), model=zeros, round=number, clip=1e-6)
        right += bool(reply.arrays["w"].mean() * secret > 0.0)
    assert 64 <= right <= 136


def test_an_old_copy_of_the_ledger_is_refused(owner, tmp_path):
    ask(owner)
    shutil.copy(owner.ledger, tmp_path / "copy")
    ask(owner, round=2)
    shutil.copy(tmp_path / "copy", owner.ledger)
    for number in (2, 3):
        assert refused(owner, round=number).reason == "unready"


def test_a_retired_ledger_sends_nothing_again(owner):
    """The page says that every later request is refused; what left before is with the server already."""
    ask(owner)
    retire_for_ever(SqliteLedger(owner.ledger), owner.name)
    training = Training()
    assert [refused(owner, training, round=number).reason for number in (1, 2)] == ["exhausted"] * 2
    assert training.calls == 0 and charged(owner) == ["run/1", "retired"]


@pytest.mark.parametrize("keep", [0, 2])
def test_a_training_whose_folder_is_moved_and_retired_there_sends_nothing(owner, keep):
    owner = replace(owner, keep=keep)

    def train():
        owner.ledger.parent.rename(owner.ledger.parent.with_name(f"{owner.ledger.parent.name}-moved-{keep}"))
        return Training()()

    assert refused(owner, train).reason == "failed"


@pytest.mark.parametrize("keep", [0, 2])
@pytest.mark.parametrize("fails", [False, True])
def test_a_training_that_goes_on_while_its_ledger_is_retired_sends_nothing(owner, keep, fails):
    owner = replace(owner, keep=keep)

    def training():
        retire_for_ever(SqliteLedger(owner.ledger), owner.name)
        if fails:
            raise ValueError("patient 17")
        return MODEL, {}

    assert refused(owner, training).reason == "failed"
    assert refused(owner).reason == "exhausted"
    assert charged(owner) == ["run/1", "retired"]


@pytest.mark.parametrize("keep", [0, 2])
def test_a_lost_ledger_is_missed(owner, keep):
    kept = replace(owner, keep=keep)
    ask(kept)
    owner.ledger.unlink()
    assert refused(kept, round=2).reason == "unready"


def test_a_ledger_of_two_names_is_of_no_use_to_either(owner):
    ask(owner)
    SqliteLedger(owner.ledger).reserve("another", "run/1", owner.schedule)
    for name in ("clinic", "another"):
        assert refused(replace(owner, name=name), round=2).reason == "unready"


def test_the_same_data_under_another_name_is_refused(owner):
    ask(owner)
    assert refused(replace(owner, name="another")).reason == "unready"


def test_another_schedule_is_refused(owner):
    ask(owner)
    assert refused(replace(owner, schedule=FixedHorizon(80.0, 4)), round=2).reason == "unready"


def test_without_kept_replies_a_repetition_is_refused(owner):
    silent = replace(owner, keep=0)
    ask(silent)
    assert refused(silent).reason == "repeated"


def test_only_the_last_replies_are_kept(owner):
    for number in (1, 2, 3):
        ask(owner, round=number)
    assert refused(owner, round=1).reason == "repeated"
    assert ask(owner, round=2).replayed


def half_written(owner) -> list[Path]:
    return list(owner.ledger.with_name("ledger.db-replies").glob(".*"))


def test_a_reply_that_cannot_be_kept_does_not_leave(owner):
    answer = refused(owner, Training(during=lambda: [path.unlink() for path in half_written(owner)]))
    assert (answer.reason, answer.releases) == ("failed", 1)
    assert refused(owner).reason == "repeated"
    assert charged(owner) == ["run/1"]


def test_the_room_for_a_reply_is_taken_before_training_and_given_back(owner):
    """A log that grew by one page, because training failed, made the reply fail too: 20 times right of 20."""
    room, model = [], {"w": np.zeros(50_000)}
    reply = ask(owner, lambda: (room.extend(p.stat() for p in half_written(owner)), model)[1:] * 2, model=model)
    [kept] = owner.ledger.with_name("ledger.db-replies").glob("*.reply")
    assert reply.releases == 1
    [taken] = room
    assert taken.st_blocks * 512 >= taken.st_size > kept.stat().st_size > 400_000
    assert taken.st_mode & 0o077 == kept.stat().st_mode & 0o077 == 0
    assert half_written(owner) == []


def test_without_kept_replies_no_room_is_taken(owner):
    silent, seen = replace(owner, keep=0), []
    ask(silent, Training(during=lambda: seen.extend(half_written(owner))))
    assert seen == half_written(owner) == []


def test_another_client_does_not_remove_what_one_is_filling(owner):
    seen = []

    def meanwhile():
        seen.append((ask(owner, round=2).releases, len(half_written(owner))))

    assert ask(owner, Training(during=meanwhile)).releases == 1
    assert seen == [(2, 1)]
    assert [ask(owner, round=number).replayed for number in (1, 2)] == [True, True]


def test_a_kept_reply_is_never_replaced(owner):
    folder, kept = owner.ledger.with_name("ledger.db-replies"), []

    def twice():
        # As a second process would that came back from the same training.
        with ReplyStore(folder, 2).place("clinic", "run/1", "asked", Reply(MODEL, {}, 0)) as place:
            place.keep(Reply(MODEL, {}, 1))
        kept.extend(path.read_bytes() for path in folder.glob("*.reply"))

    assert refused(owner, Training(during=twice)).reason == "failed"
    assert [path.read_bytes() for path in folder.glob("*.reply")] == kept != []


CLOSING = """
import os, sys
from pathlib import Path
import numpy as np
from pausefl.owner.gate import Gate
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import FixedHorizon, PrivUnit
owner = Owner(name="clinic", ledger=Path(sys.argv[1]), ledger_id=sys.argv[2], schedule=FixedHorizon(8.0, 4),
              mechanism=PrivUnit(l2=1.0))
model = {"w": np.zeros(5)}
for train in (lambda: os.closerange(3, 200), None):
    print(Gate(owner, "run").train(TrainingRequest("run", 1), model, train).replayed)
"""


def test_training_that_closes_every_descriptor_is_answered_like_any_other(owner):
    words = [sys.executable, "-c", CLOSING, owner.ledger, owner.ledger_id]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"


NO_ROOM = """
import resource, sys
from pathlib import Path
import numpy as np
from pausefl.owner.gate import Gate
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import FixedHorizon, PrivUnit
owner = Owner(name="clinic", ledger=Path(sys.argv[1]), ledger_id=sys.argv[2], schedule=FixedHorizon(8.0, 4),
              mechanism=PrivUnit(l2=1.0))
what, size, model = sys.argv[3], int(sys.argv[4]), {"w": np.zeros(500_000, dtype=np.float32)}
if what == "memory":
    size += 4096 * int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit({"memory": resource.RLIMIT_AS, "disk": resource.RLIMIT_FSIZE}[what], (size, size))
held = []
def train():
    print("trains", flush=True)
    while what == "memory":
        held.append(np.ones(2**17))  # until there is no more
    return model, {}
try:
    print(Gate(owner, "run").train(TrainingRequest("run", 1), model, train).releases)
except Exception as error:
    held.clear()
    print(error.reason)
"""


def where_there_is_little(owner, what, size) -> str:
    words = [sys.executable, "-c", NO_ROOM, owner.ledger, owner.ledger_id, what, str(size)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_full_disk_shows_before_it_costs_anything(owner):
    assert where_there_is_little(owner, "disk", 1_000_000) == "unready\n"
    assert charged(owner) == half_written(owner) == []
    assert where_there_is_little(owner, "disk", 3_000_000) == "trains\n1\n"


def test_a_repeat_costs_nothing_and_tells_nothing_of_the_room_that_is_left(owner, monkeypatch):
    """By models of many sizes under a name that was charged, a server counted the failed records of a log: 12 of 12."""
    reply = ask(owner)

    def none(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(ReplyStore, "place", none)
    monkeypatch.setattr(gate_module, "_touched", none)
    assert same(ask(owner), reply)
    for size in (1, 1000, 100_000):
        assert refused(owner, model={"w": np.zeros(size)}).reason == "repeated"
    assert refused(owner, round=2).reason == "unready"
    assert len(charged(owner)) == 1


def test_training_that_takes_all_memory_is_answered_like_any_other(owner):
    """Memory that training holds on to made the release fail: 20 times right of 20."""
    assert where_there_is_little(owner, "memory", 100_000_000) == "unready\n"
    assert charged(owner) == []
    assert where_there_is_little(owner, "memory", 400_000_000) == "trains\n1\n"


@pytest.mark.parametrize(
    "mechanism", [PrivUnit(l2=1.0, norm="private"), Gaussian(l2=1.0, delta=1e-6), Laplace(unit="update", l1=1.0)]
)
def test_training_that_keeps_all_descriptors_open_is_answered_like_any_other(owner, mechanism):
    """A file left open for each patient made it impossible to open the reply's: 20 times right of 20."""
    limit, held = resource.getrlimit(resource.RLIMIT_NOFILE), [os.open(os.devnull, os.O_RDONLY)]

    def all_of_them():
        while True:
            held.append(os.dup(held[0]))

    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 40, limit[1]))
    try:
        reply = ask(replace(owner, mechanism=mechanism), Training(during=all_of_them))
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert (reply.releases, len(held) > 10) == (1, True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_by_the_coordinate_one_that_diverged_changes_no_other(owner, bad):
    """One infinity made all numbers of an update 0: told from the others, 40 times right of 40 at epsilon 1 for each.

    The mean of 999 numbers with noise of scale 0.25 is off by more than 0.1 less than once in 10^15 runs.
    """
    mechanism = Laplace(unit="coordinate", width=0.5)
    trained = np.full(1000, 0.25)
    trained[0] = bad
    reply = ask(replace(owner, mechanism=mechanism), lambda: ({"w": trained}, {}), model={"w": np.zeros(1000)})
    assert reply.arrays["w"][1:].mean() == pytest.approx(0.25, abs=0.1)
    assert np.isfinite(reply.arrays["w"]).all()


def means(owner, **more) -> Owner:
    """Terms on which an app hands over the mean of contributions that it has clipped."""
    mechanism = Gaussian(l2=1.0, delta=1e-5, unit="record")
    return replace(owner, mechanism=mechanism, clipped_by="app", examples=50, **more)


def moved(reply) -> np.ndarray:
    return np.concatenate([(reply.arrays[name] - tensor).ravel() for name, tensor in MODEL.items()])


def test_a_mean_that_the_app_has_clipped_is_bounded_as_a_whole(owner):
    """At an epsilon of a million there is hardly any noise; an app that hands over rows, or infinity, has failed."""
    loud = means(owner, schedule=FixedHorizon(4e6, 8))
    small = Training({name: tensor + np.float32(0.01) for name, tensor in MODEL.items()})
    np.testing.assert_allclose(moved(ask(loud, small)), 0.01, atol=0.001)
    np.testing.assert_allclose(moved(ask(loud, round=2)), 1.0 / np.sqrt(15), atol=0.001)
    np.testing.assert_allclose(moved(ask(loud, round=3, clip=0.1)), 0.1 / np.sqrt(15), atol=0.001)
    rows = Training({name: np.ones((50, *tensor.shape)) for name, tensor in MODEL.items()})
    far = Training({name: tensor + np.float32(np.inf) for name, tensor in MODEL.items()})
    for number, training in enumerate((rows, far), 4):
        np.testing.assert_allclose(moved(ask(loud, training, round=number)), 0.0, atol=0.001)


def test_a_mean_has_the_noise_of_one_replaced_record(owner):
    many = means(owner, schedule=FixedHorizon(4.0, 40))
    seen = np.concatenate([moved(ask(many, Training(MODEL), round=number)) for number in range(1, 41)])
    charge = SqliteLedger(owner.ledger).charges("clinic")[0]
    expected = many.mechanism.sigma(alone_epsilon(charge, many.mechanism)) / 50.0
    # Of 600 normal numbers the standard deviation is off by a fifth once in 10^11.
    assert float(seen.std()) == pytest.approx(expected, rel=0.2)


def test_other_messages_are_answered_only_in_a_simulation_that_allows_them(owner, simulation):
    training = Training()
    for one, kind in ((owner, "evaluate"), (simulation, "query")):
        with pytest.raises(Refused) as caught:
            measured(one, kind, training)
        assert (caught.value.reason, training.calls) == ("not-allowed", 0)
    told = {"num-examples": 3, "loss": 0.5, "accuracy": 0.9, "seconds": 1.0}
    assert measured(simulation, "evaluate", lambda: told) == {"num-examples": 3, "loss": 0.5}
    odd = {"loss": float("nan"), "num-examples": True}
    assert measured(simulation, "evaluate", lambda: odd) == {"num-examples": 1}


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_an_evaluation_that_fails_looks_like_one_with_nothing_to_tell(simulation, error):
    """It was told apart 60 times of 60, uncharged, while nothing was allowed out."""
    assert measured(simulation, "evaluate", failing(error("SECRET"))) == measured(simulation, "evaluate", dict)


def test_terms_of_a_deployment_let_no_number_of_the_app_out(owner):
    for more in ({"allow": frozenset(["num-examples"])}, {"messages": frozenset(["evaluate"])}):
        with pytest.raises(ConfigError, match="simulations only"):
            replace(owner, **more)


def test_every_reason_has_its_sentence_and_the_detail_is_not_in_it(owner):
    answer = refused(owner, model={"SECRET": np.array([1])})
    assert "SECRET" in str(answer)
    assert not any("SECRET" in sentence for sentence in SENTENCES.values())
    assert answer.reason in SENTENCES


def test_many_threads_with_one_request_are_charged_once(owner):
    def one(_):
        try:
            return ask(owner)
        except Refused as why:
            return why.reason

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    replies = [answer for answer in answers if not isinstance(answer, str)]
    assert {answer for answer in answers if isinstance(answer, str)} <= {"repeated"}
    assert replies
    assert all(same(replies[0], reply) for reply in replies)
    assert charged(owner) == ["run/1"]


def test_many_threads_never_get_more_than_the_budget(owner):
    def one(number):
        try:
            return ask(owner, round=number + 1).releases
        except Refused as why:
            return why.reason

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(12)))
    assert sorted(answer for answer in answers if answer != "exhausted") == [1, 2, 3, 4]
    assert len(charged(owner)) == 4


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from pausefl.owner.gate import Gate
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import FixedHorizon, PrivUnit
owner = Owner(name="clinic", ledger=Path(sys.argv[1]), ledger_id=sys.argv[2], schedule=FixedHorizon(8.0, 4),
              mechanism=PrivUnit(l2=1.0))
model = {"w": np.ones(5)}
Gate(owner, "run").train(TrainingRequest("run", 1), model, lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_killed_between_charge_and_reply_it_stays_charged_and_nothing_leaves_under_that_name(owner):
    words = [sys.executable, "-c", KILLED, owner.ledger, owner.ledger_id]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert charged(owner) == ["run/1"]
    training = Training()
    assert refused(owner, training, model={"w": np.ones(5)}).reason == "repeated"
    assert training.calls == 0
    assert ask(owner, round=2).releases == 2


def test_the_gate_knows_no_framework():
    code = "import sys, pausefl.owner.gate; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert not {"flwr", "torch", "ray", "pausefl.selector", "pausefl.flower"} & set(done.stdout.split())


_PEAKS = """
import resource, sys
from pathlib import Path
import numpy as np
from pausefl.owner.gate import Gate
from pausefl.owner.ledger_identity import make_ledger, retire_for_ever
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import FixedHorizon, Gaussian, Laplace, PrivUnit

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

fails, mechanism = sys.argv[2] == "fails", eval(sys.argv[3])
state = 1 << 25 if sys.argv[2] == "keeps a state" else 0
ledger = make_ledger(Path(sys.argv[1]) / "ledger.db")
records = 5000 if mechanism.guarantee.unit == "record" else 1
one_by_one = sys.argv[2].endswith("one by one")
owner = Owner(
    name="a", ledger=ledger.path, ledger_id=ledger.id, schedule=FixedHorizon(8.0, 4), mechanism=mechanism,
    examples=records, records=Path(sys.argv[1], "data") if one_by_one else None,
)
model = {"w": np.zeros(int(sys.argv[4]), dtype=np.float32)}

def each():
    for number in range(records):
        yield {"w": np.full(len(model["w"]), number, np.float32)} if number % 2 else None

def train():
    global before
    if one_by_one:
        before = peak()
        return each(), {}
    rows = np.ones((records, len(model["w"])), dtype=np.float32)
    before = peak()
    if fails:
        raise ValueError
    np.ones(state, dtype=np.uint8)
    if records > 1:
        return {"w": rows}, {}
    return {"w": model["w"] + np.float32(1.0)}, {}

Gate(owner, "run").train(TrainingRequest("run", 1), model, train, more_memory=state)
print(before, peak())
"""


@pytest.mark.parametrize(
    "mechanism", ["PrivUnit(l2=1.0)", "Laplace(unit='coordinate', width=0.01)", "Gaussian(l2=1.0, delta=1e-6)"]
)
@pytest.mark.parametrize(
    ("training", "dimension"),
    [("works", 60_000), ("fails", 60_000), ("keeps a state", 9), pytest.param("works", 9, marks=pytest.mark.thorough)],
)
def test_no_more_memory_is_needed_after_the_charge_than_before_it(
    tmp_path: Path, mechanism: str, training: str, dimension: int
) -> None:  # fmt: skip
    said = subprocess.run(
        [sys.executable, "-c", _PEAKS, str(tmp_path), training, mechanism, str(dimension)],
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(float, said.stdout.split())
    assert after <= before + 1.0  # MiB


@pytest.mark.parametrize("training", ["works", "fails", "one by one"])
def test_no_more_memory_is_needed_after_the_charge_where_records_are_protected(tmp_path: Path, training: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _PEAKS, str(tmp_path), training, "Gaussian(l2=1.0, delta=1e-6, unit='record')", "2410"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = map(float, said.stdout.split())
    assert after <= before + 1.0  # MiB


def test_a_name_that_a_server_chose_is_cut_in_the_log(owner):
    """With a long one, a server could show the owner whatever it likes in place of the rest of the line."""
    forged = "pausefl: charged release 1 of 'a', asked for as 'run/1'" + " " * 5000
    why = refused(owner, Training(), model={forged: np.full(3, np.nan)})
    assert len(str(why)) < 400 and "must be finite" in str(why)


def test_the_memory_to_take_over_what_training_returns_grows_with_the_number_of_tensors(owner, monkeypatch):
    """What frameworks and numpy need for a tensor besides its numbers: much, if there are a hundred thousand."""
    held, touched = [], gate_module._touched
    monkeypatch.setattr(gate_module, "_touched", lambda size: held.append(size) or touched(size))
    for number, count in ((1, 1), (2, 1001)):
        ask(owner, round=number, model={f"w{n}": np.ones(1, dtype=np.float32) for n in range(count)})
    assert held[2] - held[0] >= 1000 * 2000


@pytest.mark.parametrize("fails", [True, False])
def test_a_reply_is_made_after_the_hold_whether_or_not_training_failed(owner, fails):
    """And a hold that is stopped by a signal shows as little as training that is stopped by one."""
    model, seen = {"w": np.ones(5)}, []

    def train():
        seen.append("trained")
        if fails:
            raise ValueError
        return {"w": np.zeros(5)}, {}

    def hold():
        seen.append("held")

    def stopped():
        raise SystemExit

    first = Gate(owner, "run").train(TrainingRequest("run", 1), model, train, hold=hold)
    second = Gate(owner, "run").train(TrainingRequest("run", 2), model, train, hold=stopped)
    assert seen == ["trained", "held", "trained"]
    again = Gate(owner, "run").train(TrainingRequest("run", 2), model, train)
    assert (first.replayed, second.replayed, again.replayed) == (False, False, True)
    assert np.array_equal(again.arrays["w"], second.arrays["w"])
