"""A small panel of bars per policy, one below the other, all with the same x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pausefl.report.charts.base import VISIBLE, colour, finish, load_altair, table, tooltips


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
    """Draw rows of ``run, x, x2, y, level``: bars from x to x2, and a line named ``line`` at that level of x or y.

    Every panel has its own y, as one policy may pick a client every round and another every tenth.
    """
    alt = load_altair()
    base = alt.Chart()
    said = [("run", "policy"), ("x", f"{x}, from"), ("x2", "to"), ("y", y), ("level", line)]
    said += [("low", "lowest seed"), ("high", "highest seed")] if "low" in rows[0] else []
    bars = base.mark_rect(stroke="white", strokeWidth=0.4).encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(nice=False, zero=False)),
        x2="x2:Q",
        y=alt.Y("y:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=2)),
        y2=alt.datum(0),
        color=colour(alt, names),
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
