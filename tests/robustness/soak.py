"""The slow part of the sweep (``make soak``): memory stays flat over 5,000 short rounds; 2,000 strange inputs."""

import gc
import os
import sys
import tempfile
from pathlib import Path

import pytest

from pausefl.runs.build import build
from pausefl.runs.config import make_config

ROUNDS, WARM, GROWTH = 5000, 1000, 1.03


def resident() -> float:
    """Return the resident memory of this process in MiB (Linux)."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def memory_stays_flat(policy: str) -> bool:
    config = make_config(
        {"network": {"clients": 12, "availability": "on-off", "dropout": 0.1}, "data": {"train_size": 240},
         "selection": {"per_round": 3, "policy": policy}, "privacy": {"schedule": "power-law"},
         "run": {"rounds": ROUNDS, "evaluate_every": 50}}
    )  # fmt: skip
    simulation, sizes = build(config), []
    with tempfile.TemporaryFile("w") as metrics:
        for record in simulation.play(ROUNDS, pause_every=100):
            metrics.write(f"{record}\n")
            if record["round"] % WARM == 0:
                sizes.append(resident())
    simulation.close()
    print(f"{policy}: MiB after every {WARM} rounds: {', '.join(f'{size:.1f}' for size in sizes)}", flush=True)
    return sizes[-1] <= GROWTH * sizes[0]


if __name__ == "__main__":
    flat = True
    for policy in ("pause", "clustered-similarity"):
        flat &= memory_stays_flat(policy)
    print("memory is flat" if flat else f"memory grew by more than {GROWTH - 1:.0%}")
    os.environ["PAUSEFL_SWEEP"] = "1000"
    strange = pytest.main(["-q", str(Path(__file__).with_name("test_any_input.py"))])
    sys.exit(0 if flat and strange == 0 else 1)
