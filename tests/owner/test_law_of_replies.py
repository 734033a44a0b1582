"""For a given request, ledger and kept replies, all of a reply but its noised arrays is the same."""

from __future__ import annotations

import logging
import pickle
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from pausefl.owner.gate import Gate
from pausefl.owner.kept_replies import replies_folder
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import Refused, Reply, TrainingRequest
from pausefl.privacy import FixedHorizon, Gaussian, Laplace, Mechanism, PrivUnit

MODEL = {"w": np.linspace(-1.0, 1.0, 12).reshape(4, 3).astype(np.float32), "b": np.zeros(3)}
MECHANISMS: tuple[Mechanism, ...] = (
    PrivUnit(l2=1.0),
    PrivUnit(l2=1.0, norm="private"),
    Gaussian(l2=1.0, delta=1e-6),
    Laplace(unit="coordinate", width=0.5),
    Laplace(unit="update", l1=1.0),
)


def owner_in(folder: Path, mechanism: Mechanism = MECHANISMS[0], releases: int = 4) -> Owner:
    folder.mkdir()
    ledger = make_ledger(folder / "ledger.db")
    return Owner(
        name="clinic", ledger=ledger.path, ledger_id=ledger.id, schedule=FixedHorizon(2.0 * releases, releases),
        mechanism=mechanism, examples=7,
    )  # fmt: skip


def all_but_noise(reply: Reply) -> Any:
    """Return everything in a reply, with zeros in place of the noised numbers; also the size of all of it."""
    blank = {name: np.zeros_like(tensor) for name, tensor in reply.arrays.items()}
    described = [(name, t.dtype.str, t.shape, type(t), t.flags.c_contiguous) for name, t in reply.arrays.items()]
    numbers = [(name, value, type(value)) for name, value in reply.numbers.items()]
    size = len(pickle.dumps((blank, dict(reply.numbers), reply.releases, reply.seconds, reply.replayed, reply.level)))
    return described, numbers, reply.releases, reply.seconds, reply.replayed, reply.level, size


def asked(owner: Owner, train: Any, number: int = 1) -> Reply:
    return Gate(owner, "run").train(TrainingRequest("run", number), MODEL, train)


def fine(**more: Any) -> Any:
    return {name: tensor + 1 for name, tensor in MODEL.items()} | more, {"num-examples": 17, "loss": 0.25}


def raising(error: BaseException) -> Any:
    def train() -> Any:
        raise error

    return train


def strict_numpy() -> Any:
    """An app that makes numpy raise on every rounding to zero, and an update in which clipping rounds to zero."""
    np.seterr(all="raise")
    return fine(b=MODEL["b"] + np.array([1e300, 1e-300, 1e-310]))


def written_in_place() -> Any:
    tensors, numbers = fine()
    tensors["w"].setflags(write=False)
    return {"b": tensors["b"], "w": np.asfortranarray(tensors["w"])}, numbers


def alarm(error: type[BaseException]) -> Any:
    """A time limit that is not switched off, because training raised first."""

    def late(*_: object) -> None:
        raise error("SECRET")

    def train() -> Any:
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        raise ValueError("SECRET")

    return train


def small_files() -> Any:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return fine()


