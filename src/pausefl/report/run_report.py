"""The report of training runs: the guarantee in a sentence, tables, and charts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pausefl.report import policy_summary as summary
from pausefl.report.policy_summary import Groups, cell
from pausefl.report.progress_report import progress_sections
from pausefl.report.report_files import NOTHING, Report, ReportSection, Table
from pausefl.report.run_charts import run_sections
from pausefl.report.time_to_target import EXPLAINED
from pausefl.runs.config import flat
from pausefl.runs.progress.find import progress_of
from pausefl.runs.run_data import RunData

_LONGEST = 200
_GLANCE = (
    "The numbers are those after the last round. Accuracy is the mean score of the last ten rounds. The clock adds up "
    "what the slowest member of each round took. Leakage is the most that any client spent in any seed. The last "
    "columns "
    "tell how accurate the model is on the clients' own data."
)
_WASTED = " Wasted releases are those that clients paid for and nobody used."
_TIMES = f"Smaller is better. {EXPLAINED}"


def run_report(
    runs: Sequence[RunData], title: str = "pausefl runs", references: Groups | None = None, labels: Sequence[str] = ()
) -> Report:
    """Return the report of some runs; ``references`` are curves of others to draw beside them.

    ``labels`` such as ``pause=Ours`` say what a policy is to be called instead.
    """
    groups, others = summary.labelled(summary.by_policy(runs), labels), references or {}
    policies = summary.summarise(groups)
    reading = _GLANCE + (_WASTED if any(policy.wasted for policy in policies) else "")
    glance = ReportSection("glance", "At a glance", reading, table=_overview(policies))
    accuracy, *rest = run_sections(groups, others)
    sections = [glance, replace(accuracy, table=_time_to_accuracy(policies)), *rest]
    if len(runs) == 1 and not others:  # one run has room for its clients
        sections += progress_sections(progress_of(runs[0]), skip=("run-accuracy",))
    names = [*groups, *others]
    return Report(title, names, sections, _facts(groups), guarantees(groups), configuration=_configuration(groups))


def _overview(policies: Sequence[summary.PolicySummary]) -> Table:
    """Return a line per policy: what it reached, how long it took, what it leaked, how even it was."""
    rows = [
        [
            *summary.at_a_glance(p, NOTHING),
            cell(p.wasted, NOTHING),
            cell(p.worst_client, NOTHING),
            cell(p.client_deviation, NOTHING),
        ]
        for p in policies
    ]
    return _without_empty_columns(
        (*summary.COLUMNS, "wasted releases, %", "worst client, %", "spread of clients, %"), rows
    )


def _time_to_accuracy(policies: Sequence[summary.PolicySummary]) -> Table | None:
    """Return the seconds to each target accuracy; None without targets."""
    targets = list(policies[0].time_to)
    rows = [[p.name, *(str(p.time_to[target]) for target in targets)] for p in policies]
    head = ("policy", *(f"{target:g} %" for target in targets))
    return Table(head, rows, "Seconds until the accuracy is first reached", _TIMES) if targets else None


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
    return [*_unfinished(groups), *said]


def _unfinished(groups: Groups) -> list[str]:
    """Say how far the runs are that have not come to their end."""
    found = {
        f"{len(run.records):,} of {run.settings.run.rounds:,} rounds"
        + ("" if len(groups) == len(runs) == 1 else f" of {name}, seed {run.settings.run.seed}")
        for name, runs in groups.items()
        for run in runs
        if run.summary is None and len(run.records) < run.settings.run.rounds
    }
    some = sorted(found)[:3]
    return (
        [f"not finished: {', '.join(some)}" + (f" and {len(found) - 3} more" if len(found) > 3 else "")]
        if found
        else []
    )


def _configuration(groups: Groups) -> list[tuple[str, list[str]]]:
    """Return the settings that all runs share, and those in which a policy differs; seeds are named with the policy."""
    settings = {name: [flat(run.settings) for run in runs] for name, runs in groups.items()}
    every = [one for some in settings.values() for one in some]
    keys = [key for key in every[0] if key != "run.seed"]
    shared = {key: every[0][key] for key in keys if all(key in one and one[key] == every[0][key] for one in every)}
    found = [("All runs", [_line(key, value) for key, value in shared.items()])]
    for name, some in settings.items():
        own = [_line(key, value) for key, value in some[0].items() if key not in shared and key != "run.seed"]
        seeds = ", ".join(str(one["run.seed"]) for one in some)
        found.append((name, [*own, f"run.seed = {seeds}"]))
    return found


def _line(key: str, value: object) -> str:
    text = json.dumps(value, default=str)
    return f"{key} = {text if len(text) <= _LONGEST else text[:_LONGEST] + ' …'}"


def guarantees(groups: Groups) -> list[tuple[str, str]]:
    """Say for every run what its leakage covers, each sentence once."""
    said: dict[str, list[str]] = {}
    for name, runs in groups.items():
        sentence = next((run.guarantee for run in runs if run.summary), "not finished yet")
        said.setdefault(sentence, []).append(name)
    return [
        ("All policies" if len(said) == 1 and len(names) > 1 else ", ".join(names), text)
        for text, names in said.items()
    ]
