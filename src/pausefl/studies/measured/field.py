"""The field: every policy on the same tasks and networks, at the same epsilon for life, signals included.

A policy that feeds on losses or accuracies gets them as its clients can afford them: noised, and paid for from the same
budget as the updates.  What it spends on them is missing for the updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from pausefl.report.report_files import Report, ReportSection, Table
from pausefl.report.time_to_target import EXPLAINED, TimeToTarget, time_to_target
from pausefl.studies.measured.tasks import Setting, outcome, played, target, task_name
from pausefl.studies.study import Measurement, Progress, Row, Rows


class FieldStudy(Measurement):
    """Runs of every policy in every setting, each with ``seeds`` seeds.

    ``scale`` shrinks the number of rounds for a trial.
    """

    kind: ClassVar = "field"
    resumable: ClassVar = True
    columns: ClassVar = {
        "data": str, "split": str, "network": str, "unit": str, "policy": str, "seed": float, "target": float,
        "seconds": float, "all_seconds": float, "accuracy": float, "leakage": float, "worst_tenth": float,
    }  # fmt: skip

    settings: list[Setting] = Field(
        default=list(product(("mnist", "fashion-mnist"), ("iid", "labels"), ("stable", "rough"), ("update", "record"))),
        min_length=1,
    )
    policies: list[str] = Field(default=["pause-auto", "pause", "random"], min_length=1)
    scale: float = Field(default=1.0, gt=0, le=1)
    seeds: int = Field(default=5, ge=1)

    def rows(self, progress: Progress = lambda _: None, known: Sequence[Row] = ()) -> Iterator[Row]:
        """Yield a row per setting, policy and seed, but for those that are known."""
        cells = list(product(self.settings, self.policies, range(self.seeds)))
        for done, (setting, policy, seed) in enumerate(cells):
            if done >= len(known):
                data, split, network, unit = setting
                goal = target(setting, self.scale)
                run, worst = played(setting, policy, seed, self.scale)
                yield {
                    "data": data, "split": split, "network": network, "unit": unit, "policy": policy, "seed": seed,
                    "target": goal, **outcome(run, goal), "worst_tenth": worst,
                }  # fmt: skip
            progress((done + 1) / len(cells))

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return a table per setting, the policy that gets there first on top."""
        reading = (
            f"Seconds to the target, by the virtual clock. {EXPLAINED} All policies have the same epsilon for life, "
            "and pay for their signals from it."
        )
        sections = [
            ReportSection(f"setting-{number}", name, reading, table=_table(seeds))
            for number, (name, seeds) in enumerate(by_setting(rows).items(), 1)
        ]
        return Report(title, list(dict.fromkeys(row["policy"] for row in rows)), sections)


def by_setting(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each setting, by its name in words."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        name = task_name(row["data"], row["split"], row["network"], row["unit"])
        found.setdefault(name, []).append(row)
    return found


def by_policy(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each policy in one setting, the one first that gets to the target first.

    A policy of which more seeds reach the target is before one of which fewer do.  Where none does, the more accurate
    one is before.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["policy"], []).append(row)
    return dict(sorted(found.items(), key=lambda item: _rank(item[1])))


def seconds_to_target(rows: Rows) -> TimeToTarget:
    """Return the seconds to the target over the seeds of one policy in one setting."""
    return time_to_target(row["seconds"] for row in rows)


def log_ratios(rows: Rows, others: Rows, longest: float) -> list[float]:
    """Return for each seed the logarithm of how many times as long ``rows`` took to the target as ``others``.

    Pairs share their seed.  A run that never gets there counts as the ``longest`` of the setting.
    """
    ours, theirs = ({row["seed"]: min(row["seconds"], longest) for row in some} for some in (rows, others))
    return [float(np.log(ours[seed] / theirs[seed])) for seed in ours]


def _rank(rows: Rows) -> tuple[float, float, float]:
    time = seconds_to_target(rows)
    median = np.inf if time.median is None else time.median
    return -time.count / time.seeds, median, -float(np.mean([row["accuracy"] for row in rows]))


def _table(rows: Rows) -> Table:
    head = ["policy", "seconds to target", "final accuracy (%)", "worst tenth (%)", "largest epsilon"]
    body = []
    for policy, seeds in by_policy(rows).items():
        means = [float(np.mean([row[name] for row in seeds])) for name in ("accuracy", "worst_tenth", "leakage")]
        time = str(seconds_to_target(seeds))
        body.append([policy, time, *(f"{mean:.1f}" for mean in means[:2]), f"{means[2]:.3g}"])
    return Table(head, body, f"Target: {rows[0]['target']:.1f} %")