class UnprintableError(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise ValueError("SECRET")


APPS: dict[str, Any] = {
    "fine": fine,
    "unchanged": lambda: (MODEL, {}),
    "huge": lambda: fine(b=np.full(3, 1e308)),
    "tiny": lambda: fine(b=np.full(3, 5e-324)),
    "other order": written_in_place,
    "no numbers": lambda: (fine()[0], {}),
    "no examples": lambda: (fine()[0], {"num-examples": 0}),
    "negative examples": lambda: (fine()[0], {"num-examples": -5}),
    "other examples": lambda: (fine()[0], {"num-examples": 10**30}),
    "extra numbers": lambda: (fine()[0], {f"SECRET-{n}": float(n) for n in range(1000)}),
    "huge numbers": lambda: (fine()[0], {"num-examples": 10**400, "loss": [1.0] * 100_000}),
    "strange numbers": lambda: (fine()[0], {"num-examples": "SECRET", 3: None}),
    "numbers that are none": lambda: (fine()[0], "SECRET"),
    "nan": lambda: fine(b=np.full(3, np.nan)),
    "infinity": lambda: fine(b=np.full(3, np.inf)),
    "overflow": lambda: fine(b=np.full(3, np.finfo(np.float64).max)),
    "shape": lambda: fine(b=np.zeros(4)),
    "scalar": lambda: fine(b=np.array(1.0)),
    "integers": lambda: fine(b=np.zeros(3, dtype=np.int64)),
    "half": lambda: fine(b=np.zeros(3, dtype=np.float16)),
    "complex": lambda: fine(b=np.zeros(3, dtype=np.complex128)),
    "text": lambda: fine(b=np.array(["a", "b", "c"])),
    "objects": lambda: fine(b=np.array([None] * 3)),
    "list": lambda: fine(b=[1.0, 2.0, 3.0]),
    "missing": lambda: ({"w": MODEL["w"]}, {}),
    "extra": lambda: fine(SECRET=np.ones(3)),
    "renamed": lambda: ({"w": MODEL["w"], "SECRET": MODEL["b"]}, {}),
    "nothing": lambda: None,
    "one thing": lambda: (fine()[0],),
    "numpy raises": strict_numpy,
    "alarm": alarm(TimeoutError),
    "interrupting alarm": alarm(KeyboardInterrupt),
    "small files": small_files,
    "refusal": raising(Refused("exhausted", "SECRET", 99)),
    **{
        kind.__name__: raising(kind("SECRET"))
        for kind in (
            ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError, StopIteration,
            FloatingPointError, OSError, UnprintableError, BaseException,
        )
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with np.errstate():
        yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@pytest.mark.parametrize("app", APPS)
def test_whatever_the_app_does_all_but_the_noise_is_the_same(tmp_path: Path, app: str) -> None:
    usual, other = owner_in(tmp_path / "usual"), owner_in(tmp_path / "other")
    for number in (1, 2):  # also the next one, after a failure
        expected, found = asked(usual, fine, number), asked(other, APPS[app], number)
        assert all_but_noise(found) == all_but_noise(expected)
        assert all(np.isfinite(tensor).all() for tensor in found.arrays.values())
    assert all_but_noise(asked(other, APPS[app])) == all_but_noise(asked(usual, fine))  # sent again
    kept = [sorted((p.name, p.stat().st_size) for p in replies_folder(o.ledger).glob("*")) for o in (usual, other)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_under_every_mechanism_a_failure_is_an_unchanged_model_and_its_noise(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    usual, other = owner_in(tmp_path / "usual", mechanism), owner_in(tmp_path / "other", mechanism)
    assert all_but_noise(asked(other, raising(ValueError()))) == all_but_noise(asked(usual, fine))


NUMBERS = st.dictionaries(
    st.one_of(st.just("num-examples"), st.just("loss"), st.text()),
    st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.booleans()),
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(w=arrays_of.arrays(np.float32, (4, 3)), b=arrays_of.arrays(np.float64, (3,)), numbers=NUMBERS)
def test_whatever_the_data_all_but_the_noise_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, w: Any, b: Any, numbers: Any
) -> None:
    owner = owner_in(tmp_path_factory.mktemp("any") / "owner")
    reply = asked(owner, lambda: ({"w": w, "b": b}, numbers))
    level = owner.mechanism.noise_level(15, owner.schedule.epsilon(1))
    assert all_but_noise(reply) == (
        [("w", "<f4", (4, 3), np.ndarray, True), ("b", "<f8", (3,), np.ndarray, True)],
        [("num-examples", 7, int)], 1, None, False, level,
        all_but_noise(Reply(MODEL, {"num-examples": 7}, 1, level=level))[-1],
    )  # fmt: skip


def test_a_membership_that_overflows_training_is_guessed_no_better_than_by_chance(tmp_path: Path) -> None:
    """A model that overflows if one given record is there was right 40 times of 40, at any epsilon.

    The attacker sees everything but the arrays.  What it sees is constant, so any guess is right for one of the two.
    """
    owner = owner_in(tmp_path / "owner", releases=40)
    member = np.random.default_rng(3).random(40) < 0.5
    seen = {False: set(), True: set()}
    for number, present in enumerate(member.tolist(), start=1):
        app = APPS["overflow"] if present else fine
        described, numbers, _, seconds, replayed, level, _ = all_but_noise(asked(owner, app, number))
        seen[present].add((str(described), str(numbers), seconds, replayed, level))
    assert len(seen[True] | seen[False]) == 1


def test_a_log_that_fails_does_not_show_either(tmp_path: Path) -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("SECRET")

    log = logging.Logger("full")
    log.addHandler(Full())
    expected = asked(owner_in(tmp_path / "usual"), fine)
    found = Gate(owner_in(tmp_path / "other"), "run", log).train(
        TrainingRequest("run", 1), MODEL, raising(ValueError("SECRET"))
    )
    assert all_but_noise(found) == all_but_noise(expected)


def test_why_training_failed_is_told_to_the_log_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        reply = asked(owner_in(tmp_path / "owner"), raising(ValueError("SECRET")))
    assert "SECRET" in caplog.text
    assert "SECRET" not in repr(reply)
