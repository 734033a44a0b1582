"""The only room that plots: Vega-Lite through Altair, one description for the page, SVG and PNG."""
