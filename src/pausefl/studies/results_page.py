"""A page of results, made from the folders of studies: what was run and what was not, a table, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pausefl.report.policy_summary import COLUMNS, at_a_glance, by_policy, summarise
from pausefl.report.report_files import write_images
from pausefl.report.run_report import run_report
from pausefl.runs.run_data import SMOOTH, RunData
from pausefl.studies.evidence import Evidence, gather
from pausefl.studies.load import load_study, study_names
from pausefl.studies.study import Study
from pausefl.studies.trained import TrainedStudy
from pausefl.system.printable_text import printable

CHARTS = {
    "accuracy against rounds": "accuracy-round",
    "accuracy against latency": "accuracy-seconds",
    "leakage against latency": "leakage-max-seconds",
    "leakage against rounds": "leakage-max-round",
}
"""The charts that are figures of the paper, or of a study beyond it; the report has the rest."""
OWN = ("accuracy-seconds", "leakage-max-seconds")
"""The charts of a study that is not built in."""

PAGES = {
    "auto-published": "weights.md", "budgets": "choosing.md", "field": "field.md", "units": "units.md",
    "weights": "weights.md",
}  # fmt: skip
"""Measured studies that have a page of their own."""


def write_results(folder: Path, page: Path, made_with: str) -> Path:
    """Write the page, with its charts in ``images`` beside it."""
    evidence = gather(folder)
    commands = f" `{folder}/README.md` has the command behind each run." if (folder / "README.md").exists() else ""
    claims = page.parent / "claims.md"
    judged = f" [Claims]({claims.name}) says which claims of the paper hold in them." if claims.exists() else ""
    lines = [
        "# Results",
        "",
        f"This page shows the tables and the main charts of all studies.{judged}",
        f"The command `{made_with}` makes the page.{commands}",
        "",
        "In the tables:",
        "",
        "- A *policy* is the rule that picks the clients of a round.",
        "- A *seed* is the number from which all random numbers of a run follow. A number with ± is a mean over seeds",
        "  with its standard deviation.",
        "- *clock* is the time of the whole run, in seconds of the simulator's clock.",
        f"- *final accuracy* is the mean accuracy of the last {SMOOTH} rounds. *best* is the highest accuracy of a "
        "single round.",
        "- *largest leakage* is the largest epsilon that any client has spent in any seed. The line *What leaks* above",
        "  the table says what this epsilon covers. *Simulated noise* protects nobody.",
        "- *picks of fast half* is the share of picks that went to the faster half of the clients.",
        "",
        f"In the charts, accuracy is the mean of the last {SMOOTH} rounds, as in the paper. Lines are means over "
        "seeds. Bands reach from the lowest seed to the highest seed.",
        "",
    ]
    if evidence.unfinished:
        unfinished = ", ".join(map(printable, evidence.unfinished))
        lines += [f"These runs are not finished, so they are left out: {unfinished}.", ""]
    found, built_in = {*evidence.runs, *evidence.tables}, study_names()
    for name in [*(one for one in built_in if one in found), *sorted(found - set(built_in))]:
        study = load_study(name) if name in built_in else None
        title = printable(name) if study is None else study.about.title
        lines += [f"## {title}", "", *_study(name, study, evidence, page.parent / "images")]
    page.write_text("\n".join(lines), encoding="utf-8")
    return page


def _study(name: str, study: Study | None, evidence: Evidence, images: Path) -> list[str]:
    """Return the part of one study; None is somebody's own, of which only the folder tells."""
    if name in evidence.tables:
        table = evidence.tables[name]
        said = [", ".join(filter(None, (f"`{printable(name)}`", table.kind.seeds_played(table.rows)))) + ".", ""]
        if name in PAGES:
            said += [f"[Another page]({PAGES[name]}) says what this study found.", ""]
        prefix = "" if table.kind.kind == name else f"{name}-"  # two studies may measure the same
        return said + _pictures(
            write_images(table.kind.report(table.rows, name), images, formats=("png",), prefix=prefix)
        )
    runs = [run for seeds in evidence.runs[name].values() for run in seeds.values()]
    extent = _extent(study, runs) if isinstance(study, TrainedStudy) else f"`{printable(name)}`: {_size(runs)}."
    report = run_report(runs)
    wanted = OWN if study is None else [CHARTS.get(figure) for figure in study.about.figures]
    drawn = [chart for chart in wanted if chart in report.figures()]
    pictures = _pictures(write_images(report, images, drawn, ("png",), f"{name}-"))
    return [extent, "", *_what_leaks(runs), *_table(runs), "", *pictures]


def _extent(study: TrainedStudy, runs: Sequence[RunData]) -> str:
    """Say how much of the study these runs are."""
    whole = study.with_all_options(study.about.policies[0], 0, "full").run.rounds
    missing = [policy for policy in study.about.policies if policy not in {run.name for run in runs}]
    full = f"full scale: {whole} rounds, {study.about.seeds} seeds"
    without = f"; not run: {', '.join(f'`{policy}`' for policy in missing)}" if missing else ""
    return f"`{study.name}`: {_size(runs)}{without} ({full})."


def _size(runs: Sequence[RunData]) -> str:
    rounds = sorted({len(run.records) for run in runs})
    seeds = sorted({sum(other.name == run.name for other in runs) for run in runs})
    return f"rounds: {_range(rounds)}; seeds: {_range(seeds)}"


def _what_leaks(runs: Sequence[RunData]) -> list[str]:
    """Say what an epsilon covers: one for each coordinate is far more for the whole update."""
    said = dict.fromkeys(run.guarantee for run in runs if run.settings.privacy.enabled)
    return [line for text in said for line in (f"What leaks: {text}.", "")]


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _table(runs: Sequence[RunData]) -> list[str]:
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    return lines + [f"| {' | '.join(at_a_glance(policy, '-'))} |" for policy in summarise(by_policy(runs), ())]


def _pictures(paths: Sequence[Path]) -> list[str]:
    return [line for path in paths for line in (f"![{path.stem}](images/{path.name})", "")]
