"""The live page's server: what it sends, whom it refuses, and that it does not grow."""

from __future__ import annotations

import gzip
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pausefl.cli import main
from pausefl.report.chart_base import described
from pausefl.report.live.live_run import LiveRun
from pausefl.report.live.pace import Pace
from pausefl.report.live.server import LiveServer, watching
from pausefl.report.live.snapshot import snapshot
from pausefl.report.progress_report import progress_charts
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.progress.find import follow
from pausefl.runs.progress.progress import Progress
from pausefl.runs.progress.round_facts import RoundFacts, RunHead

PATIENCE = 300.0
"""Seconds after which something is broken, however busy the machine is."""
CONTENT = {
    "network": {"clients": 6, "dropout": 0.2}, "selection": {"per_round": 2}, "learning": {"enabled": False},
    "run": {"rounds": 20, "checkpoint_every": 5},
}  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has stopped after ten of twenty rounds."""
    out = tmp_path_factory.mktemp("run")
    run(make_config(CONTENT), out, until=10)
    return out


@contextmanager
def serving(path: Path, host: str = "127.0.0.1") -> Iterator[LiveServer]:
    with watching(path, host) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(played: Path) -> Iterator[LiveServer]:
    with serving(played) as made:
        yield made


def ask(server: LiveServer, path: str = "/", host: str | None = None, method: str = "GET") -> tuple[int, Any, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENCE)) as connection:
        connection.putrequest(method, path, skip_host=host is not None)
        if host:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def news(server: LiveServer) -> dict[str, Any]:
    """Return the first snapshot that a browser gets."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=PATIENCE) as line:
        line.sendall(f"GET /events?token={server.token} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        with line.makefile("rb") as said:
            return next(json.loads(text.removeprefix(b"data: ")) for text in said if text.startswith(b"data: "))


def test_a_browser_gets_the_page_its_charts_and_the_run_as_it_stands(server: LiveServer, played: Path) -> None:
    status, headers, page = ask(server)
    assert status == 200 and b"live.js" in page and b"http" not in page.replace(b"http-equiv", b"")
    assert "Access-Control-Allow-Origin" not in headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    said = news(server)
    assert (said["rounds"], said["planned"], said["said"], said["state"]) == (10, 20, "10 of 20", "running")
    charts = json.loads(ask(server, "/charts")[2])
    assert set(charts) == set(said["charts"]) and len(charts) == 6
    last = json.loads((played / "metrics.jsonl").read_text().splitlines()[-1])
    assert [one["name"] for one in said["now"]["members"]] == [str(k) for k in last["members"]]
    assert len(said["slow"]) == len(said["budgets"]) == 6
    assert b"vega" in ask(server, "/live.js")[2]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "192.168.1.9", "127.0.0.1.evil.example", ""])
def test_other_host_names_are_refused(server: LiveServer, host: str) -> None:
    for path in ("/", "/events", "/charts"):
        assert ask(server, path, host=host or None if host else "")[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "[::1]:1", "127.0.0.1:8765"])
def test_this_machine_is_answered_through_any_port(server: LiveServer, host: str) -> None:
    assert ask(server, "/charts", host=host)[0] == 200


def test_nothing_can_be_written_and_nothing_else_is_read(server: LiveServer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, method=method)[0] == 501
    for path in ("/../config.toml", "/config.toml", "/live/page/live.html", "/%2e%2e/metrics.jsonl"):
        assert ask(server, path)[0] == 404


def test_an_address_of_the_network_needs_the_token(played: Path) -> None:
    with serving(played, "0.0.0.0") as server:
        assert len(server.token) >= 32 and server.url.endswith(f"?token={server.token}")
        for path in ("/", "/live.js", "/charts", "/events", "/?token=", f"/?token={server.token[:-1]}", "/?token=é"):
            assert ask(server, path.encode("ascii", "replace").decode())[0] == 403
        assert server.token.encode() in ask(server, f"/?token={server.token}")[2]
        assert ask(server, f"/charts?token={server.token}", host="evil.example")[0] == 403
        assert news(server)["rounds"] == 10


