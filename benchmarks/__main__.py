"""Run the benchmarks named on the command line, or all of them; exit 1 if a figure that was asked for is missed."""

from __future__ import annotations

import importlib
import sys

PARTS = ("selection", "complexity", "privacy", "training", "flower")


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        sys.exit(f"benchmarks: {unknown[0]!r} is not one of {', '.join(PARTS)}")
    results = [importlib.import_module(f"benchmarks.{part}").main() for part in wanted]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":  # training starts processes that import this file
    main()
