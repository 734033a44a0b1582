"""Play the runs of a command: announce the user's own code, and show progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pausefl.errors import ConfigError
from pausefl.system.import_path import module_file
from pausefl.system.printable_text import printable

if TYPE_CHECKING:
    from pausefl.runs.config import Config
    from pausefl.runs.parallel import Task
    from pausefl.runs.run_data import RunData


def use_own_modules(file: Path, configs: Iterable[Config]) -> None:
    """Let policies, models and data that a configuration names by import path lie beside it or in the current folder.

    Only then, only after everything that is installed, and not without saying so: a file from a stranger must not
    bring code that nobody asked for.
    """
    if _announce(configs):
        sys.path += [str(file.resolve().parent), str(Path.cwd())]


def use_modules_for_results(run: Path, stored: Config, asked: Config) -> None:
    """Let code that a run's folder names, or the user asks for, lie in the current folder.

    The folder may come from others, and the user wants to read it only.  So nothing of it may run: neither what lies in
    it, nor what lies beside it in the part of the current folder that holds it and may have come with it.
    """
    from pausefl.runs.own_code_hashes import own_code

    if not _announce([stored, asked]):
        return
    here, results = Path.cwd().resolve(), run.resolve()
    if not here.is_relative_to(results):
        sys.path.append(str(here))
        results = here / results.relative_to(here).parts[0] if results.is_relative_to(here) else results
    for path in own_code(stored):
        *_, file = files = [module_file(name) for name in _packages(path.partition(":")[0])]
        if file is None or any(one is not None and one.resolve().is_relative_to(results) for one in files):
            raise ConfigError(
                f"{run} runs {path}, which is not code of yours: pausefl takes no code from a folder of results; if "
                "you have read it and trust it, put it into the current folder or on PYTHONPATH"
            )


def _announce(configs: Iterable[Config]) -> bool:
    """Say which code of their own configurations run; return whether there is any."""
    from pausefl.runs.own_code_hashes import own_code

    named = sorted({path for config in configs for path in own_code(config)})
    if named:
        typer.echo(printable(f"pausefl: this configuration runs code of its own: {', '.join(named)}"), err=True)
    return bool(named)


def _packages(module: str) -> list[str]:
    """Return a module and the packages around it, the outermost first."""
    return list(accumulate(module.split("."), "{}.{}".format))


def play_all(
    tasks: Sequence[Task], names: Sequence[str], out: Path, data_dir: Path | None, jobs: int, ray: str | None = None
) -> list[RunData]:
    """Run all tasks, each with a bar of its name where somebody watches; return the runs."""
    from pausefl.runs.parallel import Players, ThisMachine, run_many

    console = Console(stderr=True, markup=False)
    players: Players = ThisMachine(jobs)
    if ray is not None:
        from pausefl.runs.ray_cluster import RayCluster

        players = RayCluster(ray, say=lambda line: console.print(printable(f"pausefl: {line}"), soft_wrap=True))
    with _bars(console) as bars:
        lines = [
            bars.add_task(name, total=task.config.run.rounds, note="") for name, task in zip(names, tasks, strict=True)
        ]
        progress = (lambda i, record: _show(bars, lines[i], record)) if console.is_terminal else None
        try:
            return run_many(tasks, data_dir=data_dir, players=players, progress=progress)
        except KeyboardInterrupt:
            console.print(
                f"interrupted; run the same command again to continue from the last checkpoints in {out}",
                soft_wrap=True,
            )
            raise


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[note]}"), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip


def _show(bars: Progress, line: TaskID, record: Mapping[str, Any]) -> None:
    """Move a bar, with accuracy, clock and leakage of the last round."""
    accuracy = f"{record['accuracy']:.1f} %" if "accuracy" in record else ""
    leak = "" if record["max_leakage"] is None else f"leak {record['max_leakage']:.1f}"
    bars.update(line, completed=record["round"], note=f"{accuracy}  {record['seconds']:.0f} s  {leak}")
