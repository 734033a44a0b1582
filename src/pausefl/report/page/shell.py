"""The shell of a report: one HTML file that needs no network, with charts whose legend hides and shows everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from pausefl import __version__
from pausefl.report.charts.base import described
from pausefl.report.figures import Figure, Section
from pausefl.report.page.tables import key
from pausefl.report.style import looks


def page(
    title: str, names: Sequence[str], parts: Sequence[Section], *, intro: str = "", first: str = "",
    more: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Return a page: title, ``intro``, legend, ``first`` and the sections, some with ``more`` below their charts."""
    legend = _legend(names)
    body = [f"<h1>{escape(title)}</h1>{intro}{_buttons(names)}<main>{first}"]
    body += [_section(part, legend, (more or {}).get(part.name, "")) for part in parts]
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
    return (files("pausefl.report.page") / name).read_text(encoding="utf-8")


def _for_script(specs: Any) -> str:
    # Whatever a run is called, it cannot end the script.
    return json.dumps(specs, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _buttons(names: Sequence[str]) -> str:
    buttons = "".join(
        f"<button type='button' aria-pressed='true' data-run='{escape(name)}' title='hide or show in all charts'>"
        f"{key(look)}{escape(name)}</button>"
        for name, look in looks(names).items()
    )
    rest = (
        "<button type='button' id='everyone' hidden>show all</button>"
        "<span class='hint'>click a name to hide it everywhere</span>"
    )
    return f"<nav class='legend' aria-label='Policies'>{buttons}{rest}</nav>"


def _legend(names: Sequence[str]) -> str:
    """Return the legend that stands at every section on paper."""
    entries = "".join(f"<span>{key(look)}{escape(name)}</span>" for name, look in looks(names).items())
    return f"<div class='legend' aria-hidden='true'>{entries}</div>"
