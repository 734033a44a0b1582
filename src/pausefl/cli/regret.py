"""``pausefl regret``: the bandit alone, measured against the genie and against Theorem 1."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from pausefl.cli import app
from pausefl.errors import require
from pausefl.types import FloatArray

_TAU_MIN = 0.05


@app.command()
def regret(
    clients: Annotated[int, typer.Option(help="How many clients there are (half fast, half slow).")] = 30,
    per_round: Annotated[int, typer.Option(help="How many are picked per round.")] = 5,
    rounds: Annotated[int, typer.Option(help="How many rounds to play.")] = 3000,
    seeds: Annotated[int, typer.Option(help="How many independent runs.")] = 5,
    policy: Annotated[str, typer.Option(help="pause, sa-pause, random, …")] = "pause",
    alpha: Annotated[float, typer.Option(help="Weight of generalization.")] = 100.0,
    gamma: Annotated[float, typer.Option(help="Weight of privacy.")] = 5.0,
    out: Annotated[Path | None, typer.Option(help="Also write regret.csv, regret.svg and regret.png here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Play the selection bandit without training; show regret against log n and the bound of Theorem 1."""
    require(rounds >= 2, "rounds", rounds, "2 or more", "log n is 0 at n = 1")
    require(seeds >= 1, "seeds", seeds, "1 or more", "run at least one")
    console = Console(stderr=True, quiet=as_json)
    expected, realised, bound = _measure(console, clients, per_round, rounds, seeds, policy, alpha, gamma)
    marks = np.unique(np.geomspace(min(10, rounds), rounds, 12).astype(np.int64))
    rows = [_row(int(n), expected, realised, bound) for n in marks]
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        title = f"{policy}: {clients} clients, {per_round} per round, {seeds} seeds"
        Console().print(_table(rows, title))
        Console().print(_reading(rows))
    if out is not None:
        _write(out, rows, f"Regret of {policy}, {clients} clients, {per_round} per round, {seeds} seeds")
        console.print(f"wrote {out / 'regret.csv'}, {out / 'regret.svg'}, {out / 'regret.png'}")


def _measure(
    console: Console, clients: int, per_round: int, rounds: int, seeds: int, policy: str, alpha: float, gamma: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    from pausefl.regret import regret_bound
    from pausefl.selector import Selector
    from pausefl.sim.bandit import play
    from pausefl.sim.network import two_groups

    network = two_groups(clients, _TAU_MIN)
    lost = np.zeros((2, seeds, rounds))
    bound = np.empty(0)
    for seed in track(range(seeds), "playing", console=console, transient=True, disable=not console.is_terminal):
        selector = Selector(np.ones(clients), per_round, policy, alpha=alpha, gamma=gamma, tau_min=_TAU_MIN, seed=seed)
        speeds = network.mean_speed(_TAU_MIN)
        bound = regret_bound(np.arange(1.0, rounds + 1.0), selector.problem(), speeds)
        for t, played in enumerate(play(selector, network, rounds, seed, _TAU_MIN)):
            lost[:, seed, t] = played.expected_regret, played.realised_regret
    total = lost.cumsum(axis=2)
    return total[0], total[1], bound


def _row(n: int, expected: FloatArray, realised: FloatArray, bound: FloatArray) -> dict[str, Any]:
    now, before = expected[:, n - 1], expected[:, max(0, n // 2 - 1)]
    mean = float(now.mean())
    return {
        "rounds": n,
        "mean": mean,
        "low": float(now.min()),
        "high": float(now.max()),
        "realised": float(realised[:, n - 1].mean()),
        "per_log": mean / math.log(n) if n > 1 else 0.0,
        "doubling": mean - float(before.mean()),
        "bound": float(bound[n - 1]),
    }


def _table(rows: list[dict[str, Any]], title: str) -> Table:
    table = Table(title=f"Regret against the genie — {title}", caption="bars: cumulative expected regret")
    for name in ("n", "regret", "min … max", "/ ln n", "+ by 2x", "bound", ""):
        table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    most = max(row["mean"] for row in rows) or 1.0
    for row in rows:
        table.add_row(
            f"{row['rounds']:,}",
            f"{row['mean']:.2f}",
            f"{row['low']:.1f} … {row['high']:.1f}",
            f"{row['per_log']:.2f}",
            f"{row['doubling']:.2f}",
            f"{row['bound']:.3g}",
            "▇" * max(1, round(12 * row["mean"] / most)),
        )
    return table


def _reading(rows: list[dict[str, Any]]) -> str:
    share = rows[-1]["mean"] / rows[-1]["bound"] if rows[-1]["bound"] else 0.0
    return (
        "'+ by 2x' is what the last doubling of n added: constant under logarithmic growth, doubling under linear. "
        f"Measured regret is {share:.1g} of the bound, which is loose by design."
    )


def _write(out: Path, rows: list[dict[str, Any]], title: str) -> None:
    from pausefl.report.charts import regret_chart, save_chart

    out.mkdir(parents=True, exist_ok=True)
    with (out / "regret.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    chart = regret_chart(rows, title)
    for ending in ("svg", "png"):
        save_chart(chart, out / f"regret.{ending}")
