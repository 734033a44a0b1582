"""One self-contained page: the guarantee in a sentence, tables, and charts that work offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from pausefl import __version__
from pausefl.report.charts.base import described, load_altair
from pausefl.report.figures import Figure, Groups, Section, sections
from pausefl.report.frames import by_name, read_runs
from pausefl.report.style import looks
from pausefl.report.summary import default_targets, summarise
from pausefl.report.tables import key, overview, time_to_accuracy

_GLANCE = (
    "After the last round: accuracy is the mean of the last ten scored rounds, the clock adds up what the slowest "
    "member of each round took, leakage is the most that any client spent in any seed, and the last columns tell how "
    "the model serves the clients' own data."
)


def write_report(folders: Sequence[Path], path: Path, title: str = "pausefl runs") -> Path:
    """Write the report of some runs as one HTML file that needs no network."""
    load_altair()
    groups = by_name(read_runs(folders))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(title, groups, sections(groups)), encoding="utf-8")
    return path


def _page(title: str, groups: Groups, parts: Sequence[Section]) -> str:
    policies = summarise(groups, default_targets(groups))
    legend = _legend(groups)
    body = [f"<h1>{escape(title)}</h1>{_facts(groups)}{_guarantees(groups)}{_buttons(groups)}"]
    body.append(f"<main><section><h2>At a glance</h2><p class='reading'>{_GLANCE}</p>{overview(policies)}</section>")
    for part in parts:
        more = time_to_accuracy(policies) if part.name == "accuracy" else ""
        body.append(_section(part, legend, more))
    body.append("</main>")
    specs = {figure.name: _vega(figure) for part in parts for figure in part.figures}
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>"
        f"<title>{escape(title)}</title><style>{_file('page.css')}</style></head><body>{''.join(body)}"
        "<footer>Curves are means over seeds, their bands reach from the lowest seed to the highest; numbers with ± "
        f"are mean and standard deviation over seeds. Written by pausefl {escape(__version__)}.</footer>"
        "<div id='tip'></div>"
        f"<script type='application/json' id='charts'>{_for_script(specs)}</script>"
        f"<script type='module'>{_bundle()}</script></body></html>"
    )


def _section(part: Section, legend: str, more: str) -> str:
    half = " class='half'" if len(part.figures) < 2 else ""
    size = "three" if part.columns == 3 else "two"
    charts = "".join(
        f"<figure><h3>{escape(f.title)}</h3><div class='chart' id='{escape(f.name)}' role='img' "
        f"aria-label='{escape(f.title)}'></div></figure>"
        for f in part.figures
    )
    grid = f"{legend}<div class='grid {size}'>{charts}</div>" if charts else ""
    head = f"<h2>{escape(part.title)}</h2><p class='reading'>{escape(part.reading)}</p>"
    return f"<section id='about-{part.name}'{half}>{head}{grid}{more}</section>"


def _vega(figure: Figure) -> dict[str, Any]:
    """Return a chart as Vega: compiled here, once, and not by every browser that opens the page."""
    import vl_convert

    chart = figure.draw(width="container", legend=False) if figure.fluid else figure.draw()
    spec: dict[str, Any] = vl_convert.vegalite_to_vega(described(chart))
    return spec


@cache
def _bundle() -> str:
    import vl_convert

    code: str = vl_convert.javascript_bundle(_file("page.js"))
    return code.replace("</script", "<\\/script")


def _file(name: str) -> str:
    return (files("pausefl.report") / name).read_text(encoding="utf-8")


def _for_script(specs: Any) -> str:
    # Whatever a run is called, it cannot end the script.
    return json.dumps(specs, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _facts(groups: Groups) -> str:
    """Say what was run, as far as all runs agree."""
    configs = [run.config for runs in groups.values() for run in runs]
    said = []
    for section, name, words in (
        ("data", "name", "data: {}"),
        ("data", "partition", "{} split"),
        ("learning", "model", "model {}"),
        ("network", "clients", "{:,} clients"),
        ("selection", "per_round", "{:,} per round"),
    ):
        values = {config[section][name] for config in configs}
        trained = all(config["learning"]["enabled"] for config in configs)
        if len(values) == 1 and (trained or section in ("network", "selection")):
            said.append(words.format(values.pop()))
    return f"<p class='facts'>{escape(' · '.join(said))}</p>" if said else ""


def _guarantees(groups: Groups) -> str:
    """Say for every run what its leakage covers, each sentence once."""
    said: dict[str, list[str]] = {}
    for name, runs in groups.items():
        sentence = next((run.summary["guarantee"] for run in runs if run.summary), "not finished yet")
        said.setdefault(sentence, []).append(name)
    lines = [
        f"<b>{escape('All policies' if len(said) == 1 and len(names) > 1 else ', '.join(names))}</b>: {escape(text)}"
        for text, names in said.items()
    ]
    return f"<p class='guarantee'>{'.<br>'.join(lines)}.</p>"


def _buttons(groups: Groups) -> str:
    buttons = "".join(
        f"<button type='button' aria-pressed='true' data-run='{escape(name)}' title='hide or show in all charts'>"
        f"{key(look)}{escape(name)}</button>"
        for name, look in looks(groups).items()
    )
    rest = (
        "<button type='button' id='everyone' hidden>show all</button>"
        "<span class='hint'>click a name to hide it everywhere</span>"
    )
    return f"<nav class='legend' aria-label='Policies'>{buttons}{rest}</nav>"


def _legend(groups: Groups) -> str:
    """Return the legend that stands at every section on paper."""
    entries = "".join(f"<span>{key(look)}{escape(name)}</span>" for name, look in looks(groups).items())
    return f"<div class='legend' aria-hidden='true'>{entries}</div>"
