"""All claims, and the page of Markdown that says which of them hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pausefl.studies.claims.beyond_claims import BEYOND
from pausefl.studies.claims.claim import Claim, Finding
from pausefl.studies.claims.correction import comparisons, corrected, decided, survives
from pausefl.studies.claims.measurement_claims import MEASURED
from pausefl.studies.claims.training_claims import TRAINED
from pausefl.studies.claims.unit_claims import UNIT_CLAIMS
from pausefl.studies.claims.whole_update_claims import WHOLE_UPDATE
from pausefl.studies.evidence import Evidence
from pausefl.studies.load import names_beyond_the_paper

OURS = (*WHOLE_UPDATE, *UNIT_CLAIMS, *BEYOND)
"""Claims of our own, about what the paper does not have."""
CLAIMS: tuple[Claim, ...] = (*TRAINED, *MEASURED, *OURS)

_LOUD = {"does not hold": "**does not hold**"}
_FOR = ("holds", "one seed says yes")
_DEFINED = {True: "before its runs", False: "with or after its runs"}
_OUR_OWN = (
    "Beyond the paper, these claims are our own. *Before its runs* means that the history of the project has the claim "
    "before the runs that judge it. *With or after its runs* means that it does not. Then the runs may have suggested "
    "the claim, and that it holds in them says less."
)


def judged(evidence: Evidence) -> list[tuple[Claim, list[Finding]]]:
    """Return each claim with what the runs say of it; the paper's are judged by studies of the paper alone.

    Verdicts are corrected for the number of comparisons on the whole page.
    """
    paper = evidence.without(names_beyond_the_paper())
    found = [list(claim.judge(evidence if claim in OURS else paper)) for claim in CLAIMS]
    mended = iter(corrected([finding for findings in found for finding in findings]))
    return [(claim, [next(mended) for _ in findings]) for claim, findings in zip(CLAIMS, found, strict=True)]


def claims_page(evidence: Evidence, made_with: str) -> str:
    """Return the page: an overview, then each claim with its test and its findings."""
    found = judged(evidence)
    ours = [(claim, findings) for claim, findings in found if claim in OURS and findings]
    paper = [(claim, findings) for claim, findings in found if claim not in OURS]
    lines = [
        "# The paper's claims, measured",
        "",
        f"Made with `{made_with}`: it computes verdicts and figures from runs. Intervals are 95 % over seeds "
        "(Student's t), and the two runs of a pair have the same seed. *Undecided* means that the interval includes "
        "values for the claim and values against it. *One seed says yes* (or *no*) means that there is only one pair "
        "of runs, so there is no interval. *Too early* means that PAUSE was still trying out clients for the first "
        "time: in some seed, fewer of its picks until then were repeated ones than one round has members.",
        "",
        *_on_the_correction([finding for _, findings in found for finding in findings]),
        *_coverage(evidence),
        *_overview(paper),
    ]
    if ours:
        lines += [_OUR_OWN, "", *_overview(ours)]
    for claim, findings in (*paper, *ours):
        beyond = "Beyond the paper: " if claim in OURS else ""
        lines += [f"## {beyond}{claim.text}", "", f"*Tested:* {claim.test}", ""]
        if claim.before_runs is not None:
            lines += [f"*Defined:* {_DEFINED[claim.before_runs]}.", ""]
        if findings:
            lines += ["| study | verdict | after correction | measured |", "|---|---|---|---|"]
            lines += [
                f"| {f.study} | {_LOUD.get(f.verdict, f.verdict)} | {_after_correction(f)} | {f.figure} |"
                for f in findings
            ]
        else:
            lines.append("Not yet run.")
        lines.append("")
        if claim.explanation and any(f.verdict not in _FOR for f in findings):
            lines += [f"*Possible explanation:* {claim.explanation}", ""]
    return "\n".join(lines)


def _overview(claims: Sequence[tuple[Claim, Sequence[Finding]]]) -> list[str]:
    """Return a table with a row per claim; claims of our own also say when they were defined."""
    head, rule = "| claim | verdict | survive the correction |", "|---|---|---|"
    rows = [f"| {claim.text} | {_overall(findings)} | {_surviving(findings)} |" for claim, findings in claims]
    if all(claim.before_runs is not None for claim, _ in claims):
        head, rule = f"{head} defined |", f"{rule}---|"
        rows = [f"{row} {_DEFINED[bool(claim.before_runs)]} |" for row, (claim, _) in zip(rows, claims, strict=True)]
    return [head, rule, *rows, ""]


def _on_the_correction(findings: Sequence[Finding]) -> list[str]:
    """Say which comparisons are corrected together, why, and how many verdicts survive."""
    settled = [finding for finding in findings if decided(finding)]
    return [
        "Of twenty intervals, one misses by chance. So there is a second verdict, after Holm's correction. All "
        f"comparisons on this page that have at least two seeds are one family, {comparisons(findings)} in all, "
        "because a reader looks through the whole page for what holds. The p-values are two-sided, from the t test "
        "behind the intervals. If differences between seeds are about normal, the chance that luck made even one "
        "of the verdicts that *survive* is at most 5 %. A verdict that does not survive is undecided. That does not "
        "refute it: it needs more seeds. *No test* means that there is nothing to correct, because recorded numbers "
        "were only checked, there is one seed, or it is too early. No correction helps where a claim or more seeds "
        "were added after a look at the runs. `results/README.md` names such seeds. The sentences of the paper were "
        "there before our runs. How we test them was in part settled after the first runs had been seen.",
        "",
        f"**Of {len(settled)} verdicts that comparisons decided, {sum(map(survives, settled))} survive.**",
        "",
    ]


def _after_correction(finding: Finding) -> str:
    if finding.corrected is None or finding.p is None:
        return "no test"
    if not decided(finding):
        return finding.corrected
    p = "p < 0.001" if finding.p < 0.001 else f"p = {finding.p:.2g}"
    return f"survives, {p}" if survives(finding) else f"*{finding.corrected}*, {p}"


def _surviving(findings: Sequence[Finding]) -> str:
    settled = [finding for finding in findings if decided(finding)]
    return f"{sum(map(survives, settled))} of {len(settled)}" if settled else "no test"


def _coverage(evidence: Evidence) -> list[str]:
    """Say what one epsilon covers in these runs, and which runs are not in here."""
    said: dict[str, set[str]] = {}
    for study, policies in evidence.runs.items():
        for seeds in policies.values():
            for run in seeds.values():
                if run.settings.privacy.enabled:
                    said.setdefault(str((run.summary or {}).get("guarantee")), set()).add(study)
    lines = [f"What leaks, in {', '.join(sorted(studies))}: {text}.\n" for text, studies in said.items()]
    if evidence.unfinished:
        lines.append(f"Not finished, and left out: {', '.join(evidence.unfinished)}.\n")
    return lines


def _overall(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    if len(counts) <= 1:
        return _LOUD.get(only := str(next(iter(counts), "not yet run")), only)
    return ", ".join(f"{_LOUD.get(v, v)} in {n} of {len(findings)}" for v, n in counts.most_common())
