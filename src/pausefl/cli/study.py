"""``pausefl study``: a figure of the paper, or a study of your own, in one command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pausefl.cli import app
from pausefl.cli.run import bars, show
from pausefl.errors import ConfigError, InvalidValueError, require


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="A study of the paper, or a TOML file.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the paper's studies.")] = False,
    scale: Annotated[str, typer.Option(help="full, half (an evening on two cores) or smoke (seconds).")] = "half",
    seeds: Annotated[int | None, typer.Option(help="How many seeds; the study's own number by default.")] = None,
    policies: Annotated[list[str] | None, typer.Option("--policy", help="Only this one; may be repeated.")] = None,
    jobs: Annotated[int, typer.Option(help="How many processes to use; the result is the same.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for the runs and the report.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data sets are kept.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="section.key=value; may be repeated.")] = None,
) -> None:
    """Run every policy of a study and write its report; called again, it goes on where it stopped."""
    from pausefl.report.charts import require_charts
    from pausefl.report.html import write_report
    from pausefl.studies.many import run_many
    from pausefl.studies.study import load_study, study_names

    screen = Console() if sys.stdout.isatty() else Console(width=100)
    if listed:
        for known in study_names():
            about = load_study(known)
            typer.echo(f"{known:18} {about.title}: {', '.join(about.figures)}")
        return
    if name is None:
        raise ConfigError("study has no name; pausefl study --list names the paper's, or pass a TOML file")
    if scale not in ("full", "half", "smoke"):
        raise InvalidValueError(f"--scale is {scale!r}, but must be full, half or smoke; choose one")
    require(jobs >= 1, "--jobs", jobs, "1 or more", "use at least one process")
    require(seeds is None or seeds >= 1, "--seeds", seeds, "1 or more", "run at least one")
    require_charts()
    chosen = load_study(name)
    sys.path.insert(0, str(Path(name).resolve().parent))  # policies and models of your own may lie beside the file
    folder = out or Path("runs") / f"{chosen.name}-{scale}"
    tasks = chosen.tasks(folder, scale, seeds, overrides or [], policies or [])  # type: ignore[arg-type]
    console = Console(stderr=True)
    with bars(console) as progress:
        lines = [
            progress.add_task(str(task.out.relative_to(folder)), total=task.config.run.rounds, note="")
            for task in tasks
        ]
        try:
            run_many(
                tasks, data_dir=data_dir, jobs=jobs, progress=lambda i, n: show(progress, lines[i], tasks[i].out, n)
            )
        except KeyboardInterrupt:
            console.print(f"interrupted; the same command goes on from the last checkpoints in {folder}")
            raise
    page = write_report([folder], folder / "report.html", chosen.title)
    screen.print(f"{chosen.title}\nreport: {page}")
