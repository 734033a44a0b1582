"""``pausefl regret``: the bandit alone, measured against the genie and against Theorem 1."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pausefl import __version__
from pausefl.cli import app
from pausefl.cli.options import PAPER, AsJson, complete_policy
from pausefl.errors import require


@app.command(rich_help_panel=PAPER)
def regret(
    clients: Annotated[int, typer.Option(help="How many clients there are (half fast, half slow).")] = 30,
    per_round: Annotated[int, typer.Option(help="How many are picked per round.")] = 5,
    rounds: Annotated[int, typer.Option(help="How many rounds to play.")] = 3000,
    seeds: Annotated[int, typer.Option(help="How many independent runs.")] = 5,
    policy: Annotated[
        str, typer.Option(help="pause, sa-pause, brute, random or fastest.", autocompletion=complete_policy)
    ] = "pause",
    alpha: Annotated[float, typer.Option(help="Weight of generalization.")] = 100.0,
    gamma: Annotated[float, typer.Option(help="Weight of privacy.")] = 5.0,
    out: Annotated[Path | None, typer.Option(help="Also write regret.csv and charts (SVG, PNG) here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play the selection bandit without training; show regret against log n and the bound of Theorem 1."""
    require(rounds >= 2, "rounds", rounds, "2 or more", "log n is 0 at n = 1")
    require(seeds >= 1, "seeds", seeds, "1 or more", "run at least one")
    console = Console(stderr=True, quiet=as_json)
    if out is not None:
        _prepare(out)
    setting = {
        "policy": policy, "clients": clients, "per_round": per_round, "rounds": rounds, "alpha": alpha, "gamma": gamma
    }  # fmt: skip
    title = f"{policy}: {clients} clients, {per_round} per round, seeds: {seeds}"
    measured = _measure(console, setting | {"name": title}, seeds)
    rows = [_summary(n, measured) for n in sorted({row["rounds"] for row in measured})]
    if as_json:
        settings = setting | {"seeds": seeds}
        finite = [{k: v if math.isfinite(v) else None for k, v in row.items()} for row in rows]
        typer.echo(json.dumps({"pausefl": __version__, "settings": settings, "rows": finite}, allow_nan=False))
    else:
        screen = Console() if sys.stdout.isatty() else Console(width=100)
        screen.print(_table(rows, title, screen.width))
        screen.print(_reading(rows, per_round, clients, learns=policy in ("pause", "sa-pause", "brute")))
    if out is not None:
        pictures = _write(out, rows, measured)
        console.print(f"wrote {', '.join(map(str, (out / 'regret.csv', *pictures)))}", soft_wrap=True)


def _measure(console: Console, setting: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    from pausefl.studies.measured.regret import Regret, Setting

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("playing", total=1.0)
        game = Regret(settings=[Setting(**setting)], seeds=seeds)
        return list(game.rows(lambda share: bar.update(line, completed=share)))


def _summary(n: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean over the seeds after n rounds."""
    here = [row for row in rows if row["rounds"] == n]
    now, before, earlier = (float(np.mean([row[key] for row in here])) for key in ("regret", "at_half", "at_quarter"))
    last, last_but_one = now - before, before - earlier
    return {
        "rounds": n,
        "mean": now,
        "low": min(row["regret"] for row in here),
        "high": max(row["regret"] for row in here),
        "realised": float(np.mean([row["realised"] for row in here])),
        "per_log": now / math.log(n) if n > 1 else 0.0,
        "doubling": last,
        "growth": last / last_but_one if last_but_one > 0.0 else math.nan,
        "bound": here[0]["bound"],
    }


def _table(rows: list[dict[str, Any]], title: str, width: int) -> Table:
    table = Table(title=f"Regret against the genie, {title}")
    columns: list[tuple[str, Callable[[dict[str, Any]], str]]]
    columns = [("n", lambda r: f"{r['rounds']:,}"), ("regret", lambda r: f"{r['mean']:.4g}")]
    columns.append(("/ ln n", lambda r: f"{r['per_log']:.3g}"))
    columns.append(("+ by 2x", lambda r: f"{r['doubling']:.3g}"))
    if width >= 60:
        columns.append(("min … max", lambda r: f"{r['low']:.4g} … {r['high']:.4g}"))
        columns.append(("bound", lambda r: f"{r['bound']:.2e}"))
    if width >= 78:
        most = max(row["mean"] for row in rows) or 1.0
        columns.append(("", lambda r: "▇" * round(12 * r["mean"] / most)))
    for name, _ in columns:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(text(row) for _, text in columns))
    return table


def _reading(rows: list[dict[str, Any]], per_round: int, clients: int, learns: bool) -> str:
    last = rows[-1]
    n, growth = last["rounds"], last["growth"]
    bonus = math.sqrt((per_round + 1) * math.log(n) * clients / (n * per_round))
    lines = ["'+ by 2x': what the last doubling of n added; constant under logarithmic growth, doubling under linear."]
    if math.isfinite(growth):
        lines.append(f"Here the last doubling added {growth:.2g} times what the one before did.")
    if learns:
        lines.append(
            f"The exploration bonus is still about {bonus:.2g}, while speeds differ by less than 1: growth turns "
            "logarithmic once the bonus is small against the differences, far beyond the rounds of a training run."
        )
    if math.isfinite(last["bound"]):
        lines.append(
            f"Measured regret is {last['mean'] / last['bound']:.1g} of Theorem 1's bound, which is very loose."
        )
    return "\n".join(lines)


def _prepare(out: Path) -> None:
    from pausefl.report.charts import require_charts

    require_charts()
    require(not out.exists() or out.is_dir(), "--out", str(out), "a folder, existing or new", "name another")
    out.mkdir(parents=True, exist_ok=True)


def _write(out: Path, rows: list[dict[str, Any]], measured: list[dict[str, Any]]) -> list[Path]:
    from pausefl.report.measured import write_measured_images

    with (out / "regret.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return write_measured_images("regret", measured, out)
