"""``pausefl demo``: real federated training on handwritten digits, every policy, a table and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pausefl.cli import app
from pausefl.cli.arguments import TRAINING
from pausefl.cli.run import bars, show
from pausefl.cli.tables import show_runs
from pausefl.errors import require

POLICIES = ("pause", "sa-pause", "random", "clustered", "fastest", "all", "all (no privacy)")


@app.command(rich_help_panel=TRAINING)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("runs/demo"),
    rounds: Annotated[int, typer.Option(help="How many rounds each policy plays.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of every random stream.")] = 0,
    jobs: Annotated[int, typer.Option(help="How many processes to use.")] = 2,
) -> None:
    """Train 30 clients on handwritten digits under every policy; compare accuracy, time and leakage."""
    from pausefl.report.charts import require_charts
    from pausefl.report.html import write_report
    from pausefl.studies.config import make_config
    from pausefl.studies.many import Task, run_many

    require(rounds >= 1, "--rounds", rounds, "1 or more", "play at least one")
    require(jobs >= 1, "--jobs", jobs, "1 or more", "use at least one process")
    require(seed >= 0, "--seed", seed, "0 or more", "count seeds from 0")
    require_charts()
    tasks = []
    for name in POLICIES:
        policy, _, free = name.partition(" ")
        config = make_config(
            {
                "data": {"name": "digits"},
                "selection": {"policy": policy},
                "privacy": {"enabled": not free, "budget": 40.0, "width": 0.01},
                "run": {"rounds": rounds, "seed": seed, "checkpoint_every": 50},
            }
        )
        tasks.append(Task(config, out / f"{name} {rounds} {seed}".translate(str.maketrans(" ", "-", "()"))))
    console = Console(stderr=True)
    with bars(console) as progress:
        lines = [progress.add_task(name, total=rounds, note="") for name in POLICIES]
        summaries = run_many(tasks, jobs=jobs, progress=lambda i, n: show(progress, lines[i], tasks[i].out, n))
    typer.echo("Handwritten digits, 30 clients (half fast, half slow), 5 per round; every client may leak 40 in all.")
    show_runs([task.out for task in tasks], [80.0, 90.0])
    typer.echo(f"What 'leak' covers: {summaries[0]['guarantee']}.")
    page = write_report([task.out for task in tasks], out / "report.html", "PAUSE and its baselines on digits")
    typer.echo(f"Report with charts: {page}")
