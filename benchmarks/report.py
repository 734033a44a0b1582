"""What a report takes: reading runs, drawing and writing the page, after imports; and how large the page is.

The runs are one run without training per policy, copied for every seed, with made-up accuracies: a report does not tell
them from runs that were trained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from zlib import crc32

import numpy as np
from flwr.serverapp.strategy import FedAvg

from benchmarks.flower import answer, arrays
from benchmarks.measure import Figure, show
from pausefl.flower import PauseStrategy
from pausefl.flower.server.journal import KIND, Journal, Mark
from pausefl.flower.testing import MemoryGrid
from pausefl.report.chart_base import require_charts
from pausefl.report.progress_report import progress_report
from pausefl.report.report_files import write_page
from pausefl.report.run_report import run_report
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.progress.find import read_checkpoint
from pausefl.runs.read_folder import METRICS, read_runs, run_folders
from pausefl.selector import Selector
from pausefl.system.state_file import read_state, write_state

RUNS, ROUNDS = 60, 300
HISTORIES = (2000, 20_000)
POLICIES = ("pause", "sa-pause", "random", "clustered", "fastest", "all")
CLIENTS, PER_ROUND = 100, 10


def write_runs(folder: Path, runs: int, rounds: int) -> None:
    """Write so many runs of so many rounds: all policies, with equally many seeds."""
    for number, policy in enumerate(POLICIES):
        content = {
            "run": {"rounds": rounds},
            "network": {"clients": CLIENTS},
            "selection": {"per_round": PER_ROUND, "policy": policy},
            "learning": {"enabled": False},
        }
        with tempfile.TemporaryDirectory() as first:
            played = run(make_config(content), Path(first))
        for seed in range(runs // len(POLICIES)):
            rng = np.random.default_rng((number, seed))
            scores = 90.0 - 80.0 * np.exp(-np.arange(rounds) / 40.0) + rng.normal(0.0, 2.0, rounds)
            records = [{**r, "accuracy": score} for r, score in zip(played.records, scores.tolist(), strict=True)]
            sizes, served = rng.integers(50, 500, CLIENTS).tolist(), rng.uniform(50.0, 99.0, CLIENTS).tolist()
            clients = {"size": sizes, "accuracy": served}
            summary = {"rounds": rounds, "name": policy, "guarantee": "made up", "clients": clients}
            trained = content | {"run": {"rounds": rounds, "seed": seed}, "learning": {"enabled": True}}
            out = folder / policy / f"seed-{seed}"
            out.mkdir(parents=True)
            (out / "config.toml").write_text(make_config(trained).toml(), encoding="utf-8")
            (out / METRICS[0]).write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
            (out / "summary.json").write_text(json.dumps(summary), encoding="utf-8")


def report_seconds(folder: Path) -> float:
    """Processor seconds of a report, after imports."""
    require_charts()
    start = time.process_time()
    write_page(run_report(read_runs([folder])), folder / "report.html")
    return time.process_time() - start


def json_seconds(folder: Path) -> float:
    """Processor seconds of what no report can do without: the rounds parsed as JSON."""
    start = time.process_time()
    for path in run_folders(folder):
        for line in (path / METRICS[0]).read_bytes().splitlines():
            json.loads(line)
    return time.process_time() - start


def command(*arguments: str, cache: Path) -> tuple[float, str]:
    """Run Python in a process of its own; return its processor seconds, imports included, and what it printed."""
    before = os.times()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, done.stdout


def write_checkpoint(path: Path, rounds: int) -> None:
    """Write the checkpoint of a Flower run of so many rounds: a few played, the rest like the last of them."""
    grid = MemoryGrid(dict.fromkeys(range(CLIENTS), answer))
    selector = Selector(np.ones(CLIENTS), PER_ROUND)
    PauseStrategy(FedAvg(fraction_evaluate=0.0), selector, poll=0.001, checkpoint=path).start(grid, arrays(10))
    header, columns = read_state(path, KIND)
    journal = Journal(path)
    *first, last = journal.read(Mark(*header["journal"]))
    later = [{**last, "played": {**last["played"], "round": number}} for number in range(len(first) + 1, rounds + 1)]
    content = b"".join(json.dumps(entry).encode() + b"\n" for entry in [*first, *later])
    journal.path.write_bytes(content)
    write_state(path, KIND, {**header, "round": rounds, "journal": [len(content), crc32(content)]}, columns)


def history_seconds(path: Path) -> float:
    """Processor seconds of a Flower run's numbers, as a report and the live page take them from its checkpoint."""
    start = time.process_time()
    progress_report(read_checkpoint(path), "run")
    return time.process_time() - start


def main() -> bool:
    """Print the figures; return whether the bounds were met."""
    with tempfile.TemporaryDirectory() as name:
        runs, cache, page = Path(name) / "runs", Path(name) / "cache", Path(name) / "report.html"
        write_runs(runs, RUNS, ROUNDS)
        alone = ("-m", "benchmarks.report", str(runs))
        first, later = (float(command(*alone, cache=cache)[1]) for _ in range(2))
        whole, _ = command("-m", "pausefl", "report", str(runs), "--out", str(page), cache=cache)
        size = page.stat().st_size / 1e6
        figures = [
            Figure("a report, after imports", f"{later:.1f} s", "<= 3 s", later <= 3.0),
            Figure("   the first one of a user, who has no page script yet", f"{first:.1f} s"),
            Figure("   the whole command, imports included", f"{whole:.1f} s"),
            Figure("   its rounds parsed as JSON, and nothing else", f"{json_seconds(runs):.1f} s"),
            Figure("size of the page", f"{size:.1f} MB", "<= 3 MB", size <= 3.0),
        ]
        times = []
        for rounds in HISTORIES:
            path = Path(name) / f"{rounds}.state"
            write_checkpoint(path, rounds)
            times.append(min(history_seconds(path) for _ in range(3)))
    growth = times[1] / times[0]
    figures += [
        Figure(f"a Flower checkpoint of {HISTORIES[1]:,} rounds, read for a report or to watch", f"{times[1]:.2f} s"),
        Figure(f"   beside one of {HISTORIES[0]:,} rounds", f"{growth:.1f} times", "<= 11 times", growth <= 11.0),
    ]
    return show(f"Report: {RUNS} runs of {ROUNDS} rounds, in processor seconds", figures)


if __name__ == "__main__":
    if len(sys.argv) > 1:  # the process that measures a report alone
        print(report_seconds(Path(sys.argv[1])))
    else:
        main()
