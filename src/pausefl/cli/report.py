"""``pausefl report``: a page with charts and tables of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import click
import typer

from pausefl.cli import app
from pausefl.cli.options import TRAINING, References
from pausefl.errors import ConfigError, require

if TYPE_CHECKING:
    from pausefl.report.print_figure import PrintSize
    from pausefl.report.report_files import Report

Format = Literal["html", "pdf", "svg", "png"]
_FORMATS: tuple[str, ...] = get_args(Format)


@app.command(rich_help_panel=TRAINING)
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that hold one run, the seeds of a run, or a whole study. You can pass the checkpoint of one "
            "Flower server instead."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write. It ends in .html, .pdf, .svg or .png. The default is report.html."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    reference: References = None,
    images: Annotated[
        Path | None, typer.Option(help="Also write the charts to this folder, as PNG and SVG files.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Draw only this chart, for example accuracy-seconds. You can repeat this option."),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            click_type=click.Choice(_FORMATS),
            help="'html' writes one page. The other formats write a figure for each --only, to a file with the name of "
            "the chart.",
        ),
    ] = None,
    width: Annotated[
        str | None, typer.Option(help="Width of a figure, for example 3.5in or 89mm. The default is 3.5in.")
    ] = None,
    font_size: Annotated[float | None, typer.Option(help="Font size of a figure in points. The default is 8.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="Show the policy NAME under the name TEXT. You can repeat this option."),
    ] = None,
) -> None:
    """Write one self-contained HTML file with charts and tables of these runs, or figures for a paper."""
    from pausefl.report.print_figure import PrintSize, write_figure, write_figures
    from pausefl.report.report_files import write_images, write_page

    paths = _paths(out, form, only or ())
    size = _print_size(width, font_size)
    if size is not None and paths[0].suffix == ".html" and images is None:
        given = "--width" if width is not None else "--font-size"
        raise ConfigError(f"{given} has no effect on a page; pass --only CHART and --format pdf, svg or png")
    found = _read(folders, title, reference or (), label or ())
    found = found.only(only) if only else found
    if paths[0].suffix == ".html":
        typer.echo(f"wrote {write_page(found, paths[0])}")
    else:
        for name, path in zip(only or (), paths, strict=True):
            typer.echo(f"wrote {write_figure(found.figures()[name], path, size or PrintSize())}")
    if images is not None:
        drawn = write_images(found, images) if size is None else write_figures(found, images, size)
        typer.echo(f"wrote {len(drawn)} pictures to {images}")


def _paths(out: Path | None, form: Format | None, only: Sequence[str]) -> list[Path]:
    """Return the files to write: one page, or a figure for each chart; what contradicts itself is refused."""
    if out is not None and out.suffix.removeprefix(".") not in _FORMATS:
        raise ConfigError(f"--out is {out.name!r}, but must end in .html, .pdf, .svg or .png; for example report.html")
    if out is not None and form is not None and out.suffix != f".{form}":
        raise ConfigError(f"--format is {form!r}, but --out is {out.name!r}; leave one of them out")
    form = form or ("html" if out is None else out.suffix.removeprefix("."))  # type: ignore[assignment]
    if form == "html":
        return [out or Path("report.html")]
    if not only:
        raise ConfigError(f"a {form} file holds one chart; pass its name, for example --only accuracy-seconds")
    if out is not None and len(only) > 1:
        raise ConfigError(
            f"--out is one file, but --only names {len(only)} charts; use --format {form} instead of --out"
        )
    return [out] if out is not None else [Path(f"{name}.{form}") for name in only]


def _print_size(width: str | None, font_size: float | None) -> PrintSize | None:
    """Return the size that was asked for; None if none was."""
    from pausefl.report.print_figure import PrintSize, points

    if width is None and font_size is None:
        return None
    usual = PrintSize()
    type_size = usual.font_size if font_size is None else font_size
    return PrintSize(usual.width if width is None else points(width), type_size)


def _read(folders: Sequence[Path], title: str | None, references: Sequence[Path], labels: Sequence[str]) -> Report:
    """Return the report of runs, or of the rows of one measured study."""
    from pausefl.report.progress_report import progress_report
    from pausefl.report.reference_curves import read_references
    from pausefl.report.run_report import run_report
    from pausefl.runs.progress.find import is_checkpoint, read_checkpoint
    from pausefl.runs.read_folder import read_runs
    from pausefl.studies.measured.study import FILE, read_rows

    if any(is_checkpoint(path) for path in folders):
        _require_alone("a checkpoint", folders, references, labels)
        return progress_report(read_checkpoint(folders[0]), title or folders[0].name)
    if not any((folder / FILE).exists() for folder in folders):
        return run_report(read_runs(folders), title or "pausefl runs", read_references(references), labels)
    _require_alone("measured rows", folders, references, labels)
    table = read_rows(folders[0] / FILE)
    return table.kind.report(table.rows, title or folders[0].name)


def _require_alone(what: str, folders: Sequence[Path], references: Sequence[Path], labels: Sequence[str]) -> None:
    """Refuse what a report of one thing cannot show: others beside it, curves, and names of policies."""
    one = "run 'pausefl report' once for each of them"
    require(len(folders) == 1, "number of paths", len(folders), f"1 for {what}", one)
    require(not references, "number of --reference", len(references), f"0 for {what}", "leave --reference out")
    require(not labels, "number of --label", len(labels), f"0 for {what}", "leave --label out")
