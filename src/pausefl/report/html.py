"""One self-contained page: the guarantee in a sentence, a table, and charts that work offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from pausefl import __version__
from pausefl.errors import MissingExtraError
from pausefl.report.charts import curve_chart, picks_chart
from pausefl.report.frames import RunData, by_name, curve, picks, read_runs

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem }
p.guarantee { border-left: 4px solid #0072B2; background: #f2f7fb; padding: .6rem 1rem }
table { border-collapse: collapse }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left } .grid { display: flex; flex-wrap: wrap; gap: 1.2rem }
figure { margin: 0 }
footer { margin-top: 2rem; color: #666; font-size: .85rem }
"""


def write_report(folders: Sequence[Path], path: Path, title: str = "pausefl runs") -> Path:
    """Write the report of some runs as one HTML file that needs no network."""
    groups = by_name(read_runs(folders))
    names = list(groups)
    charts = [
        ("Accuracy against time", curve_chart(_lines(groups, "seconds", "accuracy"), "seconds", "accuracy", names)),
        ("Accuracy against rounds", curve_chart(_lines(groups, "round", "accuracy"), "round", "accuracy", names)),
        (
            "Largest leakage against rounds",
            curve_chart(_lines(groups, "round", "max_leakage"), "round", "leakage", names),
        ),
        (
            "Largest leakage against time",
            curve_chart(_lines(groups, "seconds", "max_leakage"), "seconds", "leakage", names),
        ),
        ("Who took part", picks_chart([row for runs in groups.values() for row in picks(runs)], names)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(title, groups, charts), encoding="utf-8")
    return path


def _lines(groups: dict[str, list[RunData]], x: str, y: str) -> list[dict[str, Any]]:
    return [row for runs in groups.values() for row in curve(runs, x, y)]


def _page(title: str, groups: dict[str, list[RunData]], charts: list[tuple[str, Any]]) -> str:
    try:
        import vl_convert
    except ImportError:
        raise MissingExtraError("reports need the 'report' extra; run: pip install 'pausefl[report]'") from None
    specs = [chart.to_dict() for _, chart in charts]
    code = "\n".join(
        f"vegaEmbed('#chart{i}', {_for_script(spec)}, {{actions: false, renderer: 'svg'}});"
        for i, spec in enumerate(specs)
    )
    bundle = vl_convert.javascript_bundle(f"window.addEventListener('DOMContentLoaded', () => {{ {code} }});").replace(
        "</script", "<\\/script"
    )
    figures = "".join(
        f"<figure><h2>{escape(name)}</h2><div id='chart{i}'></div></figure>" for i, (name, _) in enumerate(charts)
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style><script type='module'>{bundle}</script></head><body>"
        f"<h1>{escape(title)}</h1>{_guarantees(groups)}{_table(groups)}"
        "<p>Click a name in a legend to hide or show its curve; bands span the seeds.</p>"
        f"<div class='grid'>{figures}</div>"
        f"<footer>pausefl {__version__}</footer></body></html>"
    )


def _for_script(spec: Any) -> str:
    return json.dumps(spec).replace("<", "\\u003c")  # whatever a run is called, it cannot end the script


def _guarantees(groups: dict[str, list[RunData]]) -> str:
    """Say for every run what its leakage covers, each sentence once."""
    said: dict[str, list[str]] = {}
    for name, runs in groups.items():
        sentence = next((run.summary["guarantee"] for run in runs if run.summary), "not finished yet")
        said.setdefault(sentence, []).append(name)
    return "".join(
        f"<p class='guarantee'>{escape(', '.join(names))}: {escape(text)}</p>" for text, names in said.items()
    )


def _table(groups: dict[str, list[RunData]]) -> str:
    head = (
        "policy",
        "seeds",
        "rounds",
        "clock, s",
        "final accuracy, %",
        "best, %",
        "max leakage",
        "client accuracy, %",
    )
    rows = []
    for name, runs in groups.items():
        done = [run.summary for run in runs if run.summary]
        cells = [name, len(runs), len(runs[0].records), _mean(run.records[-1]["seconds"] for run in runs)]
        cells += [_mean(s.get("accuracy") for s in done), _mean(s.get("best_accuracy") for s in done)]
        leaks = [run.records[-1]["max_leakage"] for run in runs]
        cells.append("no bound" if None in leaks else f"{max(leaks):.1f}")
        spread = [s["client_accuracy"] for s in done if "client_accuracy" in s]
        cells.append(f"{_mean(c['mean'] for c in spread)} ± {_mean(c['deviation'] for c in spread)}" if spread else "-")
        rows.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    return f"<table><tr>{''.join(f'<th>{h}</th>' for h in head)}</tr>{''.join(rows)}</table>"


def _mean(values: Any) -> str:
    numbers = [v for v in values if v is not None]
    return f"{sum(numbers) / len(numbers):.1f}" if numbers else "-"
