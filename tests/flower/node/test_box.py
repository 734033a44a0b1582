"""The box by itself: what a command in it can reach, and that nothing of it is left when it has ended."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pausefl.errors import ConfigError, InvalidValueError, PauseError
from pausefl.flower.node import enter_box
from pausefl.flower.node.box import Box, BoxError, code_folders, pack, unpack
from pausefl.flower.node.start import check_box

ACCOUNT = "nobody"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def run(code: str, box: Box, request: bytes = b"", limit: int = 1 << 20) -> bytes:
    return box.run([sys.executable, "-c", code], request, limit, lambda line: None)


def test_a_command_gets_its_input_and_its_output_comes_back() -> None:
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
    assert run(code, Box(), bytes(range(256)) * 1000) == (bytes(range(256)) * 1000)[::-1]


@pytest.mark.parametrize("closed", [True, False])
def test_the_environment_is_clean(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("PAUSEFL_OWNER", "x")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    known = json.loads(run("import json, os; print(json.dumps(dict(os.environ)))", Box(closed=closed)))
    assert ("TMPDIR" in known) is not closed  # in a box all of /tmp is its own
    assert set(known) - {"TMPDIR"} <= {
        "PATH", "HOME", "USER", "LOGNAME", "PYTHONPATH", "FLWR_TELEMETRY_ENABLED", "OMP_NUM_THREADS", "LC_CTYPE",
        "TORCH_DEVICE_BACKEND_AUTOLOAD",
        "LANG", "LC_ALL", "TZ", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    }  # fmt: skip
    assert known["OMP_NUM_THREADS"] == "1"


def test_data_folders_can_be_read_and_not_written_and_others_are_not_there(tmp_path: Path) -> None:
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.csv").write_text("1,2")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    box = Box(data=(tmp_path / "link",))
    assert run(f"print(open('{tmp_path}/link/x.csv').read())", box) == b"1,2\n"
    assert run(f"print(open('{tmp_path}/data/x.csv').read())", box) == b"1,2\n"
    assert run(f"import os; print(os.listdir('{tmp_path}'))", box) in (b"['data', 'link']\n", b"['link', 'data']\n")
    with pytest.raises(BoxError, match="status 1"):
        run(f"open('{tmp_path}/data/new', 'w')", box)


def test_the_folder_that_a_node_is_started_in_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for code there if it is started with -m, or with an empty entry in PYTHONPATH."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.syspath_prepend(tmp_path / name)
    monkeypatch.chdir(tmp_path / "here")
    assert str(tmp_path / "there") in code_folders() and str(tmp_path / "here") not in code_folders()
    assert str(tmp_path / "here") not in Box(hidden=(tmp_path / "here" / "owner",))._shown()


def test_what_is_written_is_gone_afterwards(tmp_path: Path) -> None:
    code = "import os; print(os.path.exists('/tmp/planted')); open('/tmp/planted', 'w').write('x')"
    assert run(code, Box()) == run(code, Box()) == b"False\n"
    assert not Path("/tmp/planted").exists()


def test_a_readable_folder_must_not_hold_a_hidden_one(tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    for data in (tmp_path, tmp_path / "link"):
        with pytest.raises(ConfigError, match="must stay hidden; move one of them"):
            Box(data=(data,), hidden=(tmp_path / "owner",))
    with pytest.raises(ConfigError, match="that folder must stay hidden; keep the data in another folder"):
        Box(data=(tmp_path / "owner",), hidden=(tmp_path / "owner",))
    with pytest.raises(ConfigError, match="must stay hidden"):
        Box(hidden=(Path(sys.prefix) / "owner",))
    with pytest.raises(PauseError, match="but must be a folder; it does not exist; make it"):
        Box(data=(tmp_path / "owner" / "data",))
    (tmp_path / "owner" / "data").mkdir()
    Box(data=(tmp_path / "owner" / "data",), hidden=(tmp_path / "owner",))  # the rest of the folder is not shown


def test_data_is_apart_from_what_every_app_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a rehearsal, in a box without data, would see it."""
    for name in ("code/data", "code/deep/er", "apart"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "code" / "data")
    monkeypatch.syspath_prepend(tmp_path / "code" / "deep")
    Box(data=(tmp_path / "link", tmp_path / "code" / "data", tmp_path / "apart"))
    monkeypatch.syspath_prepend(tmp_path / "code")
    for name in ("link", "code/data", "code", "code/deep/er", "."):
        with pytest.raises(ConfigError, match="which every app reads, are inside each other; move the data"):
            Box(data=(tmp_path / name,))
    for inside in (Path(sys.prefix), Path(sys.base_prefix).parent, Path("/usr/share")):
        with pytest.raises(ConfigError, match=r"are inside each other|has its own"):
            Box(data=(inside,))
    Box(data=(tmp_path / "apart",))


