"""The only room that plots: Vega-Lite through Altair, one description for the page, SVG and PNG."""

from pausefl.report.charts.base import require_charts, save_chart
from pausefl.report.charts.curves import curve_chart
from pausefl.report.charts.multiples import multiples_chart

__all__ = ["curve_chart", "multiples_chart", "require_charts", "save_chart"]
