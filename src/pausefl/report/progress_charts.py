"""The charts of one run over its rounds, drawn with Altair: lines, bars of faults, ranges and a map of picks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pausefl.report.chart_base import Width, finish, load_altair, table

BLUE, RED, AMBER, PINK = "#0072B2", "#D55E00", "#E69F00", "#CC79A7"
FAULTS = {"no answer": RED, "late": AMBER, "refused": PINK}
_ROUND = "round"
_STEP = 15
"""Pixels for a client in a chart that has a line of text for each."""

Rows = Sequence[Mapping[str, Any]]


def accuracy_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``x, y``: a line, and a point for each."""
    alt = load_altair()
    base = alt.Chart(table(alt, rows, {"x": 1, "y": 1.0})).encode(x=_across(alt), y=_up(alt, "y", "test accuracy, %"))
    line = base.mark_line(color=BLUE, strokeWidth=1.8, tooltip=None)
    points = base.mark_point(color=BLUE, filled=True, size=14, opacity=1).encode(
        tooltip=[_said(alt, "x", _ROUND), _said(alt, "y", "accuracy, %")]
    )
    return _done(alt, alt.layer(line, points), width, 220, title)


def seconds_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``x, y, longest``: the mean as a line, and how far the longest round goes beyond it."""
    alt = load_altair()
    base = alt.Chart(table(alt, rows, {"x": 1, "y": 1.0, "longest": 1.0})).encode(x=_across(alt))
    up = _up(alt, "y", "seconds per round", zero=True)
    beyond = base.mark_area(color=BLUE, opacity=0.16, tooltip=None).encode(y=up, y2="longest:Q")
    line = base.mark_line(color=BLUE, strokeWidth=1.8, tooltip=None).encode(y=up)
    points = base.mark_point(color=BLUE, filled=True, size=14, opacity=1).encode(
        y=up, tooltip=[_said(alt, "x", _ROUND), _said(alt, "y", "mean, s"), _said(alt, "longest", "longest, s")]
    )
    return _done(alt, alt.layer(beyond, line, points), width, 220, title)


def budget_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``x, y, client, near``: a line per client, of another colour once its budget is near its end."""
    alt = load_altair()
    like = {"x": 1, "y": 1.0, "client": "", "near": 0}
    up = _up(alt, "y", "budget left, %", zero=True, domain=[0, 100])
    base = alt.Chart(table(alt, rows, like)).encode(x=_across(alt), y=up)
    lines = base.mark_line(color=BLUE, strokeWidth=1.3, opacity=0.55, tooltip=None).encode(detail="client:N")
    points = base.mark_point(filled=True, size=14, opacity=0.9).encode(
        color=alt.condition("datum.near > 0", alt.value(RED), alt.value(BLUE)),
        tooltip=[alt.Tooltip("client:N"), _said(alt, "x", _ROUND), _said(alt, "y", "budget left, %")],
    )
    return _done(alt, alt.layer(lines, points), width, 220, title)


