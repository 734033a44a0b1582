"""Comparisons as text for other programs: CSV with a number per cell, and tables for LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pausefl.report.paired_differences import METHOD, PairedDifference
from pausefl.report.policy_summary import COLUMNS, PolicySummary, Spread, at_a_glance
from pausefl.report.report_files import NOTHING
from pausefl.report.time_to_target import EXPLAINED
from pausefl.system.printable_text import spreadsheet_cell

_SPREADS = ("seconds", "accuracy", "best_accuracy", "fast_share", "worst_client", "client_deviation", "wasted")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "±": r"$\pm$", NOTHING: "--", "\N{MINUS SIGN}": "$-$",
}  # fmt: skip
_SHOWN_TARGETS = 2
"""So many of the default targets have a column in LaTeX: the highest ones."""

GLANCE = ("policy", "seeds", "clock, s", "final, %", "best, %", "max leak")
"""Headings that are short enough for a printed column."""
TEXTS = ("policy", "measure")
"""Columns of words, which begin at the left."""
PAIRED = ("policy", "measure", "seeds", "difference", "95 % interval", "p (t)", "p (flip)")


def summary_csv(policies: Sequence[PolicySummary]) -> str:
    """Return a line per policy: mean, deviation and 95 % interval of each number, and the time to each target."""
    return _csv([_summary_row(policy) for policy in policies])


def paired_csv(differences: Sequence[PairedDifference]) -> str:
    """Return a line per policy and measure."""
    return _csv([asdict(line) for line in differences])


def summary_latex(policies: Sequence[PolicySummary], targets: Sequence[float] | None = None) -> str:
    """Return the table of policies for LaTeX, with a column per target: those asked for, or the two highest."""
    columns = list(policies[0].time_to)[-_SHOWN_TARGETS:] if targets is None else list(targets)
    head = [*GLANCE, *(f"s to {target:g} %" for target in columns)]
    rows = [[*_glance(policy), *(str(policy.time_to[target]) for target in columns)] for policy in policies]
    caption = (
        "Mean ± standard deviation over seeds. Final: mean accuracy of the last ten rounds. Max leak: largest epsilon "
        "spent by a client."
    )
    return latex_table(head, rows, f"{caption} {EXPLAINED}" if columns else caption, "tab:policies")


def paired_latex(differences: Sequence[PairedDifference]) -> str:
    """Return the table of differences for LaTeX."""
    caption = f"Differences from {differences[0].reference}, seed by seed. {METHOD}"
    return latex_table(PAIRED, [paired_cells(line) for line in differences], caption, "tab:paired")


def paired_cells(line: PairedDifference) -> list[str]:
    """Return the cells of a difference, under the headings of ``PAIRED``."""
    interval = NOTHING if line.low is None or line.high is None else f"{_signed(line.low)} to {_signed(line.high)}"
    measure = line.measure if line.horizon is None else f"{line.measure}, up to {line.horizon:.0f} s"
    p_values = [p_text(line.p_t_holm), p_text(line.p_sign_flip_holm)]
    return [line.policy, measure, str(line.seeds), _signed(line.difference), interval, *p_values]


def p_text(p: float | None) -> str:
    """Return a p-value for a table.

    >>> p_text(0.0625), p_text(0.00002), p_text(None)
    ('0.062', '<0.001', '–')
    """
    return NOTHING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def latex_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str) -> str:
    """Return a table across both columns of a page; it needs booktabs, and is made to be read by ``\\input``."""
    lines = [
        r"% Needs \usepackage{booktabs} in the preamble.",
        r"\begin{table*}",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{''.join(map(_alignment, head))}}}",
        r"\toprule",
        _latex_row(head),
        r"\midrule",
        *map(_latex_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    r"""Return text as LaTeX prints it, whatever a policy is called.

    >>> print(latex_text("80 % of a_b ± 1"))
    80 \% of a\_b $\pm$ 1
    """
    return re.sub(r"[\\{}%&#$_~^<>|±\[\u2013\u2212]", lambda found: _LATEX[found[0]], " ".join(text.split()))


def _alignment(heading: str) -> str:
    return "l" if heading in TEXTS else "r"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(latex_text(re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", cell)) for cell in cells) + r" \\"


def _glance(policy: PolicySummary) -> list[str]:
    cells = dict(zip(COLUMNS, at_a_glance(policy, NOTHING), strict=True))
    return [cells[name] for name in COLUMNS if name not in ("rounds", COLUMNS[-1])]


def _signed(value: float) -> str:
    return f"{value:+.2f}" if abs(value) < 100 else f"{value:+.1f}"


def _summary_row(policy: PolicySummary) -> dict[str, Any]:
    row: dict[str, Any] = {"policy": policy.name, "seeds": policy.seeds, "rounds": policy.rounds}
    for name in _SPREADS:
        found: Spread | None = getattr(policy, name)
        half = None if found is None else found.half_width
        row |= {
            f"{name}_mean": None if found is None else found.mean,
            f"{name}_deviation": None if found is None else found.deviation,
            f"{name}_low": None if found is None or half is None else found.mean - half,
            f"{name}_high": None if found is None or half is None else found.mean + half,
        }
    row["max_leakage"] = policy.max_leakage
    for target, time in policy.time_to.items():
        row |= {f"seconds_to_{target:g}_median": time.median, f"seconds_to_{target:g}_reached": time.count}
    return row


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()
