"""Large pieces of memory are given back: else it shows for as long as a process lives that one record was long."""

import subprocess
import sys
from pathlib import Path

import pytest

from pausefl.flower.node import executor

CODE = """
import sys
from pathlib import Path
import numpy as np
from pausefl.owner.data_records import DataRecords
from pausefl.system.freed_memory import give_back_freed_memory

def held():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1])

if sys.argv[2] == "back":
    give_back_freed_memory()
with DataRecords(Path(sys.argv[1])) as records:
    for megabytes in (8, 30):
        np.ones(megabytes << 17).sum()  # a large model, freed: the C library raises its limits
    before = held()
    between = [bytes(1000) for _ in range(100)]
    for number in range(len(records)):
        records.read(number)
        between.append(bytes(1000))
    print(held() - before)
"""


@pytest.mark.parametrize(("how", "most"), [("back", 1500), ("as it is", None)])
def test_what_a_long_record_took_is_there_for_the_next_ones(tmp_path: Path, how: str, most: int | None) -> None:
    path = tmp_path / "records.txt"
    path.write_bytes(b"".join(b"1" * (size << 20) + b"\n" for size in (1, 24, 3, 50, 1)))
    words = [sys.executable, "-c", CODE, str(path), how]
    kept = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert kept < most if most else kept > 1500


class _EndedError(Exception):
    pass


def test_a_task_gives_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []

    def begin() -> None:
        raise _EndedError

    monkeypatch.setattr(executor, "give_back_freed_memory", lambda: done.append(1))
    monkeypatch.setattr(executor, "_begin", begin)
    with pytest.raises(_EndedError):
        executor.run_task("{}", "{}")
    assert done == [1]
