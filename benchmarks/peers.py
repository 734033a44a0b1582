"""Speed against other simulators, on one task: `python -m benchmarks.peers PYTHON`, an interpreter that has pfl.

Both sides run in a process of their own, on one thread, in turns; the task is in `benchmarks.peer_pfl`.  Seconds are
those of the processor, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from benchmarks.measure import Figure, show
from benchmarks.peer_pfl import BATCH, LR, PER_ROUND, ROUNDS, SAMPLES, USERS, WARM_UP, task_data, whole_loss
from pausefl.learn.client_data import ClientData
from pausefl.learn.learners import learner_for
from pausefl.learn.models import build_model
from pausefl.learn.optimizer import LocalPlan, Optimizer
from pausefl.selector import Selector
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import two_groups
from pausefl.sim.network import Network

TURNS = 3
WANTED = 0.15
"""The largest share of pfl's time."""
Kind = Literal["sgd", "adam"]
KINDS: tuple[Kind, ...] = ("sgd", "adam")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def main(peer: str) -> bool:
    if shutil.which(peer) is None:
        sys.exit(f"benchmarks.peers: no interpreter at {peer!r}; run: make bench-peers")
    figures = []
    for kind in KINDS:
        ours, pfl = [], []
        for _ in range(TURNS):
            ours.append(_child(sys.executable, "benchmarks.peers", "--ours", kind))
            pfl.append(_child(peer, "benchmarks.peer_pfl", kind))
            _same_work(ours[-1], pfl[-1])
        fast, slow = (statistics.median(run["seconds"] for run in runs) for runs in (ours, pfl))
        losses = ", ".join(f"{run['loss_before']:.2f} → {run['loss_after']:.2f}" for run in (ours[-1], pfl[-1]))
        figures += [
            Figure(f"{kind}: seconds per round, pausefl", f"{fast:.4f}"),
            Figure("  seconds per round, pfl 0.6.0", f"{slow:.4f}"),
            Figure("  ours as a share of pfl's", f"{fast / slow:.3f}", f"≤ {WANTED}", fast <= WANTED * slow),
            Figure("  loss on all data (ours, pfl)", losses),
        ]
    title = f"Peers: mlp, K={USERS}, m={PER_ROUND}, {SAMPLES} images each, one thread ({TURNS} x {ROUNDS} rounds)"
    return show(title, figures)


def _same_work(ours: dict[str, float], pfl: dict[str, float]) -> None:
    """Stop if the two did not start alike, did not do as much, or did not learn."""
    for name in ("parameters", "steps", "samples"):
        if ours[name] != pfl[name]:
            sys.exit(f"benchmarks.peers: not comparable, {name} are {ours[name]} here and {pfl[name]} with pfl")
    if abs(ours["loss_before"] - pfl["loss_before"]) > 1e-3:
        sys.exit("benchmarks.peers: not comparable, the two start from different models or data")
    for name, run in (("pausefl", ours), ("pfl", pfl)):
        if not (run["moved"] > 0.0 and run["loss_after"] < run["loss_before"]):
            sys.exit(f"benchmarks.peers: {name} did not learn, so its speed says nothing")


def _child(*command: str) -> dict[str, float]:
    python, module, *rest = command
    settings = os.environ | dict.fromkeys(THREADS, "1") | {"PFL_PYTORCH_DEVICE": "cpu"}
    root = Path(__file__).parent.parent
    done = subprocess.run([python, "-m", module, *rest], capture_output=True, text=True, env=settings, cwd=root)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"benchmarks.peers: {module} failed ({reason})")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _ours(kind: Kind) -> dict[str, float]:
    torch.set_num_threads(1)
    images, labels = task_data()
    parts = np.split(np.arange(len(labels)), USERS)
    data = ClientData(images, labels, images[:100], labels[:100], parts)
    net = build_model("mlp", data.shape, 10, seed=0)
    loss_before = whole_loss(net, images, labels)
    # Fresh, since pfl makes a new optimiser for every user and round.
    plan = LocalPlan(Optimizer(kind, LR), batch=BATCH, epochs=1, optimizer_state="fresh")
    simulation = Simulation(
        Selector(data.sizes, PER_ROUND, "random", tau_min=0.05), Network(two_groups(USERS), 0),
        learner=learner_for(net, data, plan, seed=0, most=PER_ROUND), evaluate_every=10**9,
    )  # fmt: skip
    before = simulation.model
    records = simulation.play(WARM_UP + ROUNDS + 1)  # one more, never asked for: the last one is always scored
    times, trained = [], 0
    for _ in range(WARM_UP + ROUNDS):
        start = time.process_time()
        record = next(records)
        times.append(time.process_time() - start)
        trained += record["arrived"]
    users = trained / (WARM_UP + ROUNDS)
    batches = plan.batches(SAMPLES, 0, 1, 0)
    nn.utils.vector_to_parameters(torch.from_numpy(simulation.model), net.parameters())
    simulation.close()
    return {
        "seconds": statistics.median(times[WARM_UP:]),
        "parameters": len(before),
        "moved": float(np.linalg.norm(simulation.model - before)),
        "steps": users * len(batches),
        "samples": users * int((batches >= 0).sum()),
        "loss_before": loss_before,
        "loss_after": whole_loss(net, images, labels),
    }


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--ours":
        print(json.dumps(_ours("sgd" if sys.argv[2] == "sgd" else "adam")))
    elif len(sys.argv) == 2:
        sys.exit(0 if main(sys.argv[1]) else 1)
    else:
        sys.exit("benchmarks.peers: name the interpreter that has pfl; run: make bench-peers")
