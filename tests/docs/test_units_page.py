"""The page about units tells the accuracies of the committed study, and its odds are what epsilon means."""

from __future__ import annotations

import csv
import math
import re
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/units.md").read_text(encoding="utf-8")
WORDS = {
    "record": "one record", "update": "the whole update", "coordinate": "one coordinate", "none": "nothing (no noise)",
}  # fmt: skip


def table(first: str) -> list[list[str]]:
    """Return the cells of the table whose heading begins like this, below the heading."""
    lines = PAGE[PAGE.index(f"| {first}") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_accuracies_are_those_of_the_committed_rows() -> None:
    found: dict[tuple[str, ...], list[float]] = {}
    with (ROOT / "results/units/rows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            budget = "none" if row["unit"] == "none" else f"{float(row['budget']):g}"
            key = WORDS[row["unit"]], f"{float(row['clients']):.0f}", budget, f"{float(row['releases']):.0f}"
            found.setdefault(key, []).append(float(row["accuracy"]))
    told = {(who, clients, budget, releases): said for who, clients, budget, _, releases, said in table("protected")}
    assert len(told) >= 9
    for key, said in told.items():
        assert said == f"{statistics.mean(found[key]):.1f} ± {statistics.stdev(found[key]):.1f} %"
    assert {len(seeds) for seeds in found.values()} == {5}


def test_odds_are_what_epsilon_means() -> None:
    rows = table("epsilon, for everything ever sent")
    assert len(rows) >= 5
    for epsilon, share, factor, _ in rows:
        odds = math.exp(float(epsilon))
        written = float(re.sub(r"[^0-9.]", "", factor.split("times")[0])) if "^" not in factor else 10.0**17
        assert math.isclose(written, odds, rel_tol=0.03) or ("^" in factor and 1.0 <= odds / written < 10.0)
        if "%" in share:
            assert math.isclose(float(share.rstrip(" %")), 100.0 * odds / (1.0 + odds), abs_tol=0.5)
