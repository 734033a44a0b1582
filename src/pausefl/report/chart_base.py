"""What every chart shares: fonts, axes, the look of policies, data as compact text, and the files it is saved in."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pausefl.errors import MissingExtraError, require
from pausefl.report.policy_looks import looks

Width: TypeAlias = int | Literal["container"]
"""Pixels, or the width that the page has for it."""

VISIBLE = "indexof(hidden, datum.run) < 0"
"""The page's legend puts the names that are to be hidden into the parameter ``hidden`` of every chart."""

_INK, _SOFT, _GRID = "#1a1a1a", "#555555", "#e6e6e6"

_CONFIG: dict[str, Any] = {
    "font": "system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _SOFT, "titleColor": _SOFT, "labelFontSize": 11, "titleFontSize": 11.5,
        "titleFontWeight": "normal", "gridColor": _GRID, "domain": False, "ticks": False, "labelPadding": 6,
        "titlePadding": 8, "labelFlush": False,
    },
    "axisX": {"grid": False, "ticks": True, "tickColor": "#bbb", "tickSize": 4, "domain": True, "domainColor": "#bbb",
              "labelPadding": 3, "labelOverlap": True, "tickCount": 6},
    "axisY": {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": -34, "titleY": -10,
              "tickCount": 5},
    "header": {"labelColor": _INK, "labelFontSize": 11.5, "labelFontWeight": 600, "labelPadding": 2, "title": None},
    "legend": {"labelColor": _INK, "labelFontSize": 12, "labelLimit": 320, "title": None},
    "title": {"color": _INK, "fontSize": 14, "fontWeight": 600, "anchor": "start", "offset": 14},
}  # fmt: skip


def load_altair() -> Any:
    """Return the plotting library; without it, the error names the extra to install."""
    try:
        import altair
        import vl_convert  # noqa: F401 - draws what altair describes
    except ImportError:
        raise MissingExtraError("charts need the 'report' extra; run: pip install 'pausefl[report]'") from None
    return altair


def require_charts() -> None:
    """Raise an error if charts cannot be drawn; call it before anything that takes long."""
    load_altair()


def described(chart: Any) -> dict[str, Any]:
    """Return a chart as Vega-Lite; it is not validated here, which would take most of the time, but in the tests."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec


def save_chart(chart: Any, path: Path) -> None:
    """Write a chart; the ending decides the format (.svg, .png)."""
    import vl_convert

    require(
        path.suffix in (".png", ".svg"), "name of a chart", path.name, "something.png or .svg", "for example chart.png"
    )
    if path.suffix == ".png":
        path.write_bytes(vl_convert.vegalite_to_png(described(chart), scale=2.0))
    else:
        path.write_text(vl_convert.vegalite_to_svg(described(chart)), encoding="utf-8")


def table(alt: Any, rows: Sequence[Mapping[str, Any]], like: Mapping[str, Any] | None = None) -> Any:
    """Return rows as data of a chart: five digits, a third of the size of JSON, and gaps where no number is finite.

    Where there may be no row yet, ``like`` is one of the same kind.  The data are called ``rows``, so that a page can
    exchange them.
    """
    if not rows and like is not None:
        return alt.InlineData(values=[], name="rows")  # not as text, which a page must not always parse
    first = rows[0] if like is None else like
    fields = list(first)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([_short(row[field]) for field in fields] for row in rows)
    parse = {field: "string" if isinstance(first[field], str) else "number" for field in fields}
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=parse), name="rows")


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.5g}" if math.isfinite(value) else ""


def encoded(alt: Any, what: Literal["colour", "dash", "path"], names: Sequence[str], legend: Any = None) -> Any:
    """Return the encoding of one part of a policy's look: its colour, its dash, or the path of its marker."""
    channel = {"colour": alt.Color, "dash": alt.StrokeDash, "path": alt.Shape}[what]
    styles = looks(names)
    values = [getattr(styles[name], what) for name in names]
    scale = alt.Scale(domain=list(names), range=[list(v) if isinstance(v, tuple) else v for v in values])
    return channel("run:N", scale=scale, title=None, legend=legend)


def key(alt: Any, names: Sequence[str]) -> Any:
    """Return the legend of an image, no wider than the chart; the page has one of its own, for all charts."""
    columns = max(1, min(4, 520 // (34 + 6 * max(map(len, names)))))
    return alt.Legend(
        orient="bottom", columns=columns, symbolSize=100, symbolOpacity=1, symbolStrokeWidth=0,
        columnPadding=16, offset=12,
    )  # fmt: skip


def finish(alt: Any, chart: Any, title: Any) -> Any:
    """Give a chart the common fonts and colours, and the parameter by which policies are hidden."""
    chart = chart.add_params(alt.param(name="hidden", value=[])).configure(**_CONFIG)
    return chart.properties(title=title) if title else chart


def tooltips(alt: Any, fields: Iterable[tuple[str, str]]) -> list[Any]:
    """Return what a mark says when pointed at: (field, title) pairs."""
    return [
        alt.Tooltip(f"{field}:N", title=title)
        if field == "run"
        else alt.Tooltip(f"{field}:Q", title=title, format=",.4~g")
        for field, title in fields
    ]
