"""The charts of a search, drawn with Altair: trials as points, and trials as lines across all keys and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pausefl.report.chart_base import VISIBLE, Width, encoded, finish, key, load_altair, table
from pausefl.report.charts import Axes


def point_chart(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    axes: Axes,
    *,
    width: Width = 430,
    height: int = 250,
    title: str | None = None,
    legend: bool = True,
) -> Any:
    """Draw rows of ``run, x, y, trial, said, edge``: a point each, and steps through those whose ``edge`` is 1.

    ``run`` is the entry of the legend, ``said`` the values of the trial.  If ``x`` is a text, each has its own place.
    """
    alt = load_altair()
    entry = key(alt, names) if legend else None
    ordinal = isinstance(rows[0]["x"], str)
    across = (
        alt.X("x:N", title=axes.x, sort=None, axis=alt.Axis(labelAngle=0))
        if ordinal
        else alt.X(
            "x:Q", title=axes.x, scale=alt.Scale(type=axes.x_scale, zero=False, nice=axes.x_scale != "log", padding=8)
        )
    )
    up = alt.Y("y:Q", title=axes.y, scale=alt.Scale(type=axes.scale, zero=axes.zero, nice=True, padding=8))
    base = alt.Chart().encode(x=across, y=up)
    points = base.mark_point(filled=True, strokeWidth=0, opacity=0.9, size=80).encode(
        color=encoded(alt, "colour", names, entry),
        shape=encoded(alt, "path", names, entry),
        tooltip=[
            alt.Tooltip("trial:N", title="trial"),
            alt.Tooltip("said:N", title="values"),
            alt.Tooltip("x:N" if ordinal else "x:Q", title=axes.x, **({} if ordinal else {"format": ",.4~g"})),
            alt.Tooltip("y:Q", title=axes.y, format=",.4~g"),
            alt.Tooltip("run:N", title="result"),
        ],
    )
    edge = base.transform_filter("datum.edge > 0").mark_line(
        color="#777", strokeWidth=1, strokeDash=[3, 2], interpolate="step-after", tooltip=None
    )
    layers = [points] if ordinal else [edge, points]
    chart = alt.layer(*layers, data=table(alt, rows)).transform_filter(VISIBLE).properties(width=width, height=height)
    return finish(alt, chart, title)


def parallel_chart(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    axes: Sequence[str],
    *,
    width: Width = 900,
    height: int = 260,
    title: str | None = None,
    legend: bool = True,
) -> Any:
    """Draw rows of ``run, trial, axis, at, text``: a line per trial, which crosses each axis at ``at`` (0 to 1)."""
    alt = load_altair()
    entry = key(alt, names) if legend else None
    across = alt.X("axis:N", sort=list(axes), title=None, scale=alt.Scale(type="point", padding=0.4),
                   axis=alt.Axis(labelAngle=0, grid=True, domain=False, ticks=False, labelLimit=160))  # fmt: skip
    up = alt.Y("at:Q", title=None, scale=alt.Scale(domain=[0, 1], nice=False, padding=6), axis=None)
    base = alt.Chart().encode(x=across, y=up)
    lines = base.mark_line(strokeWidth=1.5, opacity=0.65, tooltip=None).encode(
        detail="trial:N", color=encoded(alt, "colour", names), strokeDash=encoded(alt, "dash", names)
    )
    points = base.mark_point(filled=True, strokeWidth=0, size=40).encode(
        color=encoded(alt, "colour", names, entry),
        shape=encoded(alt, "path", names, entry),
        tooltip=[
            alt.Tooltip("trial:N", title="trial"),
            alt.Tooltip("axis:N", title="of"),
            alt.Tooltip("text:N", title="value"),
            alt.Tooltip("run:N", title="result"),
        ],
    )
    chart = alt.layer(lines, points, data=table(alt, rows)).transform_filter(VISIBLE)
    return finish(alt, chart.properties(width=width, height=height), title)
