"""A run of selection and clock, without training: against drawing the latencies, which no such run can do without."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from benchmarks.measure import Figure, show
from pausefl.rng import stream
from pausefl.runs.build import build
from pausefl.runs.config import Config

CLIENTS, PER_ROUND, ROUNDS = 1_000_000, 1000, 200


def settings(clients: int, per_round: int) -> Config:
    """Return a run in which nothing is trained."""
    return Config.model_validate(
        {"network": {"clients": clients}, "selection": {"per_round": per_round}, "learning": {"enabled": False}}
    )


def main() -> bool:
    # In a process of its own, whose memory is that of the run.
    found = json.loads(subprocess.check_output([sys.executable, "-m", "benchmarks.clock_only"], text=True))
    ratio, memory = found["run"] / found["latencies"], found["peak"] / 2**30
    return show(
        "A run without training",
        [
            Figure(
                f"{ROUNDS} rounds, K={CLIENTS:,}, m={PER_ROUND:,} / drawing the latencies", f"{ratio:.1f}", "≤ 4",
                ratio <= 4.0,
            ),
            Figure("  in seconds of one processor", f"{found['run']:.1f} s", "≤ 7 s", found["run"] <= 7.0),
            Figure("  peak memory", f"{memory:.2f} GiB", "≤ 0.8 GiB", memory <= 0.8),
            Figure("  torch is loaded", "yes" if found["torch"] else "no", "no", not found["torch"]),
        ],
    )  # fmt: skip


def _measured() -> dict[str, float | bool]:
    """Play the run; draw the same latencies once more, for some of the rounds."""
    simulation = build(settings(CLIENTS, PER_ROUND))
    start = time.process_time()
    for _ in simulation.play(ROUNDS):
        pass
    taken = time.process_time() - start
    some = ROUNDS // 10
    start = time.process_time()
    for number in range(some):
        simulation.network.latency.sample(stream(0, "latency", number))
    drawn = (time.process_time() - start) * ROUNDS / some
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"run": taken, "latencies": drawn, "peak": peak, "torch": "torch" in sys.modules}


if __name__ == "__main__":
    print(json.dumps(_measured()))