def test_several_browsers_come_and_go(server: LiveServer) -> None:
    for _ in range(3):
        assert [news(server)["rounds"] for _ in range(4)] == [10] * 4


def test_a_port_in_use_and_a_path_that_is_no_run_are_refused_in_one_line(
    server: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    for folder in ("a", "b"):
        run(make_config(CONTENT | {"run": {"rounds": 1}}), tmp_path / "two" / folder)
    for arguments, said in (
        ([str(server.run.path), "--port", str(server.server_address[1])], "cannot be opened"),
        ([str(tmp_path / "file")], "is not a Flower checkpoint"),
        ([str(tmp_path / "two")], "holds 2 runs, but you can watch only one at a time"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["watch", *arguments])
        assert stop.value.code == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1


def test_ctrl_c_ends_it_with_one_line(played: Path) -> None:
    command = [sys.executable, "-m", "pausefl", "watch", str(played), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores Ctrl-C
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"watching {played} at http://127.0.0.1:")
        port = int(line.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as browser:
            browser.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in browser.recv(100)  # one that is still there does not hold it up
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and out == ""
    assert err.startswith("stopped watching after ") and err.count("\n") == 1


def test_a_folder_is_followed_from_before_it_is_there_to_after_it_is_gone(tmp_path: Path) -> None:
    live = LiveRun(tmp_path / "run", time.monotonic)

    def seen() -> dict[str, Any]:
        while live.poll():
            pass
        found = live.news(-1, 0.0)
        assert found is not None
        return json.loads(found[1])

    assert seen()["state"] == "waiting" and "holds no round yet" in seen()["alarms"][0]["text"]
    run(make_config(CONTENT), tmp_path / "run", until=5)
    assert seen()["rounds"] == 5
    metrics = tmp_path / "run" / "metrics.jsonl"
    whole = metrics.read_bytes()
    with metrics.open("ab") as file:
        file.write(b'{"round": 6, "mem')
    assert seen()["rounds"] == 5 and "fault" not in {alarm["kind"] for alarm in seen()["alarms"]}
    metrics.write_bytes(whole)
    run(make_config(CONTENT), tmp_path / "run")
    done = seen()
    assert (done["rounds"], done["state"], done["end"]) == (20, "finished", "finished")
    assert not [alarm for alarm in done["alarms"] if alarm["kind"] == "fault"]
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    assert seen()["rounds"] == 20 and seen()["alarms"][0]["kind"] == "fault"
    other = CONTENT | {"network": {"clients": 50}, "run": {"rounds": 3}}
    run(make_config(other), tmp_path / "run")
    assert (seen()["rounds"], seen()["form"], seen()["clients"]) == (3, "many", 50)
    metrics.write_text('{"round": 1}\n')
    assert seen()["alarms"][0]["kind"] == "fault"


def test_the_time_to_go_follows_the_pace_and_silence_is_told() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    for rounds in range(1, 5):
        pace.seen(rounds)
        now[0] += 30.0
    assert pace.per_round == 30.0 and pace.remaining(10) == 150.0 and not pace.quiet
    now[0] += 300.0
    assert pace.quiet
    pace.seen(1)  # another run
    assert pace.per_round is None and not pace.quiet


def test_three_thousand_rounds_cost_no_more_memory_than_one(played: Path, tmp_path: Path) -> None:
    """The lines are those of real rounds, repeated with other numbers."""
    records = [json.loads(line) for line in (played / "metrics.jsonl").read_text().splitlines()]
    (tmp_path / "config.toml").write_bytes((played / "config.toml").read_bytes())
    follower, number = follow(tmp_path), 0
    tracemalloc.start()
    sizes, texts = [], []
    try:
        for more in (1_000, 2_000):
            with (tmp_path / "metrics.jsonl").open("a") as file:
                for _ in range(more):
                    record = records[number % 10] | {"seconds": float(number)}
                    number += 1
                    file.write(json.dumps(record | {"round": number}) + "\n")
            while follower.poll():
                pass
            texts.append(len(json.dumps(snapshot(follower, Pace(time.monotonic)))))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert follower.progress is not None and follower.progress.rounds == 3000
    assert sizes[1] < sizes[0] + 100_000
    assert max(texts) < 1.5 * texts[0] + 20_000


def test_the_port_is_free_again_afterwards(played: Path) -> None:
    with serving(played) as server:
        port = server.server_address[1]
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_what_cannot_be_watched_is_told_and_the_reader_goes_on(played: Path, tmp_path: Path) -> None:
    watched = tmp_path / "later"
    live = LiveRun(watched, lambda: 0.0)
    live.poll()
    for seed in ("seed-0", "seed-1"):
        shutil.copytree(played, watched / seed)
    assert not live.poll()
    version, text = live.news(-1, 0.0) or (0, b"")
    assert "holds 2 runs, but you can watch only one at a time" in json.loads(text)["alarms"][0]["text"]
    live.poll()
    assert live.news(version, 0.0) is None, "nothing is new, so nothing is sent"
    shutil.rmtree(watched / "seed-1")
    live.poll()
    assert live.rounds == 10


@pytest.mark.parametrize("content", [b"[" * 100_000 + b"\n", b"\xff\n", b"[1]\n"])
def test_no_damage_ends_the_reader(played: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copy(played / "config.toml", tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(content)
    follower = follow(tmp_path)
    assert not follower.poll() and follower.fault
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl.gz").write_bytes(gzip.compress((played / "metrics.jsonl").read_bytes())[:300])
    assert not follower.poll() and follower.fault


@pytest.mark.parametrize("name", ["²", "1²", "9" * 5000, "<b>", "\ud800"])
def test_a_page_outlives_whatever_a_client_calls_itself(name: str) -> None:
    progress = Progress(RunHead(kind="Flower", title="pause", clients=2, names=("a", name)))
    progress.add(RoundFacts(number=1, members=("a", name), seconds={"a": 1.0, name: 2.0}, faults={}))
    follower = follow(Path("none.state"))
    follower.progress = progress
    assert json.loads(json.dumps(snapshot(follower, Pace(lambda: 0.0)), allow_nan=False))["now"]["members"]


def told(progress: Progress) -> dict[str, Any]:
    """Return what a browser is sent of a run that stands like this."""
    live = LiveRun(Path("none.state"), lambda: 0.0)
    live._follower.progress = progress
    live.poll()
    found = live.news(-1, 0.0)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("huge", [1e308, -1e308, float("inf"), float("nan")])
def test_numbers_that_run_over_leave_gaps_and_not_a_blind_page(huge: float) -> None:
    """Each is finite in a file, perhaps; their sums are not, and JSON knows no infinity."""
    progress = Progress(RunHead(kind="simulator", title="pause", clients=2, names=("a", "b")))
    for number in (1, 2, 3):
        progress.add(
            RoundFacts(number=number, members=("a", "b"), seconds={"a": 1.0, "b": huge}, faults={}, took=huge,
                       accuracy=huge, left={"a": 0.5, "b": huge})
        )  # fmt: skip
    said = told(progress)
    assert said["rounds"] == 3 and [one["name"] for one in said["now"]["members"]] == ["a", "b"]
    for chart in progress_charts(progress):
        assert "inf" not in str(described(chart.draw(chart.rows(progress)))["data"]), "and the report leaves a gap too"


def test_a_run_that_cannot_be_shown_says_so_on_the_page() -> None:
    progress = Progress(RunHead(kind="Flower", title="pause", clients=2, planned="many"))  # type: ignore[arg-type]
    progress.add(RoundFacts(number=1, members=("a",), seconds={"a": 1.0}, faults={}))
    said = told(progress)
    assert said["state"] == "waiting" and said["alarms"][0]["kind"] == "fault"
    assert "cannot be shown" in said["alarms"][0]["text"]
