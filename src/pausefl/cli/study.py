"""``pausefl study``: a figure of the paper, or a study of your own, in one command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson, DataDir, Overrides, complete_scale, complete_study
from pausefl.cli.progress import play_all, use_own_modules
from pausefl.cli.tables import print_runs, show_runs
from pausefl.errors import ConfigError, require

if TYPE_CHECKING:
    from pausefl.studies.measured.base import Measurement
    from pausefl.studies.measured.study import MeasuredStudy
    from pausefl.studies.study import Scale, Study


@app.command(rich_help_panel=TRAINING)
def study(
    name: Annotated[
        str | None,
        typer.Argument(help="A study of the paper (--list), or a TOML file.", autocompletion=complete_study),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the paper's studies.")] = False,
    scale: Annotated[
        str,
        typer.Option(help="full, half (an evening on two cores) or smoke (seconds).", autocompletion=complete_scale),
    ] = "half",
    seeds: Annotated[int | None, typer.Option(help="How many seeds; the study's own number by default.")] = None,
    policies: Annotated[list[str] | None, typer.Option("--policy", help="Only this one; may be repeated.")] = None,
    jobs: Annotated[int, typer.Option(help="How many processes to use; the result is the same.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for runs and report: runs/NAME-SCALE if left out.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="CSV of a curve to draw beside (round, seconds, accuracy, max_leakage).")
    ] = None,
    data_dir: DataDir = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Run every policy of a study and write its report; called again, it goes on where it stopped.

    Studies without training (g-function, complexity, regret, annealing) measure anew; --jobs and --data-dir do nothing.
    """
    from pausefl.report.charts import require_charts
    from pausefl.report.page.report import write_report
    from pausefl.studies.load import load_study, study_names
    from pausefl.studies.study import Study, scale_named

    if listed:
        shelf = {known: load_study(known).about for known in study_names()}
        if as_json:
            rows = [{"name": n, "title": about.title, "figures": about.figures} for n, about in shelf.items()]
            typer.echo(json.dumps(rows, indent=1))
            return
        for known, about in shelf.items():
            typer.echo(f"{known:18} {about.title}: {', '.join(about.figures)}")
        return
    if name is None:
        raise ConfigError("study has no name; pausefl study --list names the paper's, or pass a TOML file")
    size = scale_named(scale)
    require(jobs >= 1, "--jobs", jobs, "1 or more", "use at least one process")
    require(seeds is None or seeds >= 1, "--seeds", seeds, "1 or more", "run at least one")
    require_charts()
    chosen = load_study(name)
    folder = out or Path("runs") / f"{chosen.name}-{scale}"
    if isinstance(chosen, Study):
        tasks = chosen.tasks(folder, size, seeds, overrides or [], policies or [])
        use_own_modules(Path(name), [task.config for task in tasks])
        play_all(tasks, [str(task.out.relative_to(folder)) for task in tasks], folder, data_dir, jobs)
        page = write_report([folder], folder / "report.html", _title(chosen, size), reference or [])
        if as_json:
            print_runs([folder])
            return
        show_runs([folder])
    else:
        require(
            not reference, "number of --reference", len(reference or []), "0 here",
            f"{chosen.name} has no accuracy or leakage",
        )  # fmt: skip
        require(not policies, "--policy", policies, "left out", f"{chosen.name} compares no policies")
        page = _measure(chosen, chosen.measurement(size, seeds, overrides or []), folder)
        if as_json:
            typer.echo(json.dumps(list(csv.DictReader((folder / "rows.csv").read_text().splitlines())), indent=1))
            return
    typer.echo(f"{_title(chosen, size)}\nreport: {page}")


def _title(study: Study | MeasuredStudy, scale: Scale) -> str:
    """Say what was run: only at full scale is it what the title says."""
    return study.about.title + {"full": "", "half": " (half scale)", "smoke": " (smoke scale: a trial in small)"}[scale]


def _measure(chosen: MeasuredStudy, measurement: Measurement, folder: Path) -> Path:
    from pausefl.report.measured import write_measured
    from pausefl.studies.measured.study import write_rows

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task(chosen.name, total=1.0)
        rows = write_rows(measurement, folder, lambda share: bar.update(line, completed=share))
    return write_measured(chosen.about.measures, rows, folder / "report.html", chosen.about.title)