def latency_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``client, place, low, y, recent, high``: from the fastest answer to the slowest, mean and latest."""
    alt = load_altair()
    like = {"client": "", "place": 1, "low": 1.0, "y": 1.0, "recent": 1.0, "high": 1.0}
    base = alt.Chart(table(alt, rows, like)).encode(y=_clients(alt))
    x = alt.X("low:Q", title="seconds until the answer", scale=alt.Scale(zero=True))
    ranges = base.mark_rule(color=BLUE, opacity=0.45, strokeWidth=3, tooltip=None).encode(x=x, x2="high:Q")
    said = [alt.Tooltip("client:N"), _said(alt, "y", "mean, s"), _said(alt, "recent", "lately, s"),
            _said(alt, "low", "fastest, s"), _said(alt, "high", "slowest, s")]  # fmt: skip
    means = base.mark_point(color=BLUE, filled=True, size=46, opacity=1).encode(x="y:Q", tooltip=said)
    lately = base.mark_tick(color=RED, thickness=2, size=11).encode(x="recent:Q", tooltip=said)
    return _done(alt, alt.layer(ranges, means, lately), width, alt.Step(_STEP), title)


def faults_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``x, x2, kind, low, y``: bars that stand on each other, from ``low`` up by ``y``."""
    alt = load_altair()
    like = {"x": 1.0, "x2": 1.0, "kind": "", "low": 0.0, "high": 1.0, "y": 1.0}
    key = alt.Legend(orient="bottom", direction="horizontal", symbolType="square", symbolSize=90, offset=4)
    bars = (
        alt.Chart(table(alt, rows, like))
        .mark_rect()
        .encode(
            x=alt.X("x:Q", title=_ROUND, scale=alt.Scale(nice=False, zero=False), axis=_whole(alt)),
            x2="x2:Q",
            y=alt.Y("low:Q", title="requests per round", scale=alt.Scale(zero=True, nice=True)),
            y2="high:Q",
            color=alt.Color("kind:N", scale=alt.Scale(domain=list(FAULTS), range=list(FAULTS.values())), legend=key),
            tooltip=[alt.Tooltip("kind:N"), _said(alt, "x2", "up to round"), _said(alt, "y", "requests per round")],
        )
    )
    return _done(alt, bars, width, 190, title)


def picks_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``x, x2, client, place, y``: a map, darker where a client took part in more of the rounds."""
    alt = load_altair()
    like = {"x": 1.0, "x2": 1.0, "client": "", "place": 1, "y": 1.0}
    shades = alt.Scale(domain=[0, 100], range=["#f1f5f8", BLUE])
    cells = (
        alt.Chart(table(alt, rows, like))
        .mark_rect(stroke="white", strokeWidth=0.6)
        .encode(
            x=alt.X("x:Q", title=_ROUND, scale=alt.Scale(nice=False, zero=False), axis=_whole(alt)),
            x2="x2:Q",
            y=_clients(alt),
            color=alt.Color("y:Q", scale=shades, legend=None),
            tooltip=[alt.Tooltip("client:N"), _said(alt, "x2", "up to round"), _said(alt, "y", "% of rounds")],
        )
    )
    return _done(alt, cells, width, alt.Step(_STEP), title)


def reach_chart(rows: Rows, *, width: Width = 430, title: str | None = None) -> Any:
    """Draw rows of ``x, y``: how many of the clients have taken part by then."""
    alt = load_altair()
    up = _up(alt, "y", "clients that have taken part, %", zero=True)
    base = alt.Chart(table(alt, rows, {"x": 1, "y": 1.0})).encode(x=_across(alt), y=up)
    line = base.mark_line(color=BLUE, strokeWidth=1.8, tooltip=None)
    points = base.mark_point(color=BLUE, filled=True, size=14, opacity=1).encode(
        tooltip=[_said(alt, "x", _ROUND), _said(alt, "y", "have taken part, %")]
    )
    return _done(alt, alt.layer(line, points), width, 220, title)


def _across(alt: Any) -> Any:
    return alt.X("x:Q", title=_ROUND, scale=alt.Scale(nice=False, zero=False), axis=_whole(alt))


def _whole(alt: Any) -> Any:
    """Return an axis of rounds: there is no round 2.5."""
    return alt.Axis(format=",d", tickMinStep=1)


def _up(alt: Any, field: str, title: str, *, zero: bool = False, domain: list[float] | None = None) -> Any:
    scale = alt.Scale(zero=zero, nice=True, **({} if domain is None else {"domain": domain}))
    return alt.Y(f"{field}:Q", title=title, scale=scale)


def _clients(alt: Any) -> Any:
    order = alt.EncodingSortField(field="place", op="min")
    return alt.Y("client:N", sort=order, title=None, axis=alt.Axis(labelLimit=110, grid=False))


def _said(alt: Any, field: str, title: str) -> Any:
    return alt.Tooltip(f"{field}:Q", title=title, format=",.4~g")


def _done(alt: Any, chart: Any, width: Width, height: Any, title: str | None) -> Any:
    return finish(alt, chart.properties(width=width, height=height), title)
