"""Run the benchmarks named on the command line, or all of them; exit 1 if a figure that was asked for is missed."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

PARTS = ("selection", "clock_only", "scaling", "complexity", "privacy", "training", "runs", "report", "flower", "rooms")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--chart", type=Path, help="where scaling draws its chart (default: build/scaling.svg)")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        sys.exit(f"benchmarks: {unknown[0]!r} is not one of {', '.join(PARTS)}")
    results = []
    for part in asked.parts or PARTS:
        more = {"chart": asked.chart} if part == "scaling" and asked.chart is not None else {}
        results.append(importlib.import_module(f"benchmarks.{part}").main(**more))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":  # training starts processes that import this file
    main()
