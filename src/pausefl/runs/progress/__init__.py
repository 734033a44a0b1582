"""Where a run stands, simulated or in Flower: read once, or followed while it is written."""
