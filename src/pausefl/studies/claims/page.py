"""All claims, and the page of Markdown that says which of them hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import fill

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
_WIDTH = 150
_OUR_OWN = (
    "These claims are our own. *Before its runs* means that the history of the project has the claim before the runs "
    "that judge it. *With or after its runs* means that the claim came into the history together with its runs, or "
    "later. Then the runs may have suggested the claim. So these runs are weaker evidence for it."
)
_TERMS = (
    "A **policy** is the rule that picks the clients of a round. PAUSE is the paper's policy, and SA-PAUSE is its "
    "variant by simulated annealing. [Policies](policies.md) describes all of them.",
    "A **study** is a group of runs that differ only in policy and seed. [Results](results.md) shows every study.",
    "A **seed** is the number from which all random numbers of a run follow.",
    "Comparisons are **paired**: we compare two runs with the same seed. Both have the same data, the same first model "
    "and the same latencies of clients.",
    "The **interval** is the 95 % interval over seeds (Student's t). For example, 2.5 ± 0.6 (10 seeds) is a mean of "
    "2.5 over 10 seeds, with an interval from 1.9 to 3.1.",
    "**Latency** and **seconds** are those of the simulator's clock.",
    "**Leakage** is the largest epsilon that any client has spent. The table below says what an epsilon covers.",
)
_VERDICTS = (
    "*holds*: the whole interval is on the side of the claim.",
    "*does not hold*: the whole interval is on the other side.",
    "*undecided*: the interval includes values for the claim and values against it.",
    "*one seed says yes*, *one seed says no*: there is only one pair of runs, so there is no interval.",
    "*too early*: PAUSE was still trying out clients for the first time. We count the picks of clients that had been "
    "picked before. In at least one seed this number was smaller than the number of clients per round.",
)
_COVERAGE = (
    "Epsilon measures how much leaks: the smaller it is, the less. [Units](units.md) explains it. *Per coordinate* "
    "means for each single number of an update. *Whole update (d = …)* is the epsilon of all d numbers of an update "
    "together. The linf norm is the largest of these numbers without its sign, and the l2 norm is the length of the "
    "whole list. *zCDP* is a way to add up the epsilons of many releases. *Simulated noise* is good for experiments "
    "only. It protects nobody."
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
        _wrapped(
            "This page says which claims of the paper about PAUSE hold in our runs, and which do not. Claims of our "
            f"own follow. The command `{made_with}` computes every verdict and every figure from the runs."
        ),
        "",
        *_how_to_read([finding for _, findings in found for finding in findings]),
        *_coverage(evidence),
        "## Overview: the paper's claims",
        "",
        *_overview(paper),
    ]
    if ours:
        lines += ["## Overview: beyond the paper", "", _wrapped(_OUR_OWN), "", *_overview(ours)]
    before: Claim | None = None
    for claim, findings in (*paper, *ours):
        beyond = "Beyond the paper: " if claim in OURS else ""
        test = "As for the claim above." if before and claim.test == before.test else claim.test
        lines += [f"## {beyond}{claim.text}", "", _wrapped(f"*Tested:* {test}"), ""]
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
            same = before and claim.explanation == before.explanation
            why = "As for the claim above." if same else claim.explanation
            lines += [_wrapped(f"*Possible explanation:* {why}"), ""]
        before = claim
    return "\n".join(lines)


def _overview(claims: Sequence[tuple[Claim, Sequence[Finding]]]) -> list[str]:
    """Return a table with a row per claim; claims of our own also say when they were defined."""
    head, rule = "| claim | verdict | survive the correction |", "|---|---|---|"
    rows = [f"| {claim.text} | {_overall(findings)} | {_surviving(findings)} |" for claim, findings in claims]
    if all(claim.before_runs is not None for claim, _ in claims):
        head, rule = f"{head} defined |", f"{rule}---|"
        rows = [f"{row} {_DEFINED[bool(claim.before_runs)]} |" for row, (claim, _) in zip(rows, claims, strict=True)]
    return [head, rule, *rows, ""]


def _how_to_read(findings: Sequence[Finding]) -> list[str]:
    """Explain the words of the page once: terms, verdicts and the correction; say how many verdicts survive."""
    settled = [finding for finding in findings if decided(finding)]
    family = comparisons(findings)
    return [
        f"**{len(settled)} verdicts on this page say *holds* or *does not hold* because of a statistical comparison. "
        f"{sum(map(survives, settled))} of them survive the correction.**",
        "",
        "## How to read this page",
        "",
        *(_wrapped(term, "- ") for term in _TERMS),
        "",
        "The **verdicts** are:",
        "",
        *(_wrapped(verdict, "- ") for verdict in _VERDICTS),
        "",
        "Some claims need no interval, because they are only checked against recorded numbers.",
        "",
        _wrapped(
            "There is a second verdict **after correction**. By chance, one in twenty 95 % intervals misses the true "
            f"value. This page has {family} comparisons with at least two seeds, so some verdicts may be chance. "
            f"Holm's correction allows for all {family} together, because a reader looks through the whole page for "
            "what holds."
        ),
        "",
        *(
            _wrapped(said, "- ")
            for said in (
                "*survives*: the verdict stays the same. If the differences between seeds are about normally "
                "distributed, the chance that even one surviving verdict is wrong is at most 5 %.",
                "*undecided*: the verdict does not survive. This does not refute it. It needs more seeds.",
                "*no test*: there is nothing to correct, because recorded numbers were only checked, there is only one "
                "seed, or it is too early.",
                "*p* is the corrected p-value of the two-sided t test behind the interval. A verdict survives if p is "
                "below 0.05.",
            )
        ),
        "",
        _wrapped(
            "No correction helps where somebody added a claim or seeds after seeing runs. `results/README.md` names "
            "such seeds. The paper made its claims before our runs. But we chose some of our tests of them after we "
            "had seen the first runs."
        ),
        "",
    ]


def _wrapped(text: str, mark: str = "") -> str:
    """Return a paragraph, or an item of a list, in lines that an editor can show."""
    indent = " " * len(mark)
    return fill(
        text, _WIDTH, initial_indent=mark, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


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
    lines = []
    if said:
        lines += ["## What epsilon covers in these runs", "", _wrapped(_COVERAGE), ""]
        lines += ["| studies | guarantee |", "|---|---|"]
        lines += [f"| {', '.join(sorted(studies))} | {text} |" for text, studies in said.items()]
        lines.append("")
    if evidence.unfinished:
        lines += [f"These runs are not finished, so they are left out: {', '.join(evidence.unfinished)}.", ""]
    return lines


def _overall(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    if len(counts) <= 1:
        return _LOUD.get(only := str(next(iter(counts), "not yet run")), only)
    return ", ".join(f"{_LOUD.get(v, v)} in {n} of {len(findings)}" for v, n in counts.most_common())
