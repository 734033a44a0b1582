"""A chart as a figure for a paper: as wide as its column, in the paper's type size, without a title.

In Vega a pixel is what a point is on paper: a chart that is 252 pixels wide is printed 3.5 inches wide, and type of 8
pixels as type of 8 points.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.report.chart_base import described, require_charts
from pausefl.report.report_files import Figure, Report

FORMATS = ("pdf", "svg", "png")
POINTS = {"in": 72.0, "cm": 72.0 / 2.54, "mm": 72.0 / 25.4, "pt": 1.0}
PNG_DOTS_PER_INCH = 300
_ASPECT = 0.62
_SCREEN_FONT = 11.0
"""The type size that the charts of the page are made for: lines and markers are scaled from it."""
_LEGEND_COLUMNS, _TRIES = 4, 3


@dataclass(frozen=True, slots=True)
class PrintSize:
    """How wide a figure is, and how large its type; both in points (72 to the inch).

    >>> PrintSize(points("3.5in"), 8.0)
    PrintSize(width=252.0, font_size=8.0)
    """

    width: float = 252.0
    font_size: float = 8.0

    def __post_init__(self) -> None:
        if not 72.0 <= self.width <= 1440.0:
            raise InvalidValueError(
                f"--width is {self.width / 72:g}in, but must be from 1in to 20in; for example 3.5in"
            )
        if not 4.0 <= self.font_size <= 40.0:
            raise InvalidValueError(f"--font-size is {self.font_size:g}, but must be from 4 to 40; for example 8")


def points(length: str) -> float:
    """Return a length such as ``3.5in``, ``89mm``, ``8.9cm`` or ``252pt`` in points."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(in|cm|mm|pt)\s*", length)
    if found is None:
        raise InvalidValueError(
            f"--width is {length[:40]!r}, but must be a length such as 3.5in, 89mm or 252pt; add a unit"
        )
    return float(found[1]) * POINTS[found[2]]


def write_figure(figure: Figure, path: Path, size: PrintSize) -> Path:
    """Write one chart; the ending of the name decides the format."""
    import vl_convert

    require_charts()
    form = path.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise ConfigError(
            f"{path.name} is the name of a figure, but must end in .pdf, .svg or .png; for example figure.pdf"
        )
    spec = printed(figure, size)
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "pdf":
        path.write_bytes(vl_convert.vegalite_to_pdf(spec))
    elif form == "png":
        path.write_bytes(vl_convert.vegalite_to_png(spec, ppi=PNG_DOTS_PER_INCH))
    else:
        path.write_text(_in_points(vl_convert.vegalite_to_svg(spec)), encoding="utf-8")
    return path


def write_figures(report: Report, folder: Path, size: PrintSize) -> list[Path]:
    """Write all charts of a report into a folder, each as PNG and as SVG."""
    charts = report.figures().items()
    return [write_figure(chart, folder / f"{name}.{form}", size) for name, chart in charts for form in ("png", "svg")]


def printed(figure: Figure, size: PrintSize) -> dict[str, Any]:
    """Return a chart as Vega-Lite that is exactly so wide, legend and labels included."""
    import vl_convert

    for columns in range(_LEGEND_COLUMNS, 0, -1):  # fewer, where it is the legend that is too wide
        inner = round(0.8 * size.width)
        for _ in range(_TRIES):
            spec = _sized(figure, size, inner, columns)
            over = _width(vl_convert.vegalite_to_svg(spec)) - size.width
            if abs(over) < 1.0:
                return spec
            inner -= round(over)
            if inner < 0.4 * size.width:
                break
    raise ConfigError(
        f"--width is {size.width / 72:.2f}in, but {figure.name} does not fit with type of {size.font_size:g} points; "
        "raise --width, or shorten names with --label"
    )


def _sized(figure: Figure, size: PrintSize, inner: int, columns: int) -> dict[str, Any]:
    spec = described(figure.draw(width=inner))
    if "spec" not in spec:  # panels below each other have their own heights
        spec["height"] = round(_ASPECT * inner)
    scale = size.font_size / _SCREEN_FONT
    spec["padding"] = 2
    spec["config"]["axisY"] |= {"titleX": -3.0 * size.font_size, "titleY": -0.9 * size.font_size}

    def change(key: str, value: Any) -> Any:
        if key.endswith(("fontSize", "FontSize")):
            return size.font_size
        if key == "legend" and value:
            return value | {
                "columns": columns, "symbolSize": 100 * scale**2, "columnPadding": size.font_size,
                "offset": 0.5 * size.font_size, "rowPadding": 1, "labelLimit": 0, "labelFontSize": size.font_size,
            }  # fmt: skip
        if key == "mark" and isinstance(value, dict) and value["type"] == "line":
            return value | {"strokeWidth": round(value["strokeWidth"] * scale, 2)}
        if key == "size" and isinstance(value, dict) and "condition" in value:
            return {"value": round(48 * scale**2, 1)}
        return "datum.mark > 1" if value == "datum.mark > 0" else value  # what only answers the pointer is not printed

    changed: dict[str, Any] = _walk(spec, change)
    return changed


def _walk(value: Any, change: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _walk(change(key, inside), change) for key, inside in value.items()}
    return [_walk(inside, change) for inside in value] if isinstance(value, list) else value


def _width(svg: str) -> float:
    found = re.match(r'<svg [^>]*?\bwidth="([\d.]+)"', svg)
    if found is None:
        raise ConfigError("the drawn chart has no width; install another version of vl-convert-python")
    return float(found[1])


def _in_points(svg: str) -> str:
    """Return a drawing whose size on paper is in points: without a unit, its numbers would be pixels of 1/96 inch."""
    return re.sub(r'\b(width|height)="([\d.]+)"', r'\1="\2pt"', svg, count=2)
