"""Limits of the machine that an app shares with its node: what is too low is refused, or named."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from pausefl.errors import ConfigError, PauseError
from pausefl.flower.node import shared_limits as module
from pausefl.flower.node.box import Box
from pausefl.flower.node.enter_box import MOST_PROCESSES
from pausefl.flower.node.shared_limits import check_shared_limits, shared_limits


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)


def machine(folder: Path, **numbers: int | str) -> dict[str, Path]:
    """Files as the kernel has them."""
    proc, groups = folder / "proc", folder / "cgroup"
    (proc / "sys/fs").mkdir(parents=True)
    (proc / "self").mkdir()
    (proc / "sys/vm").mkdir()
    (proc / "sys/vm/overcommit_memory").write_text(f"{numbers.get('overcommit', 0)}\n")
    (proc / "sys/fs/file-max").write_text(f"{numbers.get('files', 2**63 - 1)}\n")
    (proc / "sys/fs/pipe-user-pages-hard").write_text(f"{numbers.get('pipes', 0)}\n")
    (proc / "self/cgroup").write_text("1:cpu:/x\n0::/system.slice/clinic.service\n")
    (groups / "system.slice/clinic.service").mkdir(parents=True)
    (groups / "system.slice/clinic.service/pids.max").write_text("max\n")
    (groups / "system.slice/clinic.service/pids.current").write_text("20\n")
    (groups / "system.slice/pids.max").write_text(f"{numbers.get('tasks', 100_000)}\n")
    (groups / "system.slice/pids.current").write_text("20\n")
    return {"proc": proc, "groups": groups}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({}, None), ({"files": 2465780}, "fs.file-max is 2465780"), ({"pipes": 64}, "fs.pipe-user-pages-hard is 64"),
        ({"tasks": 320}, "300 tasks are left"), ({"overcommit": 2}, "vm.overcommit_memory is 2"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("as_user")
def test_limits_that_an_app_can_use_up_are_named(tmp_path: Path, numbers: dict[str, int], said: str | None) -> None:
    found = shared_limits(Box(), **machine(tmp_path, **numbers))
    assert len(found) == (said is not None) and all(said in one for one in found if said)


def test_root_is_told_that_its_processes_are_not_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (told,) = shared_limits(Box(), **machine(tmp_path, files=10, pipes=10))
    assert "runs as root" in told and "--box-user" in told
    assert shared_limits(Box(closed=False)) == []


def test_a_user_of_the_box_that_has_other_processes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app could count them, and with 256 of them no box began: 3 of 3."""
    monkeypatch.setattr(module, "_tasks_of", lambda user: 7)
    box = Box()
    object.__setattr__(box, "user", "nobody")
    places = machine(tmp_path)
    (told,) = (one for one in shared_limits(box, **places) if "user nobody" in one)
    assert "has 7 processes already" in told and "a user for the box alone" in told
    monkeypatch.setattr(module, "_tasks_of", lambda user: 0)
    assert not [one for one in shared_limits(box, **places) if "user nobody" in one]


@pytest.mark.usefixtures("as_user")
def test_a_limit_on_processes_that_an_app_can_use_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_tasks_of", lambda user: 50)
    least = MOST_PROCESSES + 350
    for most in (resource.RLIM_INFINITY, least):
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (most, most))
        check_shared_limits(Box())
    monkeypatch.setattr(resource, "getrlimit", lambda _: (least - 1, least - 1))
    with pytest.raises(PauseError, match=rf"\(ulimit -u\) is {least - 1}, but must be at least {least}.*raise it"):
        check_shared_limits(Box())
    check_shared_limits(Box(closed=False))


@pytest.mark.parametrize("group", ["max", str(600 << 20)])
def test_a_supernode_has_half_of_the_memory(tmp_path: Path, group: str) -> None:
    """What it takes, the server chooses: an app that runs meanwhile must not lack it."""
    given = machine(tmp_path)
    (given["groups"] / "system.slice/memory.max").write_text(f"{group}\n")
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from pausefl.flower.node.shared_limits import limit_own_memory\n"
        "limit_own_memory(*map(Path, sys.argv[1:]))\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[1])\n"
        "try: bytearray(400 << 20); print('taken')\n"
        "except MemoryError: print('refused')\n"
    )
    told = subprocess.run([sys.executable, "-c", code, *map(str, given.values())], capture_output=True, text=True)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = whole // 2 if group == "max" else 300 << 20
    assert told.stdout.split() == [str(most), "taken" if group == "max" else "refused"], told


@pytest.mark.parametrize(("score", "fine"), [(-997, True), (0, True), (300, True), (301, False), (950, False)])
def test_a_node_that_would_be_ended_before_an_app_is_refused(tmp_path: Path, score: int, fine: bool) -> None:
    """The SuperNode was ended because of one record, which the server saw: 2 of 2."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/oom_score_adj").write_text(f"{score}\n")
    with (
        nullcontext() if fine else pytest.raises(PauseError, match=rf"is {score}, but must be at most 300.*OOMScoreAdj")
    ):
        check_shared_limits(Box(), tmp_path)
    check_shared_limits(Box(closed=False), tmp_path)


def test_where_there_are_rooms_a_supernode_leaves_memory_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that unpacked files drove the service to its limit, and all records counted as zeros: 8 of 8 right."""
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, most: limits.append(most))
    for whole, refused in ((16 << 30, False), (15 << 28, False), ((15 << 28) - 1, True)):
        monkeypatch.setattr(module, "memory_there", lambda *_, whole=whole: whole)
        module.limit_own_memory(rooms=True)
        room, gate, files = whole // 4, whole // 4, 512 << 20
        assert limits[-1][0] + room + gate + files + (1 << 30) <= whole
        with pytest.raises(ConfigError, match="must have 3840 MiB") if refused else nullcontext():
            module.check_memory_for_rooms()


@pytest.mark.parametrize(
    ("table", "place", "name"),
    [("0::/a/b", "a", "memory.max"), ("4:cpu,memory:/a/b\n0::/", "memory/a", "memory.limit_in_bytes")],
)
def test_the_memory_of_a_service_is_that_of_its_control_groups(
    tmp_path: Path, table: str, place: str, name: str
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(f"{table}\n")
    (tmp_path / "groups" / place / "b").mkdir(parents=True)
    whole = module.memory_there(tmp_path, tmp_path / "groups")
    (tmp_path / "groups" / place / "b" / name).write_text(f"{2**63 - 4096}\n")
    assert module.memory_there(tmp_path, tmp_path / "groups") == whole
    (tmp_path / "groups" / place / name).write_text(f"{600 << 20}\n")
    assert module.memory_there(tmp_path, tmp_path / "groups") == 600 << 20


def test_tasks_are_counted() -> None:
    assert module._tasks_of(Path("/proc/self").stat().st_uid) >= 1
