"""``pausefl tune``: a value that the paper leaves out, chosen once for all policies of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pausefl.cli import app
from pausefl.cli.compare import print_runs, show_runs
from pausefl.cli.options import TRAINING, AsJson, DataDir, Jobs, Overrides, Scale, complete_policy, complete_study
from pausefl.cli.play_runs import play_all, use_own_modules
from pausefl.errors import ConfigError, require

_SEED = 100


@app.command(rich_help_panel=TRAINING)
def tune(
    study: Annotated[str, typer.Argument(help="A study of the paper, or a TOML file.", autocompletion=complete_study)],
    key: Annotated[str, typer.Argument(help="What to vary, e.g. privacy.width.")],
    values: Annotated[str, typer.Argument(help="Its values, e.g. 0.001,0.003,0.01.")],
    policy: Annotated[
        str, typer.Option(help="Who picks; random favours no policy of the study.", autocompletion=complete_policy)
    ] = "random",
    seed: Annotated[int, typer.Option(min=0, help="A seed the study itself does not use.")] = _SEED,
    scale: Scale = "half",
    jobs: Jobs = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for the runs: runs/tune-STUDY-KEY if left out.")] = None,
    data_dir: DataDir = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Run a study's settings with one key at several values, and print what came of each."""
    from pausefl.runs.parallel import Task
    from pausefl.studies.load import load_study
    from pausefl.studies.trained import TrainedStudy, folder_name

    chosen = load_study(study)
    if not isinstance(chosen, TrainedStudy):
        raise ConfigError(f"{study} trains nothing, so there is nothing to tune; name a study with policies")
    folder = out or Path("runs") / f"tune-{chosen.name}-{key}"
    names = [value.strip() for value in values.split(",") if value.strip()]
    require(len(names) > 0, "values", values, "one value or more", "separate them by commas")
    use_own_modules(Path(study), [chosen.with_all_options(policy, seed, scale, overrides or ())])
    tasks = [
        Task(chosen.config(policy, seed, scale, [*(overrides or []), f"{key}={value}"]), folder / folder_name(value))
        for value in names
    ]
    runs = play_all(tasks, [f"{key}={value}" for value in names], folder, data_dir, jobs)
    (print_runs if as_json else show_runs)(runs)
