"""The report's tables as HTML: numbers at a glance, and the time to reach an accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pausefl.report.style import Look, looks
from pausefl.report.summary import COLUMNS, PolicySummary, Spread, at_a_glance, said

_NOTHING = "\N{EN DASH}"


def key(look: Look) -> str:
    """Return a policy's line and marker as a small drawing."""
    dash = "" if look.dash[1] == 0 else f" stroke-dasharray='{' '.join(map(str, look.dash))}'"
    return (
        "<svg class='key' viewBox='0 0 34 14' aria-hidden='true'>"
        f"<path d='M1,7H33' stroke='{look.colour}' stroke-width='2' fill='none'{dash}/>"
        f"<path d='{look.path}' transform='translate(17,7) scale(4.6)' fill='{look.colour}'/></svg>"
    )


def overview(policies: Sequence[PolicySummary]) -> str:
    """Return a line per policy: what it reached, how long it took, what it leaked, how even it was."""
    rows = [
        [*at_a_glance(p, _NOTHING), said(p.worst_client, _NOTHING), said(p.client_deviation, _NOTHING)]
        for p in policies
    ]  # fmt: skip
    return _table((*COLUMNS, "worst client, %", "spread of clients, %"), rows)


def time_to_accuracy(policies: Sequence[PolicySummary]) -> str:
    """Return the seconds to each target accuracy; empty without targets."""
    targets = list(policies[0].time_to)
    if not targets:
        return ""
    rows = [[p.name, *(_reached(p.time_to[target], p.seeds) for target in targets)] for p in policies]
    return (
        "<h3>Seconds until the accuracy is first reached</h3>"
        + _table(("policy", *(f"{target:g} %" for target in targets)), rows)
        + f"<p class='reading'>Smaller is better; {_NOTHING} means never. Where only some seeds got there, the mean is "
        "theirs, and their number stands beside it.</p>"
    )


def _reached(time: Spread | None, seeds: int) -> str:
    return _NOTHING if time is None else f"{time}" + (f" ({time.count} of {seeds})" if time.count < seeds else "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    styles = looks(row[0] for row in rows)
    # A column that says nothing for anybody is left out.
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] != _NOTHING for row in rows)]
    lines = "".join(
        f"<tr data-run='{escape(row[0])}'><td>{key(styles[row[0]])}{escape(row[0])}</td>"
        + "".join(f"<td{' class=none' if row[i] == _NOTHING else ''}>{escape(row[i])}</td>" for i in kept[1:])
        + "</tr>"
        for row in rows
    )
    titles = "".join(f"<th scope='col'>{escape(head[i])}</th>" for i in kept)
    return f"<div class='wide'><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>"
