"""The server app: Flower's FedAvg, with PAUSE choosing who takes part, and a step that suits the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import pausefl
from digits_app.task import SHAPE, accuracy, client_data, test_data
from pausefl.flower import PauseStrategy
from pausefl.privacy import suggest
from pausefl.sim.latency import FlooredNormal

app = ServerApp()


def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
    [weights] = arrays.to_numpy_ndarrays()
    return MetricRecord({"accuracy": accuracy(weights, *test_data())})


@app.main()
def main(grid: Grid, context: Context) -> None:
    config: Any = context.run_config
    clients, per_round = config["clients"], config["per-round"]
    rounds, step = 12, 4.0  # for records: measured, see the README
    if config["unit"] == "update":
        plan = suggest(clients, per_round, SHAPE[0] * SHAPE[1], config["budget"])  # what "pausefl plan" prints
        print(f"{plan.releases} releases of each client, {plan.rounds} rounds: a model {plan.verdict} so")
        rounds, step = plan.rounds, plan.step
    examples: dict[int | str, float] = {f"client-{n}": len(client_data(n, clients)[0]) for n in range(clients)}
    options: dict[str, Any] = {key: config[key] for key in ("latency", "names", "fewer", "wait", "rehearse", "late")}
    options |= {"over_select": config["over-select"], "deadline": config["deadline"] or None}
    options |= {"checkpoint": config["checkpoint"] or None, "step": step, "average": 0.9}
    if options["latency"] == "virtual":
        options["latency"] = FlooredNormal(np.linspace(0.1, 1.0, clients), std=0.05, floor=0.05)

    selector = pausefl.Selector(examples, per_round=per_round)
    least = min(2, per_round)  # one is enough for a trial of one node
    average = FedAvg(fraction_evaluate=0.0, min_train_nodes=least, min_available_nodes=least)
    strategy = PauseStrategy(average, selector, **options)

    start, rounds = ArrayRecord([np.zeros(SHAPE, dtype=np.float32)]), config["rounds"] or rounds
    strategy.start(grid, start, num_rounds=rounds, timeout=config["timeout"], evaluate_fn=evaluate)
    for played in strategy.history:
        print(played.line())
