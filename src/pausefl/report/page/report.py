"""One self-contained page: the guarantee in a sentence, tables, and charts that work offline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from pausefl.report.charts.base import load_altair
from pausefl.report.figures import Groups, Section, sections
from pausefl.report.groups import by_name
from pausefl.report.page.shell import page
from pausefl.report.page.tables import overview, time_to_accuracy
from pausefl.report.reference import read_references
from pausefl.report.summary import default_targets, summarise
from pausefl.runs.folder import read_runs

_GLANCE = (
    "After the last round: accuracy is the mean score of the last ten rounds, the clock adds up what the slowest "
    "member of each round took, leakage is the most that any client spent in any seed, and the last columns tell how "
    "the model serves the clients' own data."
)


def write_report(
    folders: Sequence[Path], path: Path, title: str = "pausefl runs", references: Sequence[Path] = ()
) -> Path:
    """Write the report of some runs as one HTML file that needs no network; ``references`` are CSV files of curves."""
    load_altair()
    groups, others = by_name(read_runs(folders)), read_references(references)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(title, groups, sections(groups, others), list(others)), encoding="utf-8")
    return path


def _page(title: str, groups: Groups, parts: Sequence[Section], others: Sequence[str]) -> str:
    policies = summarise(groups, default_targets(groups))
    first = f"<section><h2>At a glance</h2><p class='reading'>{_GLANCE}</p>{overview(policies)}</section>"
    return page(
        title, [*groups, *others], parts, intro=_facts(groups) + _guarantees(groups), first=first,
        more={"accuracy": time_to_accuracy(policies)},
    )  # fmt: skip


def _facts(groups: Groups) -> str:
    """Say what was run, as far as all runs agree."""
    configs = [run.settings for runs in groups.values() for run in runs]
    said = []
    for section, name, words in (
        ("data", "name", "data: {}"),
        ("data", "partition", "{} split"),
        ("learning", "model", "model {}"),
        ("network", "clients", "{:,} clients"),
        ("selection", "per_round", "{:,} per round"),
    ):
        values = {getattr(getattr(config, section), name) for config in configs}
        trained = all(config.learning.enabled for config in configs)
        if len(values) == 1 and (trained or section in ("network", "selection")):
            said.append(words.format(values.pop()))
    return f"<p class='facts'>{escape(' · '.join(said))}</p>" if said else ""


def _guarantees(groups: Groups) -> str:
    """Say for every run what its leakage covers, each sentence once."""
    said: dict[str, list[str]] = {}
    for name, runs in groups.items():
        sentence = next((run.summary["guarantee"] for run in runs if run.summary), "not finished yet")
        said.setdefault(sentence, []).append(name)
    lines = [
        f"<b>{escape('All policies' if len(said) == 1 and len(names) > 1 else ', '.join(names))}</b>: {escape(text)}"
        for text, names in said.items()
    ]
    return f"<p class='guarantee'>{'.<br>'.join(lines)}.</p>"
