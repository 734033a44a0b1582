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


POLICY_COLOURS = {
    "pause": "#0072B2",
    "sa-pause": "#56B4E9",
    "random": "#E69F00",
    "all": "#D55E00",
    "all (no privacy)": "#000000",
    "fastest": "#CC79A7",
    "clustered": "#009E73",
}


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


TITLES = {
    "seconds": "time, seconds of the virtual clock",
    "round": "round",
    "accuracy": "test accuracy, %",
    "leakage": "largest epsilon spent by any client",
}


def curve_chart(records: Sequence[Mapping[str, Any]], x: str, y: str, names: Sequence[str]) -> altair.LayerChart:
    """Draw one line per policy with a band over its seeds; a click on the legend hides or shows a line."""
    alt = _altair()
    shown = alt.selection_point(fields=["run"], bind="legend", toggle="true")
    base = alt.Chart(alt.Data(values=[dict(r) for r in records])).encode(
        x=alt.X(f"{x}:Q", title=TITLES[x]),
        color=_colour(alt, names),
        opacity=alt.condition(shown, alt.value(1.0), alt.value(0.0)),
    )
    band = base.mark_area().encode(
        y=alt.Y("low:Q", title=TITLES[y]), y2="high:Q", opacity=alt.condition(shown, alt.value(0.15), alt.value(0.0))
    )
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("mean:Q", title=TITLES[y]),
        strokeDash=alt.StrokeDash("run:N", scale=alt.Scale(domain=list(names)), legend=None),
        tooltip=["run:N", f"{x}:Q", alt.Tooltip("mean:Q", format=".2f")],
    )
    chart: altair.LayerChart = alt.layer(band, line).add_params(shown).properties(width=430, height=280)
    return chart


def picks_chart(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> altair.FacetChart:
    """Draw how often each client took part, a row per policy; clients are numbered from fast to slow."""
    alt = _altair()
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("client:O", title="client", axis=alt.Axis(labels=False, ticks=False)),
            y=alt.Y("picks:Q", title=None),
            color=_colour(alt, names, legend=False),
            tooltip=["run:N", "client:O", alt.Tooltip("picks:Q", format=".1f")],
        )
    )
    data = alt.Data(values=[dict(r) for r in records])
    chart: altair.FacetChart = bars.properties(width=430, height=60).facet(
        row=alt.Row("run:N", sort=list(names), title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
        data=data,
    )
    return chart


def _colour(alt: Any, names: Sequence[str], legend: bool = True) -> Any:
    """The same colour for a policy everywhere, whichever others stand beside it."""
    palette = [POLICY_COLOURS.get(name, COLOURS[i % len(COLOURS)]) for i, name in enumerate(names)]
    scale = alt.Scale(domain=list(names), range=palette)
    shown = alt.Legend(orient="bottom", columns=4, symbolOpacity=1, symbolType="stroke", symbolStrokeWidth=3)
    return alt.Color("run:N", scale=scale, title=None, legend=shown if legend else None)


def save_chart(chart: altair.HConcatChart, path: Path) -> None:
    """Write a chart; the ending decides the format (.svg, .png)."""
    chart.save(str(path), scale_factor=2.0 if path.suffix == ".png" else 1.0)


def require_charts() -> None:
    """Refuse early where charts cannot be drawn, before anything long is run."""
    _altair()


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise MissingExtraError("charts need the 'report' extra; run: pip install 'pausefl[report]'") from None
    return altair
