"""``pausefl data``: fetch data sets."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson, DataDir, complete_data
from pausefl.errors import InvalidValueError, did_you_mean

data = typer.Typer(help="Fetch and list data sets.", no_args_is_help=True)
app.add_typer(data, name="data", rich_help_panel=TRAINING)


@data.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="The data set: mnist, fashion-mnist, cifar10, chem97 or chem97-schools.", autocompletion=complete_data
        ),
    ],
    data_dir: DataDir = None,
) -> None:
    """Fetch a data set, check it, and store it for later runs."""
    from pausefl.learn.datasets import DATASETS, default_data_dir
    from pausefl.learn.download import fetch_dataset

    if name not in DATASETS[1:]:
        known, otherwise = ", ".join(DATASETS[1:]), "you need not fetch digits, because scikit-learn brings it"
        hint = did_you_mean(name, DATASETS[1:], otherwise)
        raise InvalidValueError(f"data set is {name!r}, but must be one of {known}; {hint}")
    path = fetch_dataset(name, data_dir or default_data_dir(), lambda line: typer.echo(line, err=True))
    typer.echo(f"wrote {path}")


@data.command("list")
def list_(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the data sets, and say which of them are stored."""
    from pausefl.learn.datasets import DATASETS, default_data_dir, stored_path

    folder = data_dir or default_data_dir()
    found = {name: name == "digits" or stored_path(name, folder).exists() for name in DATASETS}
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "data": found}, indent=1))
        return
    for name, there in found.items():
        typer.echo(f"{name:14} {'stored' if there else f'not stored; run: pausefl data fetch {name}'}")
