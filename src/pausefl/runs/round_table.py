"""Runs as one pandas table: a row per run and round, for analyses of your own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pausefl.errors import MissingExtraError
from pausefl.runs import read_folder
from pausefl.runs.run_data import RunData
from pausefl.types import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

NUMBERS = ("seconds", "latency", "accuracy", "loss", "max_leakage", "median_leakage", "p90_leakage")
"""Columns that every table has, taken from the lines of ``metrics.jsonl``; NaN where a round has no such number."""


def read_runs(path: str | Path | Iterable[str | Path]) -> DataFrame:
    """Return the runs of a folder, or of several, as a table with one row per run and round.

    A folder may hold one run, the seeds of a run, or a whole study, finished or not.  A damaged run is refused.

    The columns are:

    - ``policy``: what tables and charts call the policy, text
    - ``seed``: the run's seed
    - ``folder``: where the run is, text; it distinguishes runs with the same policy and seed
    - ``round``: from 1
    - ``seconds``: the virtual clock after the round
    - ``latency``: what the round took, in seconds
    - ``members``: how many clients took part
    - ``accuracy``: on the test data, in percent, as it was measured; NaN in rounds without a test
    - ``smoothed_accuracy``: the mean of the last ten rounds, as in charts and targets
    - ``loss``: on the test data
    - ``max_leakage``, ``median_leakage``, ``p90_leakage``: epsilon spent by the most exposed client, by the median one,
      and by the one at the 90th percentile; NaN where nothing bounds it
    - ``wasted``: releases of this round that clients paid for and nobody used
    - ``term_NAME``: what each term of the reward gave, for the terms that some run has

    It needs pandas, which comes with the ``report`` extra.

    Args:
        path: A folder, or several of them.

    Example:
        ``read_runs("runs/mine").query("round == 60").groupby("policy").accuracy.mean()``
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("a table of runs needs pandas; run: pip install 'pausefl[report]'") from None
    folders = [path] if isinstance(path, str | Path) else list(path)
    runs = read_folder.read_runs(map(Path, folders))
    terms = sorted({term for run in runs for record in run.records for term in record.get("terms") or {}})
    return pandas.concat([pandas.DataFrame(_columns(run, terms)) for run in runs], ignore_index=True)


def _columns(run: RunData, terms: Iterable[str]) -> dict[str, object]:
    rounds = len(run.records)
    numbers: dict[str, FloatArray] = {name: run.column(name) for name in NUMBERS}
    return {
        "policy": [run.name] * rounds,
        "seed": [run.settings.run.seed] * rounds,
        "folder": [str(run.folder)] * rounds,
        "round": np.arange(1, rounds + 1),
        "seconds": numbers.pop("seconds"),
        "latency": numbers.pop("latency"),
        "members": [len(record["members"]) for record in run.records],
        "accuracy": numbers.pop("accuracy"),
        "smoothed_accuracy": run.series("accuracy"),
        **numbers,
        "wasted": [record.get("wasted", 0) for record in run.records],
        **{f"term_{term}": run.column(f"terms.{term}") for term in terms},
    }
