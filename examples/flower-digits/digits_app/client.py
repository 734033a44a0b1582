"""The client app: it trains as if there were no privacy; the mod decides what leaves."""

from __future__ import annotations

import time

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import Net, client_data, train
from pausefl.flower import PrivateUpdate

app = ClientApp(mods=[PrivateUpdate()])


@app.train()
def train_digits(msg: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    net = Net()
    net.load_state_dict(msg.content.array_records["arrays"].to_torch_state_dict())
    x, y = client_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    train(net, x, y)
    time.sleep(float(context.node_config.get("delay", 0.0)))  # a slower machine, for the show
    metrics = MetricRecord({"num-examples": len(y), "secret-mean": float(x.mean())})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate_digits(msg: Message, context: Context) -> Message:
    """Never called unless the data owner allows it: an accuracy is computed from private data."""
    raise RuntimeError("evaluated on private data")
