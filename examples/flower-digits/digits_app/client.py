"""The client app: it trains as if there were no privacy; the mod decides what leaves."""

from __future__ import annotations

import time

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pausefl.flower import PrivateUpdate

app = ClientApp(mods=[PrivateUpdate()])


@app.train()
def train_digits(msg: Message, context: Context) -> Message:
    from digits_app.task import Net, client_data, train  # here, so that a refusal need not load torch

    net = Net()
    net.load_state_dict(msg.content.array_records["arrays"].to_torch_state_dict())
    x, y = client_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    loss = train(net, x, y)
    time.sleep(float(context.node_config.get("delay", 0.0)))  # a slower machine, for the show
    metrics = MetricRecord({"num-examples": len(y), "loss": loss})  # the mod drops the loss
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=msg)


@app.query("rehearsal")
def rehearse_digits(msg: Message, context: Context) -> Message:
    """The same work on made-up digits, before the first round: the server learns how fast this machine is."""
    from digits_app.task import Net, made_up_data, train

    net = Net()
    net.load_state_dict(msg.content.array_records["arrays"].to_torch_state_dict())
    train(net, *made_up_data(int(context.node_config.get("examples", 480))))
    time.sleep(float(context.node_config.get("delay", 0.0)))
    return Message(msg.content, reply_to=msg)  # nobody looks at it


@app.evaluate()
def evaluate_digits(msg: Message, context: Context) -> Message:
    """Not called unless the data owner allows it: an accuracy is computed from private data."""
    from digits_app.task import Net, accuracy, client_data

    net = Net()
    net.load_state_dict(msg.content.array_records["arrays"].to_torch_state_dict())
    x, y = client_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    metrics = MetricRecord({"num-examples": len(y), "accuracy": accuracy(net, x, y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
