"""A page of results, made from the folders of studies: what was run, a table, and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError
from pausefl.report.frames import RunData, by_name
from pausefl.report.images import write_images
from pausefl.report.measured import write_measured_images
from pausefl.report.summary import Spread, summarise
from pausefl.studies.claims.evidence import Evidence, gather
from pausefl.studies.shelf import load_study, study_names

CHARTS = ("accuracy-seconds", "leakage-max-round")
"""What the paper shows of each training study; the report has the rest."""

_HEAD = (
    "policy", "seeds", "rounds", "clock, s", "final accuracy, %", "best, %", "largest leakage", "picks of fast half, %",
)  # fmt: skip


def write_results(folder: Path, page: Path, made_with: str) -> Path:
    """Write the page, with its charts in ``images`` beside it."""
    evidence = gather(folder)
    lines = [
        "# Results",
        "",
        f"Made with `{made_with}` ; the commands behind each run are in `{folder}/README.md`. ± is the standard "
        "deviation over seeds, *final* the mean of the last ten rounds. What they say of the paper's claims is in "
        "[claims](claims.md).",
        "",
    ]
    found = {*evidence.runs, *evidence.rows}
    known = [name for name in study_names() if name in found]
    if not known:
        raise ConfigError(
            f"{folder} has {', '.join(sorted(found))}, but no folder named like a study of the paper; rename"
        )
    for name in known:
        lines += [f"## {load_study(name).about.title}", "", f"`pausefl study {name}`", ""]
        lines += _study(name, evidence, page.parent / "images")
    page.write_text("\n".join(lines), encoding="utf-8")
    return page


def _study(name: str, evidence: Evidence, images: Path) -> list[str]:
    if name in evidence.rows:
        kind = load_study(name).about
        rows: Sequence[Mapping[str, Any]] = evidence.rows[name]
        return _pictures(write_measured_images(getattr(kind, "measures", name), rows, images, ("png",)))
    runs = [run for seeds in evidence.runs[name].values() for run in seeds.values()]
    return [*_table(runs), "", *_pictures(_charts(name, runs, images))]


def _charts(name: str, runs: Sequence[RunData], images: Path) -> list[Path]:
    written = []
    for chart in CHARTS:
        try:
            (path,) = write_images(runs, images, [chart], ("png",))
        except ConfigError:
            continue  # nothing of this kind in these runs
        written.append(path.replace(images / f"{name}-{path.name}"))
    return written


def _table(runs: Sequence[RunData]) -> list[str]:
    lines = [f"| {' | '.join(_HEAD)} |", "|" + "---|" * len(_HEAD)]
    for p in summarise(by_name(runs), ()):
        cells = [
            p.name, str(p.seeds), str(p.rounds), _said(p.seconds), _said(p.accuracy), _said(p.best_accuracy),
            "no bound" if p.max_leakage is None else f"{p.max_leakage:.1f}", _said(p.fast_share),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _said(value: Spread | None) -> str:
    return "-" if value is None else str(value)


def _pictures(paths: Sequence[Path]) -> list[str]:
    return [line for path in paths for line in (f"![{path.stem}](images/{path.name})", "")]
