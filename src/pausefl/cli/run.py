"""``pausefl run``: play one configuration, with one or more seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.compare import show_runs
from pausefl.cli.options import TRAINING, AsJson, DataDir, Jobs, Overrides, Ray
from pausefl.cli.play_runs import play_all, use_own_modules
from pausefl.errors import ConfigError


@app.command(rich_help_panel=TRAINING)
def run(
    config: Annotated[Path, typer.Argument(help="The TOML file of the run. Every key in it has a default.")],
    out: Annotated[Path, typer.Option(help="Folder for metrics, checkpoints and the summary.")],
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run. The first one is run.seed.")] = 1,
    jobs: Jobs = 1,
    ray: Ray = None,
    data_dir: DataDir = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate the training of one configuration. If you call it again, it continues where it stopped."""
    from pausefl.runs.config import load_config
    from pausefl.runs.parallel import Task

    base = load_config(config, overrides or [])
    use_own_modules(config, [base])
    first = base.run.seed
    configs = [base.model_copy(update={"run": base.run.model_copy(update={"seed": first + i})}) for i in range(seeds)]
    folders = [out] if seeds == 1 else [out / f"seed-{c.run.seed}" for c in configs]
    if seeds > 1 and (out / "config.toml").exists():
        raise ConfigError(f"{out} already holds a run of one seed; pass another --out folder for {seeds} seeds")
    tasks = [Task(c, folder) for c, folder in zip(configs, folders, strict=True)]
    runs = play_all(tasks, [f"seed {c.run.seed}" for c in configs], out, data_dir, jobs, ray)
    if tensorboard:
        from pausefl.report.report_files import write_events

        for played, folder in zip(runs, folders, strict=True):
            write_events(played, folder / "tensorboard")
    if as_json:
        typer.echo(json.dumps([played.summary for played in runs], indent=1))
        return
    show_runs(runs)
    typer.echo(f"wrote {out}")
