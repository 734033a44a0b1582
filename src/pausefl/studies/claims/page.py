"""Claims as one page of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pausefl.studies.claims.claim import Claim, Finding
from pausefl.studies.claims.evidence import Evidence

_LOUD = {"does not hold": "**does not hold**"}


def claims_page(evidence: Evidence, claims: Sequence[Claim], made_with: str) -> str:
    """Return the page: an overview, then each claim with its test and its findings."""
    judged = [(claim, list(claim.judge(evidence))) for claim in claims]
    lines = [
        "# The paper's claims, measured",
        "",
        f"Made with `{made_with}`; nothing here is typed by hand. Intervals are 95 % over seeds (Student's t), pairs "
        "share their seed. *Undecided*: the interval contains both answers, or there was one seed.",
        "",
        "| claim | verdict |",
        "|---|---|",
        *(f"| {claim.text} | {_overall(findings)} |" for claim, findings in judged),
        "",
    ]
    for claim, findings in judged:
        lines += [f"## {claim.text}", "", f"*Tested:* {claim.test}", ""]
        if findings:
            lines += ["| study | verdict | measured |", "|---|---|---|"]
            lines += [f"| {f.study} | {_LOUD.get(f.verdict, f.verdict)} | {f.figure} |" for f in findings]
        else:
            lines.append("Not yet run.")
        lines.append("")
        if claim.remark and any(f.verdict != "holds" for f in findings):
            lines += [f"*Why:* {claim.remark}", ""]
    return "\n".join(lines)


def _overall(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    if len(counts) <= 1:
        return _LOUD.get(only := next(iter(counts), "not yet run"), only)
    return ", ".join(f"{_LOUD.get(v, v)} in {n} of {len(findings)}" for v, n in counts.most_common())
