"""An app in the shape of Flower's quickstart for numpy, which ``flwr new`` fetches from the net.

Files, names, records and the lines that the README replaces are those of the original; the words are ours.
"""

from __future__ import annotations

from pathlib import Path

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "quickstart-numpy"
version = "1.0.0"
description = "An app in the shape of Flower's quickstart"
license = "Apache-2.0"
dependencies = ["flwr[simulation]>=1.41", "numpy>=2.0.2"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "somebody"

[tool.flwr.app.components]
serverapp = "quickstart_numpy.server_app:app"
clientapp = "quickstart_numpy.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 3
"""

TASK = """\
import numpy as np


def get_dummy_model():
    return [np.ones((1, 1))]
"""

CLIENT = """\
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    received = msg.content["arrays"].to_numpy_ndarrays()
    trained = ArrayRecord([array + np.random.rand(*array.shape) for array in received])
    metrics = MetricRecord({"random_metric": np.random.rand(), "num-examples": 1})
    return Message(content=RecordDict({"arrays": trained, "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    msg.content["arrays"].to_numpy_ndarrays()
    metrics = MetricRecord({"random_metric": np.random.rand(3).tolist(), "num-examples": 1})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
"""

SERVER = """\
import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart_numpy.task import get_dummy_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    num_rounds: int = context.run_config["num-server-rounds"]
    arrays = ArrayRecord(get_dummy_model())

    strategy = FedAvg()

    result = strategy.start(
        grid=grid,
        initial_arrays=arrays,
        num_rounds=num_rounds,
    )

    print("Saving final model to disk...")
    np.savez("final_model", *result.arrays.to_numpy_ndarrays())
"""


def write_app(folder: Path, *, server: str = SERVER, client: str = CLIENT) -> Path:
    """Write the app, with these two files as they are given; its model is saved under the folder's name."""
    package = folder / "quickstart_numpy"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    for name, text in (("__init__", ""), ("task", TASK), ("client_app", client)):
        (package / f"{name}.py").write_text(text)
    (package / "server_app.py").write_text(server.replace('"final_model"', f'"{folder.name}"'))
    return folder


def replaced(text: str, line: str, lines: str) -> str:
    """Put lines in place of one line, as far to the right as it stands, as a reader would paste them."""
    [place] = [one for one in text.splitlines(keepends=True) if one.strip() == line]
    indent = place[: len(place) - len(place.lstrip())]
    return text.replace(place, "".join(indent + one if one.strip() else one for one in lines.splitlines(keepends=True)))
