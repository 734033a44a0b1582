"""``pausefl demo``: real federated training on handwritten digits, every policy, a table and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.compare import print_runs, show_runs
from pausefl.cli.options import TRAINING, AsJson, Jobs
from pausefl.cli.play_runs import play_all

POLICIES = ("pause", "sa-pause", "random", "clustered", "fastest", "all", "all (no privacy)")
_TARGETS = (80.0, 90.0)


@app.command(rich_help_panel=TRAINING)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("runs/demo"),
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds each policy plays.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random stream.")] = 0,
    jobs: Jobs = 2,
    as_json: AsJson = False,
) -> None:
    """Train 30 clients on handwritten digits under every policy; compare accuracy, time and leakage."""
    from pausefl.report.chart_base import require_charts
    from pausefl.report.report_files import write_page
    from pausefl.report.run_report import run_report
    from pausefl.runs.parallel import Task
    from pausefl.studies.trained import TrainedStudy, folder_name

    require_charts()
    about = {"title": "PAUSE and its baselines on digits", "policies": list(POLICIES)}
    privacy, length = {"budget": 40.0, "width": 0.01}, {"rounds": rounds, "checkpoint_every": 50}
    study = TrainedStudy.read("demo", about, {"data": {"name": "digits"}, "privacy": privacy, "run": length})
    tasks = [Task(study.config(name, seed, "full"), out / folder_name(f"{name} {rounds} {seed}")) for name in POLICIES]
    runs = play_all(tasks, POLICIES, out, None, jobs)
    page = write_page(run_report(runs, study.about.title), out / "report.html")
    if as_json:
        print_runs(runs, _TARGETS)
        return
    typer.echo("Handwritten digits, 30 clients (half fast, half slow), 5 per round; every client may leak 40 in all.")
    show_runs(runs, _TARGETS)
    typer.echo(f"What 'leak' covers: {runs[0].guarantee}.")
    typer.echo(f"Report with charts: {page}")
