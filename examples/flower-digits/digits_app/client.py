"""The client app: it trains as if there were no privacy; the mod decides what leaves.

Which unit is protected is for the data owner to say, and the app has to return what goes with it.  Where pausefl hands
over one record at a time, that is what this record adds to the model.  Where the app reads all records by itself, it is
a row for each of them, or the trained model.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import SHAPE, accuracy, client_data, contributions, made_up_data, one_record, train
from pausefl.flower import PrivateUpdate, record_in
from pausefl.learn.features import Matrix

app = ClientApp(mods=[PrivateUpdate()])


@app.train()
def train_digits(msg: Message, context: Context) -> Message:
    weights, record = received(msg), record_in(msg)
    if record is not None:
        x, y = one_record(record.data)
        [trained] = contributions(weights, x, y)
    else:
        x, y = own_data(context)
        trained = work(context)(weights, x, y)
    time.sleep(float(context.node_config.get("delay", 0.0)))  # a slower machine, for the show
    metrics = MetricRecord({"num-examples": len(x), "accuracy": accuracy(weights, x, y)})  # the mod drops the accuracy
    return Message(RecordDict({"arrays": ArrayRecord([trained]), "metrics": metrics}), reply_to=msg)


@app.query("rehearsal")
def rehearse_digits(msg: Message, context: Context) -> Message:
    """The same work on made-up digits, before the first round: the server learns how fast this machine is."""
    work(context)(received(msg), *made_up_data(int(context.node_config.get("examples", 480))))
    time.sleep(float(context.node_config.get("delay", 0.0)))
    return Message(msg.content, reply_to=msg)  # nobody looks at it


@app.evaluate()
def evaluate_digits(msg: Message, context: Context) -> Message:
    """Not called unless the data owner allows it: an accuracy is computed from private data."""
    x, y = own_data(context)
    metrics = MetricRecord({"num-examples": len(x), "accuracy": accuracy(received(msg), x, y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)


def work(context: Context) -> Callable[[Matrix, Matrix, Matrix], Matrix]:
    return contributions if context.run_config["unit"] == "record" else train


def received(msg: Message) -> Matrix:
    """The model, if it is this app's: the server chooses it, and of another shape a row could hold many records."""
    [weights] = msg.content.array_records["arrays"].to_numpy_ndarrays()
    if weights.shape != SHAPE or weights.dtype != np.float32:
        raise ValueError(f"the model is {weights.dtype} {weights.shape}, but must be float32 {SHAPE}")
    return weights


def own_data(context: Context) -> tuple[Matrix, Matrix]:
    return client_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
