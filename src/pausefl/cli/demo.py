"""``pausefl demo``: every policy on the paper's small network, selection only, in a few seconds."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from pausefl.cli import app
from pausefl.errors import require
from pausefl.types import FloatArray

_CLIENTS, _PER_ROUND, _TAU_MIN, _BUDGET = 30, 5, 0.05, 40.0


@dataclass(frozen=True, slots=True)
class _Outcome:
    name: str
    seconds: float
    fast_share: float
    leakage: FloatArray
    picks: FloatArray


@app.command()
def demo(
    rounds: Annotated[int, typer.Option(help="How many rounds each policy plays.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of every random stream.")] = 0,
) -> None:
    """Compare who is picked, how long the rounds last and what leaks, for every policy (no training)."""
    require(rounds >= 1, "rounds", rounds, "1 or more", "play at least one")
    console = Console() if sys.stdout.isatty() else Console(width=100)
    names = ("pause", "sa-pause", "random", "all", "fastest", "clustered")
    outcomes = [
        _play(name, rounds, seed)
        for name in track(names, "playing", console=console, transient=True, disable=not console.is_terminal)
    ]
    console.print(_table(outcomes, rounds))
    console.print(
        "fast: picks that went to the fast half; leak: epsilon spent (local differential privacy, per coordinate of "
        f"an update) of {_BUDGET:g} that each client may leak in all; unused: clients whose data was never used."
    )


def _play(name: str, rounds: int, seed: int) -> _Outcome:
    from pausefl.privacy import Geometric
    from pausefl.rng import stream
    from pausefl.selection import Fastest
    from pausefl.selector import Selector
    from pausefl.sim.latency import two_groups

    network = two_groups(_CLIENTS, _TAU_MIN)
    selector = Selector(
        np.ones(_CLIENTS),
        _PER_ROUND,
        Fastest(network.expected()) if name == "fastest" else name,
        schedule=Geometric(_BUDGET, decay=0.04),
        tau_min=_TAU_MIN,
        seed=seed,
    )
    seconds = 0.0
    for number in range(1, rounds + 1):
        chosen = selector.select().members
        latency = network.sample(stream(seed, "latency", number))
        seen = {client: float(latency[int(client)]) for client in chosen}
        selector.observe(seen)
        seconds += max(seen.values())
    picks = selector.cohort.picks.astype(np.float64)
    fast = float(picks[: _CLIENTS // 2].sum() / picks.sum())
    return _Outcome(name, seconds, fast, selector.spent(), picks)


def _table(outcomes: list[_Outcome], rounds: int) -> Table:
    table = Table(title=f"{_CLIENTS} clients, {_PER_ROUND} per round, {rounds} rounds, budget {_BUDGET:g} per client")
    for name in ("policy", "clock s", "s/round", "fast", "max leak", "median leak", "unused"):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for outcome in outcomes:
        table.add_row(
            outcome.name,
            f"{outcome.seconds:.1f}",
            f"{outcome.seconds / rounds:.3f}",
            f"{outcome.fast_share:.0%}",
            f"{outcome.leakage.max():.1f}",
            f"{np.median(outcome.leakage):.1f}",
            f"{int((outcome.picks == 0).sum())}",
        )
    return table
