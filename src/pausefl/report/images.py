"""The charts of a report as files, for papers and documentation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.report.charts.base import load_altair, save_chart
from pausefl.report.figures import figures
from pausefl.report.groups import by_name
from pausefl.report.reference import read_references
from pausefl.runs.data import RunData

FORMATS = ("png", "svg")


def write_images(
    runs: Sequence[RunData],
    folder: Path,
    names: Collection[str] | None = None,
    formats: Sequence[str] = FORMATS,
    width: int = 520,
    references: Sequence[Path] = (),
) -> list[Path]:
    """Write charts of these runs into a folder, each with its own legend; ``names`` picks some of them.

    Names are those of the files without their ending, such as ``accuracy-seconds`` or ``picks-speed``.
    """
    load_altair()
    found = {figure.name: figure for figure in figures(by_name(runs), read_references(references))}
    unknown = [name for name in names or () if name not in found]
    if unknown:
        raise ConfigError(f"chart is {unknown[0]!r}, but must be one of {', '.join(found)}; choose among them")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in found if names is None else names:
        chart = found[name].draw(width=width, title=found[name].title)
        for ending in formats:
            written.append(folder / f"{name}.{ending}")
            save_chart(chart, written[-1])
    return written
