"""A report: its sections with charts and tables, and its files (an HTML page that needs no network, images, events)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

from pausefl import __version__
from pausefl.errors import ConfigError, MissingExtraError, did_you_mean
from pausefl.report.chart_base import described, require_charts, save_chart
from pausefl.report.charts import Axes, curve_chart
from pausefl.report.policy_looks import looks
from pausefl.report.series import Row, staggered
from pausefl.runs.run_data import RunData
from pausefl.system.cached_text import cached_text

NOTHING = "\N{EN DASH}"
"""What a cell says that has no number."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with the name of its files; ``draw`` takes width, title and (curves only) legend."""

    name: str
    title: str
    draw: Callable[..., Any]
    fluid: bool
    """Whether the page may ask for the width of its container, and for a chart without a legend."""


@dataclass(frozen=True, slots=True)
class Table:
    """A row per policy, which begins with its name."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    reading: str = ""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Charts that are read in the same way, and a table below them."""

    name: str
    title: str
    reading: str
    figures: Sequence[Figure] = ()
    columns: int = 2
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A page: what was run, what its leakage covers, and sections; ``names`` are the entries of the legend."""

    title: str
    names: Sequence[str]
    sections: Sequence[ReportSection]
    facts: Sequence[str] = ()
    guarantees: Sequence[tuple[str, str]] = ()
    """Whom a guarantee covers, and what it says."""
    configuration: Sequence[tuple[str, Sequence[str]]] = ()
    """Whose settings, and a line for each of them."""
    footer: str = (
        "Curves are means over seeds, and their bands reach from the lowest seed to the highest. Numbers with ± are "
        "the "
        "mean and the standard deviation over seeds."
    )

    def figures(self) -> dict[str, Figure]:
        """Return all charts by their names."""
        return {figure.name: figure for section in self.sections for figure in section.figures}

    def only(self, names: Collection[str]) -> Report:
        """Return a report that has these charts and nothing else; refuse a name that it does not have."""
        found = self.figures()
        for name in names:
            if name not in found:
                mend = did_you_mean(name, found, "use one of these names")
                raise ConfigError(f"chart is {name!r}, but must be one of {', '.join(found)}; {mend}")
        kept = [[figure for figure in section.figures if figure.name in names] for section in self.sections]
        sections = [
            replace(section, figures=figures, table=None)
            for section, figures in zip(self.sections, kept, strict=True)
            if figures
        ]
        return replace(self, sections=sections)


def curve_figure(name: str, title: str, lines: Mapping[str, Sequence[Row]], axes: Axes) -> Figure:
    """Return a chart with a curve per entry of ``lines``; an entry without rows keeps its place in the legend."""
    return Figure(name, title, partial(curve_chart, staggered(lines.values()), list(lines), axes), fluid=True)


def write_page(report: Report, path: Path) -> Path:
    """Write a report as one HTML file that needs no network."""
    require_charts()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_html(report), encoding="utf-8")
    return path


def write_images(
    report: Report,
    folder: Path,
    names: Collection[str] | None = None,
    formats: Sequence[str] = ("png", "svg"),
    prefix: str = "",
) -> list[Path]:
    """Write the charts of a report into a folder, each with its own legend; ``names`` picks some of them.

    Names are those of the files without prefix and ending, such as ``accuracy-seconds`` or ``picks-speed``.
    """
    require_charts()
    found = (report if names is None else report.only(names)).figures()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in found if names is None else names:
        chart = found[name].draw(width=520, title=found[name].title)
        for ending in formats:
            written.append(folder / f"{prefix}{name}.{ending}")
            save_chart(chart, written[-1])
    return written


def write_events(run: RunData, folder: Path) -> None:
    """Write accuracy, loss, leakage and clock per round as events into a folder."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtraError("events need the 'report' extra; run: pip install 'pausefl[report]'") from None
    with SummaryWriter(str(folder)) as writer:
        for record in run.records:
            for name in ("accuracy", "loss", "max_leakage", "seconds", "latency"):
                if record.get(name) is not None:
                    writer.add_scalar(name, record[name], record["round"])


def _html(report: Report) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pausefl.report", "page"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False}
    return environment.get_template("page.html").render(
        report=report,
        looks=looks(report.names),
        nothing=NOTHING,
        charts={name: _vega(figure) for name, figure in report.figures().items()},
        css=page_file("page/page.css"),
        script=bundle("page/page.js"),
        version=__version__,
        day=datetime.now(UTC).date().isoformat(),
    )


def _vega(figure: Figure) -> dict[str, Any]:
    return vega_of(figure.draw(width="container", legend=False) if figure.fluid else figure.draw())


def vega_of(chart: Any) -> dict[str, Any]:
    """Return a chart as Vega: compiled here, once, and not by every browser that opens the page."""
    import vl_convert

    spec: dict[str, Any] = vl_convert.vegalite_to_vega(described(chart))
    return spec


@cache
def bundle(name: str) -> str:
    """Return a script of the pages with all that it needs to draw, so that it needs no network.

    To put it together takes longer than to draw a report, so it is kept for the next one.
    """
    import vl_convert

    script = page_file(name)

    def put_together() -> str:
        code: str = vl_convert.javascript_bundle(script)
        return code.replace("</script", "<\\/script")

    return cached_text("page-script", f"{metadata.version('vl-convert-python')}\n{script}", put_together)


def page_file(name: str) -> str:
    """Return a file that pages are made of."""
    return (files("pausefl.report") / name).read_text(encoding="utf-8")
