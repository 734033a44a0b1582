"""Charts of the studies without training, drawn from their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pausefl.report.charts import COLOURS, _altair

if TYPE_CHECKING:
    import altair

Rows: TypeAlias = Sequence[Mapping[str, Any]]


def measured_charts(kind: str, rows: Rows) -> list[tuple[str, str, altair.LayerChart]]:
    """Return (title, how to read it, chart) for the rows of a measurement."""
    return _KINDS[kind](rows)


def _g_function(rows: Rows) -> list[tuple[str, str, Any]]:
    text = "A client used less than its share of the data earns a reward, one used more pays; a larger beta is milder."
    chart = _lines(rows, "participation", "g", "beta", "T / t, share of rounds with this client", "g")
    return [("Generalization reward", text, chart)]


def _complexity(rows: Rows) -> list[tuple[str, str, Any]]:
    text = "Both axes are logarithmic: a straight line of slope p means time K to the p. The band spans the seeds."
    chart = _lines(rows, "clients", "seconds", "method", "clients K", "seconds per choice", log_x=True, log_y=True)
    return [("Time of one choice", text, chart)]


def _regret(rows: Rows) -> list[tuple[str, str, Any]]:
    text = "Logarithmic regret is a straight line here. The band spans the seeds."
    bound = "Both axes are logarithmic. Theorem 1 holds with a very wide margin."
    pairs = [
        {"rounds": row["rounds"], "value": row[key], "what": f"{row['setting']}: {name}"}
        for row in rows
        for key, name in (("regret", "measured"), ("bound", "bound"))
        if row[key] > 0
    ]
    return [
        ("Regret", text, _lines(rows, "rounds", "regret", "setting", "rounds n", "cumulative regret", log_x=True)),
        ("Regret and its bound", bound, _lines(pairs, "rounds", "value", "what", "rounds n", "regret", True, True)),
    ]


def _annealing(rows: Rows) -> list[tuple[str, str, Any]]:
    text = "What the best set found is short of the optimum, in shares of what a random set is short; the median state."
    return [
        (
            f"Reward {reward}",
            text,
            _lines(
                [row for row in rows if row["reward"] == reward],
                "steps", "median_gap", "method", "steps", "gap to the optimum", log_x=True,
            ),
        )
        for reward in sorted({row["reward"] for row in rows})
    ]  # fmt: skip


_KINDS: dict[str, Callable[[Rows], list[tuple[str, str, Any]]]] = {
    "g-function": _g_function,
    "complexity": _complexity,
    "regret": _regret,
    "annealing": _annealing,
}


def _lines(
    rows: Rows, x: str, y: str, group: str, x_title: str, y_title: str, log_x: bool = False, log_y: bool = False
) -> Any:
    """Draw the mean of y over the seeds against x, with the range as a band, a line per group."""
    alt = _altair()
    groups = list(dict.fromkeys(str(row[group]) for row in rows))
    scale = {True: alt.Scale(type="log"), False: alt.Scale()}
    data = [{x: row[x], y: row[y], group: str(row[group])} for row in rows]
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=scale[log_x]),
        color=alt.Color(
            f"{group}:N", title=None, sort=groups, scale=alt.Scale(domain=groups, range=list(COLOURS)),
            legend=alt.Legend(orient="bottom", columns=2, labelLimit=400, symbolType="stroke", symbolStrokeWidth=3),
        ),
    )  # fmt: skip
    band = base.mark_area(opacity=0.15).encode(y=alt.Y(f"min({y}):Q", title=y_title), y2=f"max({y}):Q")
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y(f"mean({y}):Q", title=y_title, scale=scale[log_y]),
        strokeDash=alt.StrokeDash(f"{group}:N", sort=groups, legend=None),
        tooltip=[f"{group}:N", f"{x}:Q", alt.Tooltip(f"mean({y}):Q", format=".3g", title=y_title)],
    )
    return alt.layer(band, line).properties(width=430, height=280)
