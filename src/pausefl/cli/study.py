"""``pausefl study``: play a study of the paper or of your own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from pausefl.cli import app
from pausefl.cli.compare import show_runs
from pausefl.cli.options import TRAINING, AsJson, DataDir, Jobs, Overrides, Ray, References, Scale, complete_study
from pausefl.cli.play_runs import play_all, use_own_modules
from pausefl.errors import ConfigError
from pausefl.system.printable_text import printable

if TYPE_CHECKING:
    from pausefl.runs.parallel import Task
    from pausefl.runs.run_data import RunData


@app.command(rich_help_panel=TRAINING)
def study(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The name of a built-in study (see --list), or a TOML file.", autocompletion=complete_study
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the built-in studies and stop.")] = False,
    scale: Scale = "half",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds to run. The default is the study's own number.")
    ] = None,
    policies: Annotated[
        list[str] | None, typer.Option("--policy", help="Run only this policy. You can repeat this option.")
    ] = None,
    jobs: Jobs = 2,
    ray: Ray = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs and the report. The default is runs/NAME-SCALE.")
    ] = None,
    reference: References = None,
    data_dir: DataDir = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Run every policy of a study and write its report. If you call it again, it continues where it stopped.

    Some built-in studies end in a table of measurements instead of runs. --jobs and --data-dir have no effect on them.
    If you call them again, most of them start from the beginning.
    """
    if listed:
        _list_studies(as_json)
        return
    if name is None:
        raise ConfigError(
            "the name of the study is missing; run 'pausefl study --list' to see the built-in studies, or pass a TOML "
            "file"
        )
    from pausefl.report.chart_base import require_charts
    from pausefl.report.report_files import write_page
    from pausefl.studies.load import load_study
    from pausefl.studies.study import Order
    from pausefl.studies.trained import TrainedStudy

    require_charts()
    chosen = load_study(name)
    folder = out or Path("runs") / f"{chosen.name}-{scale}"
    order = Order(
        out=folder, scale=scale, seeds=seeds, policies=policies or (), overrides=overrides or (),
        references=reference or (),
    )  # fmt: skip

    def train(tasks: Sequence[Task]) -> Sequence[RunData]:
        return play_all(tasks, [str(task.out.relative_to(folder)) for task in tasks], folder, data_dir, jobs, ray)

    if isinstance(chosen, TrainedStudy):
        names = chosen.about.policies
        use_own_modules(Path(name), [chosen.with_all_options(one, 0, scale, order.overrides) for one in names])
    elif ray is not None:
        raise ConfigError(
            f"--ray is {ray!r}, but study {chosen.name!r} ends in a table and has no runs for a cluster; leave it out"
        )
    with _bar(chosen.name) as progress:
        outcome = chosen.play(order, train, progress)
    page = write_page(outcome.report, folder / "report.html")
    if as_json:
        typer.echo(json.dumps(outcome.rows, indent=1))
        return
    if outcome.runs:
        show_runs(outcome.runs)
    facts = () if outcome.runs else outcome.report.facts  # of runs, the table says more
    typer.echo("\n".join(map(printable, [outcome.report.title, *facts, f"report: {page}"])))


def _list_studies(as_json: bool) -> None:
    from pausefl.studies.load import load_study, study_names

    known = {name: load_study(name).about for name in study_names()}
    if as_json:
        rows = [{"name": name, "title": about.title, "figures": about.figures} for name, about in known.items()]
        typer.echo(json.dumps(rows, indent=1))
        return
    for name, about in known.items():
        typer.echo(": ".join(filter(None, [f"{name:20} {about.title}", ", ".join(about.figures)])))


@contextmanager
def _bar(name: str) -> Iterator[Callable[[float], None]]:
    """Give a function that shows the share that is done; the bar appears when it is first called."""
    console = Console(stderr=True)
    bars = Progress(console=console, transient=True, disable=not console.is_terminal)
    line = bars.add_task(escape(printable(name)), total=1.0)

    def show(share: float) -> None:
        bars.start()
        bars.update(line, completed=share)

    try:
        yield show
    finally:
        bars.stop()
