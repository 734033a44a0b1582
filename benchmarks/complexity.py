"""Table I of the paper, measured: time per call for growing K, with the fitted growth in K."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np

from benchmarks.measure import Figure, show
from pausefl.studies.measured.complexity import Complexity, growth


def main() -> bool:
    figures = []
    for name, found in groupby(Complexity(seeds=1).rows(), key=lambda row: row["method"]):
        rows = list(found)
        figures += [Figure(f"{name}, K={row['clients']:,}", _in_words(row["seconds"])) for row in rows]
        power = growth(np.array([row["clients"] for row in rows]), np.array([row["seconds"] for row in rows]))
        figures.append(Figure(f"  {name}: time grows like K to the", f"{power:.2f}"))
    return show("Table I, measured (m = K/5, at most 1,000; annealing: 100 steps per client)", figures)


def _in_words(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= s), (1e-6, "µs"))
    digits = max(0, 2 - int(math.log10(max(1.0, seconds / scale))))
    return f"{seconds / scale:.{digits}f} {unit}"