@pytest.mark.parametrize("data", ["/", "/tmp", "/proc", "/dev"])
def test_folders_that_the_box_has_itself_are_refused(data: str) -> None:
    with pytest.raises(ConfigError, match=r"the box has its own .*; move the files"):
        Box(data=(Path(data),))


@pytest.mark.parametrize(
    "wrong", [{"time_limit": 0}, {"time_limit": float("nan")}, {"memory": 0}, {"data": (Path("/nope"),)}]
)
def test_wrong_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        Box(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="for a closed box"):
        Box(memory=1 << 30, closed=False)


def left_behind(mark: str) -> list[str]:
    found = subprocess.run(["ps", "-e", "-ww", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if mark in line and "ps -e" not in line]


@pytest.mark.parametrize("end", ["raise SystemExit(0)", "import time; time.sleep(600)", "os.kill(os.getpid(), 9)"])
def test_nothing_is_left_behind(end: str) -> None:
    """Not even a process in a session of its own, that closed all it had."""
    mark = f"7{os.getpid()}"
    begin = f"import os, subprocess; subprocess.Popen(['setsid', 'sleep', '{mark}'], stdin=-3, stdout=-3, stderr=-3)\n"
    with suppress(BoxError):
        run(begin + end, Box(time_limit=2.0))
    assert left_behind(f"sleep {mark}") == []


@pytest.mark.parametrize("user", [None, pytest.param(ACCOUNT, marks=ROOT_ONLY)])
def test_the_box_ends_with_the_process_that_made_it(user: str | None) -> None:
    """However it ends: here by SIGKILL."""
    mark = f"8{os.getpid()}"
    outer = "from pausefl.flower.node.box import Box\n"
    outer += f"Box(user={user!r}).run(['/bin/sleep', '{mark}'], b'', 9, print)"

    def sleeping() -> bool:
        return any(line.startswith("/bin/sleep") for line in left_behind(f"sleep {mark}"))

    with subprocess.Popen([sys.executable, "-c", outer]) as process:
        while not sleeping():
            assert process.poll() is None
        process.kill()
    end = time.monotonic() + 30.0  # killed by the kernel, at a time of its own
    while sleeping() and time.monotonic() < end:
        pass
    assert not sleeping()


def test_there_are_limits_on_processes_and_no_dumps() -> None:
    """With 0 as its limit the kernel still hands a dump to a program of the machine, with 1 it does not: core(5)."""
    code = "from resource import *; print([getrlimit(one) for one in (RLIMIT_CORE, RLIMIT_NPROC)])"
    most = max(256, 16 * (os.cpu_count() or 1))
    core, processes = json.loads(run(code, Box()).replace(b"(", b"[").replace(b")", b"]"))
    assert set(core) <= {min(1, resource.getrlimit(resource.RLIMIT_CORE)[1] % (1 << 64))}
    assert 0 < processes[0] == processes[1] <= most


@pytest.mark.parametrize("user", [None, pytest.param(ACCOUNT, marks=ROOT_ONLY)])
def test_one_processor_is_left_to_the_rest_of_the_machine(user: str | None) -> None:
    """Else an app with many busy processes decides when the node gets one, to answer or to say that it is alive."""
    here = os.sched_getaffinity(0)
    code = f"""
import os
print(sorted(os.sched_getaffinity(0)))
try:
    os.sched_setaffinity(0, {here})
except PermissionError:
    print("bound")
"""
    mine = sorted(here)[1:]
    assert run(code, Box(spare_one=True, user=user)).decode() == (f"{mine}\nbound\n" if mine else f"{sorted(here)}\n")
    assert run(code, Box(user=user)).decode() == f"{sorted(here)}\n"


def test_a_flood_of_short_lines_does_not_make_a_long_log() -> None:
    """Each line of the log is longer than what was said, by a name, a colour and a time."""
    said: list[str] = []
    box = Box(closed=False)
    box.run([sys.executable, "-c", "import sys; sys.stderr.write('a\\n' * 2_000_000)"], b"", 1 << 20, said.append)
    assert said[:200] == ["a"] * 200 and len(said) == 201 and "only 200 lines" in said[-1]
    said.clear()
    box.run([sys.executable, "-c", "import sys; sys.stderr.write('a' * 2_000_000)"], b"", 1 << 20, said.append)
    assert len(said) == 1 and "(and more" in said[0]
    said.clear()
    box.run([sys.executable, "-c", "import sys; sys.stderr.write('one\\ntwo')"], b"", 1 << 20, said.append)
    assert said == ["one", "two"]


def test_a_limit_on_memory_holds() -> None:
    code = "x = bytearray(1 << 30); print('had it')"
    assert run(code, Box()) == b"had it\n"
    with pytest.raises(BoxError):
        run(code, Box(memory=1 << 29))


def test_a_closed_box_is_found_closed_and_an_open_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    check_box(Box(), [str(tmp_path / "ledger.db")])
    with pytest.raises(ConfigError, match=r"ledger\.db is in reach"):
        check_box(Box(closed=False), [str(tmp_path / "ledger.db")])
    with pytest.raises(ConfigError, match="the network is in reach"):
        check_box(Box(closed=False), [])


def test_a_machine_without_namespaces_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kernel's refusal, quoted, and what to do."""
    script = tmp_path / "enter_box.py"
    script.write_text(Path(enter_box.__file__).read_text().replace("_NEW_USER = 0x10000000", "_NEW_USER = 0x00000001"))
    monkeypatch.setattr(enter_box, "__file__", str(script))
    with pytest.raises(ConfigError, match=r"unshare: Invalid argument.*--box-user as root, or pass --no-box"):
        check_box(Box(), [])


@ROOT_ONLY
def test_the_command_runs_as_another_user_where_root_says_so() -> None:
    box = Box(user=ACCOUNT)
    check_box(box, ["/etc/shadow"])
    status = run("import os; print(os.getuid(), os.getgroups(), open('/proc/self/status').read())", box).decode()
    assert (
        not status.startswith("0 ") and "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status
    )
    for wrong in ("root", "nobody-knows"):
        with pytest.raises((InvalidValueError, ConfigError)):
            Box(user=wrong)


@ROOT_ONLY
def test_another_user_gets_into_the_box_of_an_administrator_with_a_strict_umask() -> None:
    before = os.umask(0o077)
    try:
        assert run("print(5)", Box(user=ACCOUNT)) == b"5\n"
    finally:
        os.umask(before)


@ROOT_ONLY
@pytest.mark.parametrize("blind", [False, True])
def test_a_user_without_rights_can_make_the_box(blind: bool) -> None:
    """As most owners will run it: by user namespaces; with the system's own Python, which every user can reach."""
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no system Python")
    shown = {path: os.path.realpath(path) for path in ("/usr", "/bin", "/lib", "/lib64") if Path(path).exists()}
    plan = {"parent": os.getpid(), "shown": shown, "command": ["/usr/bin/id", "-u"], "user": None, "memory": None}
    plan |= {"blind": blind, "spare_one": blind, "rooms": False}
    found = subprocess.run(
        [python, "-I", "-S", "-c", Path(enter_box.__file__).read_text(), json.dumps(plan)],
        user=ACCOUNT, group="nogroup", extra_groups=[], capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert (found.stdout.strip(), found.returncode) == ("65534", 0), found.stderr


@pytest.mark.parametrize("parts", [(), (b"",), (b"a", b"", b"bc"), (bytes(1000),)])
def test_parts_come_back_as_they_were_packed(parts: tuple[bytes, ...]) -> None:
    packed = pack(*parts)
    assert unpack(packed, len(parts)) == list(parts)
    for wrong in (packed + b"x", packed[:-1], b"\xff" * 8 + packed, packed * 2):
        if wrong != packed:
            with pytest.raises(BoxError):
                unpack(wrong, len(parts))


def test_a_python_that_was_started_by_a_path_with_dots_is_found_in_the_box() -> None:
    """The box does not have all folders on such a path."""
    code = "from pausefl.flower.node import box; print(box.PYTHON)"
    folder = Path(sys.executable).parent
    dotted = f"{folder}/../{folder.name}/{Path(sys.executable).name}"
    said = subprocess.run([dotted, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"{sys.executable}\n"
