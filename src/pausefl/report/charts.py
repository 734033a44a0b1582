"""Charts, as Vega-Lite through Altair: one description for SVG, PNG and HTML, drawn without a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pausefl.errors import MissingExtraError

if TYPE_CHECKING:
    import altair

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's palette: told apart by colour-blind readers, and by grey level on paper."""


def regret_chart(records: Sequence[Mapping[str, float | str]], title: str) -> altair.HConcatChart:
    """Draw cumulative regret against log n: the mean with its range over seeds, and beside it the bound."""
    alt = _altair()
    base = alt.Chart(alt.Data(values=[dict(record) for record in records])).encode(
        x=alt.X("rounds:Q", scale=alt.Scale(type="log"), title="rounds n (logarithmic)")
    )
    band = base.mark_area(opacity=0.25, color=COLOURS[0]).encode(y="low:Q", y2="high:Q")
    line = base.mark_line(point=True, color=COLOURS[0]).encode(
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
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=["mean", "bound"], range=list(COLOURS[:2]))),
            strokeDash=alt.StrokeDash("what:N", legend=None, sort=["mean", "bound"]),
        )
    )
    left = alt.layer(band, line).properties(title="measured: mean and range over seeds", width=420, height=300)
    right = against.properties(title="measured and bound of Theorem 1", width=300, height=300)
    chart: altair.HConcatChart = alt.hconcat(left, right).properties(title=title)
    return chart


def save_chart(chart: altair.HConcatChart, path: Path) -> None:
    """Write a chart; the ending decides the format (.svg, .png)."""
    chart.save(str(path), scale_factor=2.0 if path.suffix == ".png" else 1.0)


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise MissingExtraError("charts need the 'report' extra; run: pip install 'pausefl[report]'") from None
    return altair
