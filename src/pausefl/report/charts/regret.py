"""Regret against the logarithm of the rounds, beside the bound of Theorem 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pausefl.report.charts.base import load_altair

if TYPE_CHECKING:
    import altair

_MEASURED, _BOUND = "#0072B2", "#D55E00"


def regret_chart(records: Sequence[Mapping[str, float | str]], title: str) -> altair.HConcatChart:
    """Draw cumulative regret against log n: the mean with its range over seeds, and beside it the bound."""
    alt = load_altair()
    base = alt.Chart(alt.Data(values=[dict(record) for record in records])).encode(
        x=alt.X("rounds:Q", scale=alt.Scale(type="log"), title="rounds n (logarithmic)")
    )
    band = base.mark_area(opacity=0.25, color=_MEASURED).encode(y="low:Q", y2="high:Q")
    line = base.mark_line(point=True, color=_MEASURED).encode(
        y=alt.Y("mean:Q", title="cumulative regret"), tooltip=["rounds:Q", "mean:Q", "low:Q", "high:Q"]
    )
    against = (
        base.transform_fold(["mean", "bound"], as_=["what", "value"])
        .mark_line(point=True)
        .encode(
            y=alt.Y(
                "value:Q",
                scale=alt.Scale(type="log"),
                title="cumulative regret (logarithmic)",
                axis=alt.Axis(format="~e"),
            ),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=["mean", "bound"], range=[_MEASURED, _BOUND])),
            strokeDash=alt.StrokeDash("what:N", legend=None, sort=["mean", "bound"]),
        )
    )
    left = alt.layer(band, line).properties(title="measured: mean and range over seeds", width=420, height=300)
    right = against.properties(title="measured and bound of Theorem 1", width=300, height=300)
    chart: altair.HConcatChart = alt.hconcat(left, right).properties(title=title)
    return chart
