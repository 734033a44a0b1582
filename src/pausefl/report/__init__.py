"""Reports of runs and measurements: tables, charts, HTML pages and images."""
