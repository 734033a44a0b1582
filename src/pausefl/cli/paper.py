"""``pausefl paper``: store runs for others, and make pages from them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pausefl.cli import app
from pausefl.cli.options import PAPER, AsJson, Folders
from pausefl.system.printable_text import printable

paper = typer.Typer(help="Store runs for others, check a repetition, and make pages of results.", no_args_is_help=True)
app.add_typer(paper, name="paper", rich_help_panel=PAPER)

Results: TypeAlias = Annotated[Path, typer.Argument(help="A folder that holds one folder per study, such as results/.")]

Out: TypeAlias = Annotated[Path | None, typer.Option(help="Write the page here instead of printing it.")]


@paper.command()
def keep(folders: Folders, out: Annotated[Path, typer.Option(help="Folder for the copies.")]) -> None:
    """Copy runs without their models and optimiser states.

    'report', 'compare' and the other commands of 'paper' can read the copies.
    """
    from pausefl.runs.small_copies import keep as copy

    kept = copy(folders, out)
    size = sum(file.stat().st_size for folder in kept for file in folder.iterdir())
    typer.echo(f"kept {len(kept)} runs in {out}, {size / 2**20:.2f} MiB")


@paper.command()
def check(
    published: Annotated[Path, typer.Argument(help="The folder of published runs, such as results/STUDY.")],
    repeated: Annotated[Path, typer.Argument(help="The folder of your own runs of the same configurations.")],
    within: Annotated[
        float,
        typer.Option(min=0.0, help="How many points the final accuracy may differ by. The default is not at all."),
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Compare runs that you repeated with the published ones, round by round.

    The command compares runs with the same settings, seed and code, over the rounds that both have. So you may repeat
    only the first rounds. The exit code is 1 if a run differs. On another processor accuracies can differ a little,
    while choices, clock and leakage stay the same. --within allows for that.
    """
    from pausefl.runs.read_folder import read_runs
    from pausefl.runs.repetition import repetitions

    found = repetitions(read_runs([published]), read_runs([repeated]))
    failed = [pair for pair in found.pairs if not pair.agrees(within)]
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1))
    else:
        for pair in found.pairs:
            typer.echo(f"{pair.policy}, seed {pair.seed}, {pair.rounds} rounds: {pair}")
        for name, (there, here) in {one: two for pair in found.pairs for one, two in pair.versions.items()}.items():
            typer.echo(f"{name}: {there} there, {here} here")
        typer.echo(f"{len(found.pairs) - len(failed)} of {len(found.pairs)} repeated runs agree")
        if found.not_repeated:
            typer.echo(f"{len(found.not_repeated)} published runs were not repeated; --json names them")
    if failed:
        raise typer.Exit(1)


@paper.command()
def claims(folder: Results, out: Out = None, as_json: AsJson = False) -> None:
    """Judge each claim of the paper by the runs in a folder, and write the page."""
    from pausefl.studies.claims.page import claims_page, judged
    from pausefl.studies.evidence import gather

    evidence = gather(folder)
    if as_json:
        rows = [
            {"claim": claim.text, "tested": claim.test, "findings": [asdict(found) for found in findings]}
            for claim, findings in judged(evidence)
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    _write(claims_page(evidence, _made_with("claims", folder, out)), out)


@paper.command()
def field(
    folder: Annotated[Path, typer.Argument(help="The folder of the study 'field', such as results/field.")],
    out: Out = None,
) -> None:
    """Compare all policies by the rows of the study 'field', and write the page."""
    from pausefl.errors import ConfigError
    from pausefl.studies.field_page import field_page
    from pausefl.studies.measured.field import FieldStudy
    from pausefl.studies.measured.study import FILE, read_rows

    found = read_rows(folder / FILE)
    if found.kind is not FieldStudy:
        raise ConfigError(
            f"{folder} has rows of {found.kind.kind!r}, but must have those of 'field'; pass its folder, such as "
            "results/field"
        )
    _write(field_page(found.rows, _made_with("field", folder, out)), out)


@paper.command()
def results(
    folder: Results,
    out: Annotated[
        Path, typer.Option(help="The Markdown file to write. The charts go to the folder images beside it.")
    ],
) -> None:
    """Write a page with the table and the main charts of each study in a folder."""
    from pausefl.studies.results_page import write_results

    typer.echo(f"wrote {write_results(folder, out, f'pausefl paper results {folder} --out {out}')}")


def _made_with(command: str, folder: Path, out: Path | None) -> str:
    return f"pausefl paper {command} {folder}" + (f" --out {out}" if out else "")


def _write(page: str, out: Path | None) -> None:
    if out is None:
        typer.echo("\n".join(map(printable, page.split("\n"))))
    else:
        out.write_text(page, encoding="utf-8")
        typer.echo(f"wrote {out}")
