"""``pausefl tune``: search for the best values of several keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pausefl.cli import app
from pausefl.cli.options import TRAINING, AsJson, DataDir, Overrides, Percent, complete_policy, complete_study, terminal
from pausefl.cli.play_runs import use_own_modules
from pausefl.system.printable_text import printable

if TYPE_CHECKING:
    from pausefl.studies.search.search import SearchResult, TrialResult, Watcher
    from pausefl.studies.search.space import Space
    from pausefl.studies.search.subject import Subject

_SEED = 100
_CODE = ("selection.policy", "learning.model", "data.name", "learning.features")
"""Keys that may name code of the user's own."""


@app.command(rich_help_panel=TRAINING)
def tune(
    source: Annotated[
        str,
        typer.Argument(
            help="The TOML file of a run, the name of a built-in study, or the TOML file of a study.",
            autocompletion=complete_study,
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES",
            help="A key to vary: KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=V1,V2,…. Repeat this option for more keys.",
        ),
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option(click_type=Percent(), help="Search for the shortest time to this accuracy (percent)."),
    ] = None,
    most_leakage: Annotated[
        float | None,
        typer.Option(
            click_type=click.FloatRange(0, min_open=True),
            help="Accept only trials in which no client leaks more than this.",
        ),
    ] = None,
    aim: Annotated[
        Literal["seconds", "accuracy", "front"] | None,
        typer.Option(
            click_type=click.Choice(["seconds", "accuracy", "front"]),
            help="What to search for: the shortest time, the highest accuracy, or all trials that no other trial beats "
            "in everything (the front). The default is seconds with --reach, accuracy with --most-leakage alone, and "
            "front otherwise.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many trials to run. The default is 40, or every combination if all keys have lists of values.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="How many seeds to run in each trial. The search compares the means over these seeds."
        ),
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first seed. Choose one that you use nowhere else.")] = _SEED,
    prune: Annotated[
        bool | None,
        typer.Option(
            "--prune/--no-prune",
            help="Stop a trial early if it cannot win any more or falls behind. The default is to do so only if a key "
            "has a range.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="The policy that picks clients. The default is the run's own policy, and random for a study.",
            autocompletion=complete_policy,
        ),
    ] = None,
    scale: Annotated[
        Literal["full", "half", "smoke"] | None,
        typer.Option(
            click_type=click.Choice(["full", "half", "smoke"]), help="How much of a study to run. The default is half."
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            help="How many processes to use. If they are more than --seeds, a second search may try other values.",
        ),
    ] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for the search. The default is runs/tune-NAME-KEYS.")] = None,
    data_dir: DataDir = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Search for the best values of several keys. If you call it again, the search continues where it stopped.

    The command writes best.toml, a file for 'pausefl run', and report.html with all trials. Call it again with more
    --trials to search further. If --jobs is not larger than --seeds, a second search finds the same values.
    """
    from pausefl.report.chart_base import require_charts
    from pausefl.report.report_files import write_page
    from pausefl.studies.search.aim import Aim
    from pausefl.studies.search.search import Search
    from pausefl.studies.search.search_report import search_report
    from pausefl.studies.search.space import read_space
    from pausefl.studies.search.subject import read_subject
    from pausefl.studies.trained import folder_name

    require_charts()
    space = read_space(vary or [])
    kind = aim or ("seconds" if reach is not None else "accuracy" if most_leakage is not None else "front")
    sought = Aim(kind=kind, reach=reach, most_leakage=most_leakage)
    subject = read_subject(source, policy=policy, scale=scale, overrides=overrides or ())
    _announce_code(Path(source), subject, space)
    search = Search(subject=subject, space=space, aim=sought, seeds=seeds, seed=seed, trials=trials, prune=prune)
    folder = (
        out or Path("runs") / folder_name(f"tune-{subject.name}-{'-'.join(choices.key for choices in space)}")[:100]
    )
    with _bar(search.total, folder) as watch:
        result = search.play(folder, data_dir=data_dir, jobs=jobs, watch=watch)
    page = write_page(search_report(result, space, f"Search: {subject.name}"), folder / "report.html")
    if as_json:
        _print(result)
        return
    _show(result, every=search.grid is not None)
    if result.best is not None:
        typer.echo(f"best: {folder / 'best.toml'}")
    typer.echo(f"report: {page}")


def _announce_code(file: Path, subject: Subject, space: Space) -> None:
    from pausefl.studies.search.space import Listed

    named = [c for c in space if isinstance(c, Listed) and c.key in _CODE]
    values = [{choices.key: value} for choices in named for value in choices.values]
    use_own_modules(file, [subject.with_all_options(one) for one in values or [{}]])


def _print(result: SearchResult) -> None:
    """Print what was found as JSON."""
    told = {
        "aim": str(result.aim),
        "best": None if result.best is None else asdict(result.best),
        "front": [trial.number for trial in result.front],
        "trials": [asdict(trial) for trial in result.trials],
    }
    typer.echo(json.dumps(told, indent=1))


def _show(result: SearchResult, every: bool) -> None:
    """Print the trials of the front, or all of them, and what the search says."""
    from pausefl.studies.search.search_report import BEST, columns, numbers, short_keys, standings, value_text

    console = terminal()
    standing = standings(result)
    nearest = [] if result.nearest is None else [result.nearest]
    shown = list(result.trials) if every else result.front or nearest
    if result.best is not None and result.best not in shown:
        shown.insert(0, result.best)
    head = ("trial", *short_keys(result.keys).values(), *columns(result.aim).values(), "result")
    rows = [
        [str(trial.number), *(value_text(trial.values[key]) for key in result.keys), *numbers(trial.found, "-"),
         standing.get(trial.number, trial.state)]
        for trial in shown
    ]  # fmt: skip
    kept = [i for i in range(len(head)) if any(row[i] != "-" for row in rows)]
    table = Table()
    for i in kept:
        table.add_column(head[i], justify="left" if head[i] == "result" else "right", overflow="fold")
    for row in rows:
        table.add_row(*(printable(row[i]) for i in kept), style="bold" if row[-1] == BEST else None)
    console.print(table)
    counts = {
        state: sum(trial.state == state for trial in result.trials)
        for state in ("finished", "stopped early", "refused")
    }
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    console.print(f"aim: {result.aim}; {len(result.trials)} different trials: {told}.", soft_wrap=True, highlight=False)
    if counts["refused"]:
        first = next(trial for trial in result.trials if trial.state == "refused")
        console.print(printable(f"trial {first.number} could not be run: {first.why}"), soft_wrap=True, highlight=False)
    if result.best is None:
        console.print(
            "no trial has met the aim, so there is no best.toml. Allow more leakage, a lower accuracy, more rounds or "
            "wider ranges.",
            soft_wrap=True,
            highlight=False,
        )


@contextmanager
def _bar(total: int, folder: Path) -> Iterator[Watcher]:
    """Give a function that shows how many trials have ended; after Ctrl-C, say how to go on."""
    console = Console(stderr=True, markup=False)
    bars = Progress(
        TextColumn("trials"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[note]}", markup=False), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    with bars:
        line = bars.add_task("trials", total=total, note="")

        def show(done: int, best: TrialResult | None) -> None:
            note = "" if best is None else "best: " + ", ".join(f"{key}={value}" for key, value in best.values.items())
            bars.update(line, completed=done, note=printable(note))

        try:
            yield show
        except KeyboardInterrupt:
            console.print(
                f"interrupted; run the same command again to continue from the last checkpoints in {folder}",
                soft_wrap=True,
            )
            raise
