"""The two kinds of charts, drawn with Altair: a curve per policy with a band over its seeds, or a panel of bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pausefl.report.chart_base import VISIBLE, Width, encoded, finish, key, load_altair, table, tooltips


@dataclass(frozen=True, slots=True)
class Axes:
    """Titles and scales of the two axes."""

    x: str
    y: str
    zero: bool = False
    scale: Literal["linear", "log", "symlog"] = "linear"
    limit: float | None = None
    """Where to draw a line across, such as a budget that no curve may cross."""
    limit_name: str = "budget"
    x_scale: Literal["linear", "log"] = "linear"


def curve_chart(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    axes: Axes,
    *,
    width: Width = 430,
    height: int = 250,
    title: str | None = None,
    legend: bool = True,
) -> Any:
    """Draw rows of ``run, x, y, mark`` (and ``low, high``): lines, bands, markers where ``mark`` is 2,
    and a tooltip there and where it is 1."""
    alt = load_altair()
    entry = key(alt, names) if legend else None
    scale = alt.Scale(type=axes.scale, nice=True, **({} if axes.scale == "log" else {"zero": axes.zero}))
    across = alt.Scale(type=axes.x_scale, nice=False, **({} if axes.x_scale == "log" else {"zero": False}))
    base = alt.Chart().encode(x=alt.X("x:Q", title=axes.x, scale=across), color=encoded(alt, "colour", names, entry))

    def vertical(field: str) -> Any:
        # Left alone, a symmetric logarithm is ticked as if it were linear.
        ticks = sorted([0, *(sign * 10**power for power in range(1, 7) for sign in (-1, 1))])
        more = {"axis": alt.Axis(values=ticks, labelOverlap=False)} if axes.scale == "symlog" else {}
        return alt.Y(f"{field}:Q", title=axes.y, scale=scale, **more)

    said = [("run", "policy"), ("x", axes.x), ("y", axes.y)]
    layers = []
    if "low" in rows[0]:
        band = base.mark_area(opacity=0.14, interpolate="monotone", tooltip=None)
        layers.append(band.encode(y=vertical("low"), y2=alt.Y2("high:Q")))
        said += [("low", "lowest seed"), ("high", "highest seed")]
    y = vertical("y")
    line = base.mark_line(strokeWidth=1.8, tooltip=None, interpolate="monotone")
    layers.append(line.encode(y=y, strokeDash=encoded(alt, "dash", names)))
    points = base.transform_filter("datum.mark > 0").mark_point(filled=True, strokeWidth=0)
    points = points.encode(
        y=y,
        shape=encoded(alt, "path", names, entry),
        size=alt.SizeValue(250, condition={"test": "datum.mark > 1", "value": 48}),
        # Unseen, but it answers the pointer.
        opacity=alt.OpacityValue(0, condition={"test": "datum.mark > 1", "value": 1}),
        tooltip=tooltips(alt, said),
    )
    layers.append(points)
    if axes.limit is not None:
        layers.append(_limit(alt, axes.limit, axes.limit_name))
    chart = alt.layer(*layers, data=table(alt, rows)).transform_filter(VISIBLE).properties(width=width, height=height)
    return finish(alt, chart, title)


def bar_chart(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    x: str,
    y: str,
    line: str,
    *,
    across: Literal["x", "y"] = "y",
    width: int = 430,
    height: int = 42,
    title: str | None = None,
) -> Any:
    """Draw a panel per policy from rows of ``run, x, x2, y, level``: bars from x to x2, and a line at that level.

    Every panel has its own y, as one policy may pick a client every round and another every tenth.
    """
    alt = load_altair()
    base = alt.Chart()
    said = [("run", "policy"), ("x", f"{x}, from"), ("x2", "to"), ("y", y), ("level", line)]
    said += [("low", "lowest seed"), ("high", "highest seed")] if "low" in rows[0] else []
    bars = base.mark_rect(stroke="white", strokeWidth=0.4).encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(nice=False, zero=False)),
        x2=alt.X2("x2:Q"),
        y=alt.Y("y:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=2)),
        y2=alt.Y2Datum(0),
        color=encoded(alt, "colour", names),
        tooltip=tooltips(alt, said),
    )
    level = base.mark_rule(color="#1a1a1a", strokeDash=[2, 2], strokeWidth=0.8, tooltip=None)
    level = level.encode(**{across: alt.X("mean(level):Q") if across == "x" else alt.Y("mean(level):Q")})
    panel = alt.layer(bars, level).properties(width=width, height=height)
    header = alt.Header(labelOrient="top", labelAnchor="start", title=None)
    facet = panel.facet(row=alt.Row("run:N", sort=list(names), header=header), data=table(alt, rows), spacing=8)
    chart = facet.transform_filter(VISIBLE).resolve_scale(y="independent")
    about = alt.TitleParams(title, subtitle=f"{y}; dotted: {line}", subtitleColor="#555555") if title else None
    return finish(alt, chart, about)


def _limit(alt: Any, at: float, name: str) -> Any:
    base = alt.Chart(alt.InlineData(values=[{"limit": at, "said": f"{name} {at:g}"}])).encode(y=alt.Y("limit:Q"))
    line = base.mark_rule(color="#777", strokeDash=[2, 3], tooltip=None)
    word = base.mark_text(align="right", baseline="bottom", dy=-2, color="#555", fontSize=10.5, tooltip=None)
    return line + word.encode(x=alt.XValue("width"), text=alt.Text("said:N"))
