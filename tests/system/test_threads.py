"""Jobs are done once each, whatever becomes of the threads, and a fault in any of them is raised here."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from pausefl.system import threads
from pausefl.system.threads import run_jobs


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(threads, "core_count", lambda: 4)


def test_each_job_is_done_once_and_several_at_a_time():
    together, done = threading.Barrier(3), []

    def job(number):
        if number < 3:
            together.wait(60)  # passes only if three threads are in here at once
        done.append(number)

    run_jobs([lambda number=number: job(number) for number in range(50)], 0)
    assert sorted(done) == list(range(50))
    assert threading.active_count() == 1


@pytest.mark.parametrize("fault", [ValueError("no entropy"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("where", ["here", "in a helper"])
def test_a_fault_in_any_thread_is_raised_when_none_works_any_more(fault, where):
    here, together = threading.get_ident(), threading.Barrier(2)

    def job():
        together.wait(60)
        if (threading.get_ident() == here) == (where == "here"):
            raise fault

    with pytest.raises(type(fault)):
        run_jobs([job, job], 0)
    assert threading.active_count() == 1


def test_a_thread_that_ends_without_a_word_is_a_fault(monkeypatch):
    monkeypatch.setattr(threads, "deque", type("Forgetful", (threads.deque,), {"append": lambda *_: None}))
    with pytest.raises(RuntimeError, match="0 of 2 jobs"):
        run_jobs([lambda: None, lambda: None], 0)


def test_without_helpers_this_thread_does_it_all(monkeypatch):
    def cannot(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads.Thread, "start", cannot)
    seen = []
    run_jobs([lambda: seen.append(threading.get_ident())] * 9, 0)
    assert seen == [threading.get_ident()] * 9


LITTLE = """
import resource, threading
from pathlib import Path
from pausefl.system import threads
threads.core_count = lambda: 4
pages = int(Path("/proc/self/statm").read_text().split()[0])
size = 4096 * pages + 200_000_000
resource.setrlimit(resource.RLIMIT_AS, (size, size))
seen = set()
threads.run_jobs([lambda: seen.add(threading.get_ident())] * 9, 100_000_000)
print(len(seen))
"""


def test_threads_do_not_take_memory_that_the_jobs_need():
    """A process whose training has used up nearly all its memory must get on as if there were one core."""
    done = subprocess.run([sys.executable, "-c", LITTLE], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
