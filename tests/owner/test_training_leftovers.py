"""What training leaves behind in its process does not show, and a second process never answers."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.owner.training_leftovers import run_and_undo

HANDLERS = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGPROF, signal.SIGUSR1)


def late(*_: object) -> None:
    raise TimeoutError("training took too long")


def found() -> Any:
    limits = [resource.getrlimit(what) for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)]
    timers = [signal.getitimer(timer)[0] for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF)]
    return limits, timers, [signal.getsignal(number) for number in HANDLERS]


def vandal() -> None:
    for number in HANDLERS:
        signal.signal(number, late)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 100.0)
    for what, most in ((resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_FSIZE, 200), (resource.RLIMIT_CPU, 9_999)):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


@pytest.mark.parametrize("fails", [False, True])
def test_a_lowered_limit_on_recursion_is_as_before(fails: bool) -> None:
    """It stopped the release after a training that worked, and a training that failed had not come that far."""
    usual = sys.getrecursionlimit()

    def train() -> None:
        for lowest in range(1, usual):
            with suppress(RecursionError):  # Python refuses one that is reached already
                sys.setrecursionlimit(lowest)
                break
        if fails:
            raise ValueError

    try:
        with suppress(ValueError):
            run_and_undo(train)
        found = sys.getrecursionlimit()
    finally:
        sys.setrecursionlimit(usual)
    assert found == usual


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
@pytest.mark.parametrize("fails", [False, True])
def test_timers_handlers_and_limits_are_as_before(fails: bool) -> None:
    def train() -> int:
        vandal()
        if fails:
            raise ValueError
        return 7

    before = found()
    if fails:
        with pytest.raises(ValueError):
            run_and_undo(train)
    else:
        assert run_and_undo(train) == 7
    assert found() == before


def test_a_timer_that_was_there_before_goes_on() -> None:
    signal.setitimer(signal.ITIMER_PROF, 1000.0)
    try:
        run_and_undo(lambda: None)
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 0.0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def test_training_in_another_thread_works_too() -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(run_and_undo(lambda: 7)))
    thread.start()
    thread.join()
    assert seen == [7]


@pytest.mark.parametrize("comes_back", ["returning", "raising"])
def test_a_child_that_comes_back_from_training_ends_there(tmp_path: Path, comes_back: str) -> None:
    """It drew other noise under the same charge, and replaced the reply that was kept."""
    parent, children = os.getpid(), []

    def train() -> None:
        child = os.fork()
        if child:
            children.append(child)
        elif comes_back == "raising":
            raise RuntimeError("a worker that was not stopped")

    try:
        run_and_undo(train)
    finally:
        if os.getpid() != parent:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_the_processor_rounds_as_before(fails: bool) -> None:
    """torch can make it take the smallest floats for 0; a wish of such a size would then fail after training."""
    torch = pytest.importorskip("torch")
    smallest = np.array([5e-324])

    def train() -> None:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot")
        assert not (smallest > 0.0).any()
        if fails:
            raise ValueError

    with suppress(ValueError):
        run_and_undo(train)
    assert (smallest > 0.0).all()


def test_a_watchdog_that_would_end_the_process_is_called_off() -> None:
    code = "\n".join([
        "import faulthandler, time",
        "from pausefl.owner.training_leftovers import run_and_undo",
        "run_and_undo(lambda: faulthandler.dump_traceback_later(0.3, exit=True))",
        "time.sleep(1.0)",
    ])  # fmt: skip
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["clip", "epsilon"])
def test_a_wish_for_the_smallest_of_floats_is_refused(name: str) -> None:
    """Before anything is charged: after training it could count as 0."""
    with pytest.raises(InvalidValueError, match=f"{name} is 5e-324, but must be a finite number from 1e-30"):
        TrainingRequest("run", 1, **{name: 5e-324})


def test_numpy_rounds_without_an_error_again() -> None:
    """Where the mod calls the app for one record after the other, a later one would fail where it rounds."""
    before = np.geterr()
    run_and_undo(lambda: np.seterr(all="raise"))
    assert np.geterr() == before
