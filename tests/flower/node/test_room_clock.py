"""The clock of a room: the time of day counts questions, and tells nothing of the machine."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

from pausefl.flower.node import room_clock

COUNTED = pytest.mark.skipif(platform.machine() != "x86_64", reason="the clock is counted on x86_64 only")

ASKED = """
import ctypes, datetime, json, os, time
from pausefl.flower.node.room_clock import count_time_of_day

real, begun = time.time(), {clock: time.clock_gettime(clock) for clock in (1, 4, 6, 7)}
fine, found = count_time_of_day(time.time_ns() // 1_000_000), []
libc, pair = ctypes.CDLL(None), (ctypes.c_long * 2)()
libc.time.restype = ctypes.c_long
time.sleep(0.3)
found.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
found.append(time.clock_gettime_ns(5))
found.append(time.clock_gettime_ns(11))
libc.gettimeofday(pair, None)
found.append(pair[0] * 10**9 + pair[1] * 1000)
found.append(round(datetime.datetime.now().timestamp() * 1000) * 10**6)
whole = libc.time(None), libc.time(pair), pair[0]
libc.gettimeofday(None, None)
child, steps = os.fork(), [after - before for before, after in zip(found, found[1:])]
seen = time.time_ns()
if child:
    os.waitpid(child, 0)
    others = [time.clock_gettime(clock) - before for clock, before in begun.items()]
    print(json.dumps([fine, found[0] / 1e9 - real, steps, whole, others, seen]))
else:
    os.write(2, str(seen).encode())
    os._exit(0)
"""


@COUNTED
def test_the_time_of_day_goes_on_with_each_question_and_other_clocks_run_on() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    fine, ahead, steps, whole, others, seen = json.loads(done.stdout)
    assert fine and abs(ahead) < 0.2 and steps == [1_000_000] * 4
    assert whole[0] in (whole[1], whole[1] - 1) and whole[1] == whole[2]
    assert all(0.2 < other < 60.0 for other in others)
    assert int(done.stderr) == seen  # a process that is forked goes on from the same time


def test_where_the_vdso_cannot_be_changed_the_clock_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(room_clock, "_protect", refused)
    assert not room_clock.count_time_of_day(0) and not room_clock.counts_time_of_day()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not room_clock.count_time_of_day(0)
