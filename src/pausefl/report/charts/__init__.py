"""Charts as Vega-Lite, made with Altair: one description serves the page, SVG and PNG."""
