"""``pausefl demo``: train on handwritten digits under every policy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pausefl.cli import app
from pausefl.cli.compare import show_runs
from pausefl.cli.options import TRAINING, AsJson, Jobs
from pausefl.cli.play_runs import play_all

if TYPE_CHECKING:
    from pausefl.runs.run_data import RunData
    from pausefl.studies.trained import TrainedStudy

WHOLE_UPDATE = ("pause", "random", "clustered", "fastest", "pause (rehearsed)")
COORDINATE = ("pause", "sa-pause", "random", "clustered", "fastest", "all", "all (no privacy)")
_BUDGET, _RELEASES, _WHOLE_ROUNDS = 40.0, 3, 18
_TARGETS = (80.0, 90.0)


@app.command(rich_help_panel=TRAINING)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the reports.")] = Path("runs/demo"),
    rounds: Annotated[
        int,
        typer.Option(
            min=1, help="How many rounds each policy plays. Where the whole update is protected, it plays at most 18."
        ),
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The seed of all random numbers.")] = 0,
    jobs: Jobs = 2,
    as_json: AsJson = False,
) -> None:
    """Train 30 clients on handwritten digits under every policy, and compare accuracy, time and leakage."""
    from pausefl.report.chart_base import require_charts
    from pausefl.report.policy_summary import by_policy, summarise
    from pausefl.report.report_files import write_page
    from pausefl.report.run_report import run_report
    from pausefl.runs.parallel import Task
    from pausefl.studies.trained import folder_name

    require_charts()
    studies = _studies(rounds)
    tasks = {
        name: [
            Task(study.config(policy, seed, "full"), out / name / folder_name(f"{policy} {rounds} {seed}"))
            for policy in study.about.policies
        ]
        for name, study in studies.items()
    }
    policies = [policy for study in studies.values() for policy in study.about.policies]
    runs = play_all([task for some in tasks.values() for task in some], policies, out, None, jobs)
    found: dict[str, list[RunData]] = {}
    for name, study in studies.items():
        found[name], runs = runs[: len(tasks[name])], runs[len(tasks[name]) :]
        write_page(run_report(found[name], study.about.title), out / name / "report.html")
    if as_json:
        rows = {name: [asdict(one) for one in summarise(by_policy(some), _TARGETS)] for name, some in found.items()}
        typer.echo(json.dumps(rows, indent=1))
        return
    for name, study in studies.items():
        typer.echo(f"{study.about.title}.")
        show_runs(found[name], _TARGETS)
        typer.echo(f"What 'leak' covers: {found[name][0].guarantee}.")
        typer.echo(f"Report with charts: {out / name / 'report.html'}\n")


def _studies(rounds: int) -> dict[str, TrainedStudy]:
    from pausefl.studies.trained import TrainedStudy

    digits, length = {"name": "digits"}, {"rounds": rounds, "checkpoint_every": 50}
    who = "Handwritten digits, 30 clients, 5 per round; every client may leak 40 in its whole life"
    whole: dict[str, Any] = {
        "data": digits, "run": length | {"rounds": min(rounds, _WHOLE_ROUNDS)},
        "privacy": {"budget": _BUDGET, "schedule": "fixed-horizon", "releases": _RELEASES, "mechanism": "privunit",
                    "unit": "update"},
        "learning": {"features": "hog", "model": "softmax", "optimizer": "sgd", "optimizer_state": "fresh", "lr": 0.1,
                     "batch": 0, "epochs": 8},
        "server": {"step": 0.34, "average": 0.9},
    }  # fmt: skip
    paper: dict[str, Any] = {"data": digits, "run": length, "privacy": {"budget": _BUDGET, "width": 0.01}}
    return {
        "whole-update": TrainedStudy.read(
            "demo", {"title": f"{who}, about all of its data together", "policies": list(WHOLE_UPDATE)}, whole
        ),
        "coordinate": TrainedStudy.read(
            "demo",
            {"title": f"{who}, about each single parameter, as in the paper", "policies": list(COORDINATE)},
            paper,
        ),
    }
