"""The server app: Flower's FedAvg, with PAUSE choosing who takes part."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import pausefl
from digits_app.task import Net, accuracy, sizes, test_data
from pausefl.flower import PauseStrategy
from pausefl.sim.latency import FlooredNormal

app = ServerApp()


def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    return MetricRecord({"accuracy": accuracy(net, *test_data())})


@app.main()
def main(grid: Grid, context: Context) -> None:
    config: Any = context.run_config
    clients, per_round = config["clients"], config["per-round"]
    examples: dict[int | str, float] = {f"client-{number}": size for number, size in enumerate(sizes(clients))}
    options: dict[str, Any] = {key: config[key] for key in ("latency", "names", "fewer", "wait", "rehearse")}
    options["checkpoint"] = config["checkpoint"] or None
    if options["latency"] == "virtual":
        options["latency"] = FlooredNormal(np.linspace(0.1, 1.0, clients), std=0.05, floor=0.05)

    selector = pausefl.Selector(examples, per_round=per_round)
    strategy = PauseStrategy(FedAvg(fraction_evaluate=0.0), selector, **options)

    torch.manual_seed(0)
    start = ArrayRecord(Net().state_dict())
    strategy.start(grid, start, num_rounds=config["rounds"], timeout=config["timeout"], evaluate_fn=evaluate)
    for played in strategy.history:
        print(played.line())
