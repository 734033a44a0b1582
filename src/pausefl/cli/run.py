"""``pausefl run``: one configuration, one or more seeds, resumable."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pausefl.cli import app
from pausefl.cli.arguments import TRAINING, AsJson, DataDir, Overrides
from pausefl.cli.tables import show_runs
from pausefl.errors import ConfigError, require

if TYPE_CHECKING:
    from pausefl.studies.config import Config


@app.command(rich_help_panel=TRAINING)
def run(
    config: Annotated[Path, typer.Argument(help="A TOML file; every key has a default.")],
    out: Annotated[Path, typer.Option(help="Folder for metrics, checkpoints and the summary.")],
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(help="Run this many seeds, counting up from run.seed.")] = 1,
    jobs: Annotated[int, typer.Option(help="How many processes to use; the result is the same.")] = 1,
    data_dir: DataDir = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train under the virtual clock; called again, it resumes where it stopped."""
    from pausefl.studies.config import load_config
    from pausefl.studies.many import Task, run_many

    require(seeds >= 1, "--seeds", seeds, "1 or more", "run at least one")
    require(jobs >= 1, "--jobs", jobs, "1 or more", "use at least one process")
    base = load_config(config, overrides or [])
    use_own_modules(config, [base])
    first = base.run.seed
    configs = [base.model_copy(update={"run": base.run.model_copy(update={"seed": first + i})}) for i in range(seeds)]
    folders = [out] if seeds == 1 else [out / f"seed-{c.run.seed}" for c in configs]
    if seeds > 1 and (out / "config.toml").exists():
        raise ConfigError(f"{out} holds a single run; name another folder for {seeds} seeds")
    console = Console(stderr=True)
    with bars(console) as progress:
        tasks = [progress.add_task(f"seed {c.run.seed}", total=c.run.rounds, note="") for c in configs]
        try:
            summaries = run_many(
                [Task(c, folder) for c, folder in zip(configs, folders, strict=True)], data_dir=data_dir, jobs=jobs,
                progress=lambda i, n: show(progress, tasks[i], folders[i], n),
            )  # fmt: skip
        except KeyboardInterrupt:
            console.print(f"interrupted; the same command goes on from the last checkpoint in {out}")
            raise
    if tensorboard:
        _write_events(folders)
    if as_json:
        typer.echo(json.dumps(summaries, indent=1))
        return
    show_runs(folders)
    typer.echo(f"guarantee: {summaries[0]['guarantee']}\nwrote {out}")


def use_own_modules(file: Path, configs: Iterable[Config]) -> None:
    """Let policies, models and data that a configuration names by import path lie beside it or in the current folder.

    Only then, only after everything that is installed, and not without saying so: a file from a stranger must not
    bring code that nobody asked for.
    """
    paths = {name for c in configs for name in (c.selection.policy, c.learning.model, c.data.name)}
    named = sorted(name for name in paths if ":" in name)
    if named:
        typer.echo(f"pausefl: this configuration runs code of its own: {', '.join(named)}", err=True)
        sys.path += [str(file.resolve().parent), str(Path.cwd())]


def bars(console: Console) -> Progress:
    """Return a progress display that is quiet when nobody watches."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[note]}"), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip


def show(progress: Progress, task: Any, folder: Path, number: int) -> None:
    """Move a bar, with accuracy, clock and leakage of the last round."""
    from pausefl.studies.run import last_record

    record = last_record(folder) if not progress.disable else None
    note = ""
    if record is not None:
        accuracy = f"{record['accuracy']:.1f} %" if "accuracy" in record else ""
        leak = "" if record["max_leakage"] is None else f"leak {record['max_leakage']:.1f}"
        note = f"{accuracy}  {record['seconds']:.0f} s  {leak}"
    progress.update(task, completed=number, note=note)


def _write_events(folders: list[Path]) -> None:
    from pausefl.report.events import write_events

    for folder in folders:
        write_events(folder)
