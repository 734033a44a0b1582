"""The report of training runs: the guarantee in a sentence, tables, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pausefl.report import policy_summary as summary
from pausefl.report.policy_summary import Groups, cell
from pausefl.report.report_files import NOTHING, Report, ReportSection, Table
from pausefl.report.run_charts import run_sections
from pausefl.runs.run_data import RunData

_GLANCE = (
    "After the last round: accuracy is the mean score of the last ten rounds, the clock adds up what the slowest "
    "member of each round took, leakage is the most that any client spent in any seed, and the last columns tell how "
    "the model serves the clients' own data."
)
_TIMES = (
    f"Smaller is better; {NOTHING} means never. Where only some seeds got there, the mean is theirs, and their number "
    "stands beside it."
)


def run_report(runs: Sequence[RunData], title: str = "pausefl runs", references: Groups | None = None) -> Report:
    """Return the report of some runs; ``references`` are curves of others to draw beside them."""
    groups, others = summary.by_policy(runs), references or {}
    policies = summary.summarise(groups)
    glance = ReportSection("glance", "At a glance", _GLANCE, table=_overview(policies))
    accuracy, *rest = run_sections(groups, others)
    sections = [glance, replace(accuracy, table=_time_to_accuracy(policies)), *rest]
    return Report(title, [*groups, *others], sections, _facts(groups), _guarantees(groups))


def _overview(policies: Sequence[summary.PolicySummary]) -> Table:
    """Return a line per policy: what it reached, how long it took, what it leaked, how even it was."""
    rows = [
        [*summary.at_a_glance(p, NOTHING), cell(p.worst_client, NOTHING), cell(p.client_deviation, NOTHING)]
        for p in policies
    ]
    return _without_empty_columns((*summary.COLUMNS, "worst client, %", "spread of clients, %"), rows)


def _time_to_accuracy(policies: Sequence[summary.PolicySummary]) -> Table | None:
    """Return the seconds to each target accuracy; None without targets."""
    targets = list(policies[0].time_to)
    rows = [[p.name, *(_reached(p.time_to[target], p.seeds) for target in targets)] for p in policies]
    table = _without_empty_columns(("policy", *(f"{target:g} %" for target in targets)), rows)
    return replace(table, title="Seconds until the accuracy is first reached", reading=_TIMES) if targets else None


def _reached(time: summary.Spread | None, seeds: int) -> str:
    return NOTHING if time is None else f"{time}" + (f" ({time.count} of {seeds})" if time.count < seeds else "")


def _without_empty_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    kept = [i for i in range(len(head)) if any(row[i] != NOTHING for row in rows)]
    return Table([head[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _facts(groups: Groups) -> list[str]:
    """Say what was run, as far as all runs agree."""
    configs = [run.settings for runs in groups.values() for run in runs]
    trained = all(config.learning.enabled for config in configs)
    said = []
    for section, name, words in (
        ("data", "name", "data: {}"),
        ("data", "partition", "{} split"),
        ("learning", "model", "model {}"),
        ("network", "clients", "{:,} clients"),
        ("selection", "per_round", "{:,} per round"),
    ):
        values = {getattr(getattr(config, section), name) for config in configs}
        if len(values) == 1 and (trained or section in ("network", "selection")):
            said.append(words.format(values.pop()))
    return said


def _guarantees(groups: Groups) -> list[tuple[str, str]]:
    """Say for every run what its leakage covers, each sentence once."""
    said: dict[str, list[str]] = {}
    for name, runs in groups.items():
        sentence = next((run.summary["guarantee"] for run in runs if run.summary), "not finished yet")
        said.setdefault(sentence, []).append(name)
    return [
        ("All policies" if len(said) == 1 and len(names) > 1 else ", ".join(names), text)
        for text, names in said.items()
    ]
