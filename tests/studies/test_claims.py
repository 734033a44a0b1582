"""Claims are judged by what runs say, whichever way it falls."""

import csv
import json
from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.runs.config import make_config
from pausefl.studies.claims.claim import Estimate
from pausefl.studies.claims.page import CLAIMS, OURS, claims_page, judged
from pausefl.studies.evidence import Evidence, gather
from pausefl.studies.measured.budgets import Budgets
from pausefl.studies.measured.study import MeasuredRows
from pausefl.studies.measured.units import Units

ROUNDS = 30


def write_run(
    folder: Path, policy: str, seed: int, *, accuracy: float, latency: float, leakage: float, budget: float = 10.0,
    selection: dict | None = None, clients: int = 30, server: dict | None = None, more: dict | None = None,
) -> None:  # fmt: skip
    """A run whose accuracy and leakage grow in straight lines to the values given."""
    folder.mkdir(parents=True)
    config = make_config({
        "network": {"clients": clients}, "selection": {"policy": policy, **(selection or {})},
        "privacy": {"budget": budget}, "server": server or {}, "run": {"seed": seed},
    } | (more or {}))  # fmt: skip
    (folder / "config.toml").write_text(config.toml())
    records = [
        {"round": n, "members": [(5 * n + i) % clients for i in range(5)], "latency": latency, "seconds": n * latency,
         "accuracy": accuracy * n / ROUNDS + 0.01 * seed,
         "max_leakage": leakage * n / ROUNDS}
        for n in range(1, ROUNDS + 1)
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "summary.json").write_text(json.dumps({"rounds": ROUNDS, "guarantee": "epsilon per coordinate"}))


def test_whole_update_budgets_are_judged(tmp_path: Path) -> None:
    """Plans that are right and wrong, a rehearsal that pays, and seconds beside those of the fastest."""
    place = tmp_path / "results" / "whole-update"
    privacy = {"mechanism": "privunit", "unit": "update", "budget": 10.0}
    for seed in range(3):
        for name, seconds in (("pause", 0.8), ("rehearsed", 0.5), ("random", 1.0), ("fastest", 0.48)):
            network = {"clients": 30, "rehearsal": name == "rehearsed"}
            write_run(place / name / f"seed-{seed}", name.replace("rehearsed", "pause"), seed, accuracy=110.0 + seed,
                      latency=seconds, leakage=1.0, more={"privacy": privacy, "network": network})  # fmt: skip
    fixed = {"data": "d", "features": "f", "clients": 9.0, "per_round": 3.0, "without_noise": 90.0, "bearable": 2.0}
    rows = [
        fixed | {"budget": budget, "noise_to_signal": noise, "accuracy": accuracy + 0.1 * seed, "seed": seed}
        for budget, noise, accuracy in ((1.0, 3.0, 40.0), (2.0, 3.0, 85.0), (3.0, 1.0, 85.0), (4.0, 1.0, 40.0))
        for seed in range(3)
    ]
    evidence = Evidence(gather(place.parent).runs, {"budgets": MeasuredRows(Budgets, rows)})
    found = {claim.text: [one.verdict for one in findings] for claim, findings in judged(evidence) if claim in OURS}
    assert [verdicts for text, verdicts in found.items() if "where the plan says so" in text] == [
        ["holds", "does not hold", "holds", "does not hold"]
    ]
    assert found["With few releases per client, PAUSE is faster than random choice."] == ["holds"]
    assert found["A rehearsal makes PAUSE faster."] == ["holds"]
    assert [verdicts for text, verdicts in found.items() if "nearly as fast" in text] == [["holds"]]
    assert [verdicts for text, verdicts in found.items() if "as accurate as random" in text] == [["holds"]]
    assert [verdicts for text, verdicts in found.items() if "during training" in text] == [["holds"]]


def test_units_are_judged_beside_each_other(tmp_path: Path) -> None:
    fixed = {"data": "d", "clients": 9.0}
    rows = [
        fixed | {"unit": unit, "budget": budget, "accuracy": accuracy + 0.1 * seed, "seed": seed}
        for unit, budget, accuracy in (
            ("none", 1.0, 90.0), ("record", 0.2, 60.0), ("record", 1.0, 88.0), ("record", 4.0, 20.0),
            ("update", 1.0, 30.0), ("update", 4.0, 70.0), ("coordinate", 1.0, 89.0),
        )
        for seed in range(3)
    ]  # fmt: skip
    for seed in range(3):
        for policy, seconds in (("pause", 0.8), ("random", 1.0 + 0.1 * seed)):
            for study, unit in (("pupils", "record"), ("other", "update")):
                privacy = {"mechanism": "gaussian", "unit": unit}
                write_run(tmp_path / "results" / study / policy / f"seed-{seed}", policy, seed, accuracy=90.0,
                          latency=seconds, leakage=1.0, more={"privacy": privacy})  # fmt: skip
    evidence = Evidence(gather(tmp_path / "results").runs, {"units": MeasuredRows(Units, rows)})
    found = {claim.text: {one.study: one.verdict for one in findings} for claim, findings in judged(evidence)}
    [learned] = [verdicts for text, verdicts in found.items() if "every single record is protected" in text]
    assert learned == {
        "units: d, 9 clients, epsilon 0.2": "does not hold", "units: d, 9 clients, epsilon 1": "holds",
    }  # fmt: skip
    [cheaper] = [verdicts for text, verdicts in found.items() if "costs less accuracy" in text]
    assert cheaper == {
        "units: d, 9 clients, epsilon 1": "holds", "units: d, 9 clients, epsilon 4": "does not hold",
    }  # fmt: skip
    [sooner] = [verdicts for text, verdicts in found.items() if "Where single records" in text]
    assert sooner == {"pupils": "holds"}


def test_units_are_compared_seed_by_seed_whatever_the_order_of_rows() -> None:
    """Each seed is 5 points better with single records, and a seed that only one unit has is left out."""
    fixed = {"data": "d", "clients": 9.0, "budget": 1.0}
    rows = [fixed | {"unit": "record", "seed": seed, "accuracy": 50.0 + 10 * seed} for seed in (3, 2, 1, 0)]
    rows += [fixed | {"unit": "update", "seed": seed, "accuracy": 45.0 + 10 * seed} for seed in (0, 1, 2)]
    rows += [fixed | {"unit": "none", "seed": seed, "accuracy": (50.0 + 10 * seed) / 0.95} for seed in (1, 2, 0)]
    found = {claim.text: findings for claim, findings in judged(Evidence({}, {"units": MeasuredRows(Units, rows)}))}
    [[cheaper]] = [findings for text, findings in found.items() if "costs less accuracy" in text]
    assert (cheaper.verdict, cheaper.figure) == ("holds", "60.0 % against 55.0 %: 5 ± 0 (3 seeds) points more")
    [[learned]] = [findings for text, findings in found.items() if "every single record is protected" in text]
    assert learned.figure == "60.0 % with noise, 63.2 % without: 95 ± 0 (3 seeds) % of it"


def test_runs_without_a_score_are_no_evidence_about_accuracy(tmp_path: Path) -> None:
    place = tmp_path / "results" / "whole-update"
    for seed in range(3):
        for policy in ("pause", "random"):
            folder = place / policy / f"seed-{seed}"
            network = {"clients": 30, "rehearsal": policy == "pause"}
            write_run(folder, policy, seed, accuracy=90.0, latency=1.0, leakage=1.0, more={"network": network})
            records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            lines = [json.dumps({key: one[key] for key in one if key != "accuracy"}) for one in records]
            (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    found = {claim.text: findings for claim, findings in judged(gather(place.parent))}
    assert [findings for text, findings in found.items() if "as accurate as random" in text] == [[]]


def test_claims_of_our_own_say_when_they_were_defined() -> None:
    assert all((claim.before_runs is None) == (claim not in OURS) for claim in CLAIMS)
    rows = [{"unit": unit, "data": "d", "clients": 9.0, "budget": 1.0, "seed": 0, "accuracy": 50.0}
            for unit in ("record", "update")]  # fmt: skip
    page = claims_page(Evidence({}, {"units": MeasuredRows(Units, rows)}), "x")
    assert "| claim | verdict | survive the correction | defined |" in page
    assert "*Defined:* before its runs." in page


def test_a_policy_that_is_late_is_behind_on_the_way_though_it_ends_as_high(tmp_path: Path) -> None:
    place = tmp_path / "results" / "whole-update"
    for seed in range(3):
        for policy, seconds in (("pause", 2.0), ("random", 1.0)):
            network = {"clients": 30, "rehearsal": policy == "pause"}
            write_run(place / policy / f"seed-{seed}", policy, seed, accuracy=90.0 + seed, latency=seconds, leakage=1.0,
                      more={"network": network})  # fmt: skip
    found = {claim.text: findings for claim, findings in judged(gather(place.parent)) if claim in OURS and findings}
    [[late]] = [findings for text, findings in found.items() if "during training" in text]
    assert late.verdict == "does not hold"
    assert late.figure.endswith(" points at equal seconds, 0 ± 0 at equal rounds")
    assert [one.verdict for text, [one] in found.items() if "as accurate as random" in text] == ["holds"]


def test_matched_aggregation_is_judged_against_plain_averaging_seed_by_seed(tmp_path: Path) -> None:
    """Plain averaging rises and falls again; its twin stays at the top, or does not."""
    place = tmp_path / "results" / "never-collapse"
    for seed in range(3):
        for policy, kept in (("pause", 80.0), ("fastest", 30.0)):
            for rule, peak, end in (("plain", 80.0, 20.0), ("matched", 80.5, kept)):
                folder = place / f"{policy}-{rule}" / f"seed-{seed}"
                write_run(folder, policy, seed, accuracy=1.0, latency=0.5, leakage=1.0, server={"aggregation": rule})
                records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
                for record in records:
                    record["accuracy"] = (peak if record["round"] <= ROUNDS // 2 else end) + 0.01 * seed
                (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = {
        claim.text: {one.study: one.verdict for one in findings} for claim, findings in judged(gather(place.parent))
    }
    both = {"never-collapse, pause", "never-collapse, fastest"}
    assert found["At its best, matched aggregation learns as well as plain averaging."] == dict.fromkeys(both, "holds")
    assert found["With matched aggregation training does not collapse."] == {
        "never-collapse, pause": "holds", "never-collapse, fastest": "does not hold",
    }  # fmt: skip
    assert found["PAUSE is more accurate than the fastest clients at equal latency."] == {}  # a claim of the paper
    page = claims_page(gather(place.parent), "x")
    assert "## Beyond the paper: With matched aggregation training does not collapse." in page


def write_rows(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def verdicts(folder: Path) -> dict[str, set[str]]:
    evidence = gather(folder)
    return {claim.text: {finding.verdict for finding in claim.judge(evidence)} for claim in CLAIMS}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for seed in range(3):
        for policy, numbers in {
            "pause": {"accuracy": 80.0, "latency": 0.5, "leakage": 6.0},
            "sa-pause": {"accuracy": 79.5, "latency": 0.5, "leakage": 6.1},
            "random": {"accuracy": 75.0, "latency": 0.9, "leakage": 7.0},
            "clustered": {"accuracy": 95.0, "latency": 0.4, "leakage": 5.0},
            "all": {"accuracy": 20.0, "latency": 1.0, "leakage": 10.0},
            "fastest": {"accuracy": 60.0, "latency": 0.2, "leakage": 10.0},
        }.items():
            write_run(tmp_path / "results" / "small" / policy / f"seed-{seed}", policy, seed, **numbers)
    return tmp_path / "results"


def test_each_claim_follows_its_runs(study: Path) -> None:
    found = verdicts(study)
    assert found["No client ever leaks more than its budget."] == {"holds"}
    assert found["PAUSE is more accurate than random selection at equal latency."] == {"holds"}
    assert found["PAUSE is more accurate than clustered sampling at equal latency."] == {"does not hold"}
    assert found["PAUSE is more accurate than the fastest clients at equal latency."] == {"does not hold"}
    assert found["PAUSE is more accurate than all clients with privacy at equal latency."] == {"holds"}
    assert found["PAUSE leaks less per round than random selection."] == {"holds"}
    assert found["PAUSE leaks less per round than clustered sampling."] == {"does not hold"}
    assert found["PAUSE leaks less per second than random selection."] == {"does not hold"}
    assert found["PAUSE leaks less per second than clustered sampling."] == {"holds"}
    assert found["Taking all clients leaks as much as taking the fastest clients."] == {"holds"}
    assert found["SA-PAUSE is close to PAUSE."] == {"holds"}
    assert found["Regret grows logarithmically (Theorem 1)."] == set()


def test_a_leak_above_the_budget_is_told(study: Path) -> None:
    write_run(study / "small" / "pause" / "seed-3", "pause", 3, accuracy=80, latency=0.5, leakage=10.1)
    assert verdicts(study)["No client ever leaks more than its budget."] == {"does not hold"}


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    for policy, accuracy in (("pause", 80.0), ("random", 10.0)):
        write_run(tmp_path / "r" / "s" / policy, policy, 0, accuracy=accuracy, latency=0.5, leakage=1.0)
    write_run(tmp_path / "r" / "s" / "fastest", "fastest", 0, accuracy=90.0, latency=0.5, leakage=1.0)
    found = verdicts(tmp_path / "r")
    assert found["PAUSE is more accurate than random selection at equal latency."] == {"one seed says yes"}
    assert found["PAUSE is more accurate than the fastest clients at equal latency."] == {"one seed says no"}
    page = claims_page(gather(tmp_path / "r"), "x")
    assert "they are still ahead" in page


def test_while_pause_only_explores_nothing_is_said_of_its_choices(tmp_path: Path) -> None:
    for seed in range(3):
        for policy, latency in (("pause", 0.5), ("random", 0.9), ("fastest", 0.02)):
            place = tmp_path / "r" / "s" / policy / f"seed-{seed}"
            write_run(place, policy, seed, accuracy=50.0 + seed, latency=latency, leakage=1.0 + seed, clients=50)
    found = verdicts(tmp_path / "r")  # 50 clients, 5 per round: explored after 10 of 30 rounds, and 5 of 27 seconds
    assert found["PAUSE leaks less per round than random selection."] == {"does not hold"}  # exactly as much
    assert found["PAUSE is more accurate than random selection at equal latency."] == {"holds"}
    assert found["PAUSE is more accurate than the fastest clients at equal latency."] == {"too early"}


def test_both_policies_are_averaged_over_the_same_time(tmp_path: Path) -> None:
    """Equal at every second; ten rounds of the slower policy would reach further back and make it look behind."""
    for seed in range(3):
        for policy, rate in (("pause", 1.0), ("random", 2.0)):
            place = tmp_path / "r" / "s" / policy / f"seed-{seed}"
            write_run(place, policy, seed, accuracy=30.0 * rate, latency=rate * (1 + 0.001 * seed), leakage=1.0)
    (claim,) = (c for c in CLAIMS if "random selection at equal latency" in c.text)
    (finding,) = claim.judge(gather(tmp_path / "r"))
    lead = float(finding.figure.split(": ")[1].split(" ")[0])
    assert abs(lead) <= 0.6  # half a round; over ten rounds each it would be 4.5


def test_annealing_is_compared_after_the_same_rounds(tmp_path: Path) -> None:
    """Slower, but as accurate round by round: behind at equal time, and level here."""
    for seed in range(3):
        for policy, latency, selection in (
            ("pause", 0.5, {}), ("sa-pause", 0.9, {}), ("sa-pause-as-published", 0.9, {}),
        ):  # fmt: skip
            name = f"{policy}-{bool(selection)}"
            place = tmp_path / "r" / "s" / name / f"seed-{seed}"
            write_run(place, policy, seed, accuracy=80.0, latency=latency, leakage=1.0, selection=selection)
    for text in ("SA-PAUSE is close to PAUSE.", "SA-PAUSE as published is close to PAUSE."):
        (claim,) = (c for c in CLAIMS if c.text == text)
        (finding,) = claim.judge(gather(tmp_path / "r"))
        assert finding.figure.startswith("after 30 rounds: accuracy 0 ± 0 (3 seeds) points, time 80 ± ")
        assert finding.verdict == "does not hold"


@pytest.mark.parametrize(("growth", "verdict"), [(1.0, "holds"), (2.0, "does not hold")])
def test_regret_is_judged_by_its_doublings(tmp_path: Path, growth: float, verdict: str) -> None:
    rows = [
        {"setting": "x", "seed": s, "rounds": 1000, "regret": 20 + growth * (10 + 0.01 * s), "at_half": 20.0,
         "at_quarter": 10.0, "realised": 0.0, "bound": 1e9}
        for s in range(4)
    ]  # fmt: skip
    write_rows(tmp_path / "r" / "regret" / "rows.csv", rows)
    found = verdicts(tmp_path / "r")
    assert found["Regret grows logarithmically (Theorem 1)."] == {verdict}
    assert found["Regret stays below the bound of Theorem 1."] == {"holds"}


@pytest.mark.parametrize(("power", "verdict"), [(1.05, "holds"), (2.0, "does not hold")])
def test_complexity_is_judged_by_its_exponent(tmp_path: Path, power: float, verdict: str) -> None:
    rows = [
        {"method": "exact R1", "clients": k, "per_round": 5, "seed": s, "seconds": (1 + 0.01 * s) * k**power}
        for k in (10, 100, 1000)
        for s in range(3)
    ]
    write_rows(tmp_path / "r" / "complexity" / "rows.csv", rows)
    assert verdicts(tmp_path / "r")["PAUSE chooses in O(K log K)."] == {verdict}


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((1000, 1_000_000), ["from K = 1,000 to 1,000,000"]),
        ((1000, 5000, 20_000), ["from K = 1,000 to 20,000", "from K = 5,000 to 20,000"]),
        ((1, 10, 100), ["from K = 10 to 100"]),
    ],
)
def test_growth_is_fitted_where_something_was_measured(
    tmp_path: Path, sizes: tuple[int, ...], words: list[str]
) -> None:
    rows = [
        {"method": "exact R1", "clients": k, "per_round": 5, "seed": s, "seconds": (1 + 0.01 * s) * k}
        for k in sizes
        for s in range(3)
    ]
    write_rows(tmp_path / "r" / "complexity" / "rows.csv", rows)
    (claim,) = (c for c in CLAIMS if "O(K log K)" in c.text)
    (finding,) = claim.judge(gather(tmp_path / "r"))
    assert finding.figure.count("from K") == len(words)
    assert all(word in finding.figure for word in words)


def test_unequal_leakage_is_told_whatever_the_order(study: Path) -> None:
    write_run(study / "small" / "all" / "seed-3", "all", 3, accuracy=20, latency=1.0, leakage=9.0)
    write_run(study / "small" / "fastest" / "seed-3", "fastest", 3, accuracy=20, latency=0.2, leakage=9.5)
    assert verdicts(study)["Taking all clients leaks as much as taking the fastest clients."] == {"does not hold"}


def test_the_page_says_what_holds_what_does_not_and_what_is_missing(study: Path) -> None:
    page = claims_page(gather(study), "pausefl paper claims results")
    assert "| PAUSE is more accurate than clustered sampling at equal latency. | **does not hold** | 1 of 1 |" in page
    assert "| Regret grows logarithmically (Theorem 1). | not yet run | no test |" in page
    assert "| No client ever leaks more than its budget. | holds | no test |" in page
    assert "*Possible explanation:* PAUSE's rounds are shorter" in page
    assert page.count("\n## ") == 3 + len(CLAIMS) - len(OURS)  # ours are there where they were run
    assert page.count("*Tested:* As for the claim above.") == 5  # a test is told once


def test_intervals() -> None:
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert (estimate.mean, round(estimate.half_width, 3)) == (2.0, 2.484)  # t(0.975, 2) = 4.303, s/sqrt(3) = 0.577
    assert str(estimate) == "2 ± 2.48 (3 seeds)"
    assert estimate.above(-1.0).verdict == "holds"
    assert estimate.above(1.0).verdict == "undecided"
    assert estimate.below(-1.0).verdict == "does not hold"
    assert Estimate.of([1.0, 1.0, 1.0]).above(1.0).verdict == "does not hold"  # exactly equal is not more
    assert Estimate.of([1.0, 1.0]).above(0.0).verdict == "undecided"  # two that agree tell nothing of the spread
    assert str(Estimate.of([1.0, 1.0])) == "1 (both seeds)"
    assert estimate.within(5.0).verdict == "holds"
    assert estimate.within(3.0).verdict == "undecided"
    assert Estimate.of([9.0, 9.1]).within(3.0).verdict == "does not hold"


def test_folders_without_studies_are_refused(tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "holds no finished study"), (tmp_path / "none", "is not a folder")):
        with pytest.raises(ConfigError, match=words):
            gather(folder)


def test_unfinished_runs_are_left_out_and_named(study: Path) -> None:
    write_run(study / "small" / "pause" / "seed-3", "pause", 3, accuracy=0.0, latency=0.5, leakage=1.0)
    (study / "small" / "pause" / "seed-3" / "summary.json").unlink()
    evidence = gather(study)
    assert sorted(evidence.runs["small"]["pause"]) == [0, 1, 2]
    assert "left out: small/pause/seed-3" in claims_page(evidence, "x")


def test_runs_that_cannot_be_compared_are_refused(study: Path) -> None:
    write_run(study / "small" / "more" / "seed-9", "pause", 9, accuracy=1.0, latency=0.5, leakage=1.0, budget=11.0)
    with pytest.raises(ConfigError, match=r"budget = 11\.0, but"):
        gather(study)


def test_two_runs_of_one_seed_are_refused(study: Path) -> None:
    write_run(study / "small" / "again" / "seed-0", "pause", 0, accuracy=1.0, latency=0.5, leakage=1.0)
    with pytest.raises(ConfigError, match="two runs of pause with seed 0"):
        gather(study)


def test_a_study_is_no_folder_of_studies(study: Path) -> None:
    for folder in (study / "small", study / "small" / "pause", study / "small" / "pause" / "seed-0"):
        with pytest.raises(ConfigError, match="is one study, or a part of one"):
            gather(folder)


def test_all_pairs_are_judged_at_one_time(tmp_path: Path) -> None:
    """A seed that stopped early would be judged where the others are not yet."""
    for seed in range(3):
        for policy in ("pause", "random"):
            place = tmp_path / "r" / "s" / policy / f"seed-{seed}"
            write_run(place, policy, seed, accuracy=50, latency=0.5 + 0.1 * seed, leakage=1.0)
    (claim,) = (c for c in CLAIMS if "random selection at equal latency" in c.text)
    (finding,) = claim.judge(gather(tmp_path / "r"))
    assert finding.figure.startswith("lead after 15 s: 0 ± 0 (3 seeds), ahead in 0 of them; ")
    assert finding.verdict == "does not hold"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"setting,seed,rounds\nx,0\n", "cut short"),
        (b"setting,seed,rounds\nx,0,1\n", "none of the tables"),
        (b"beta,participation,g\n1,x,2\n", "is not a table of numbers"),
        (b"beta,participation,g\n1,nan,2\n", "participation is nan"),
        (b"\xff\xfe\x00", "is not a table of numbers"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "r" / "regret").mkdir(parents=True)
    (tmp_path / "r" / "regret" / "rows.csv").write_bytes(content)
    with pytest.raises(ConfigError, match=words) as refused:
        gather(tmp_path / "r")
    assert "\n" not in str(refused.value)


def test_seeds_of_one_policy_must_be_the_same_policy(study: Path) -> None:
    other = {"accuracy": 1.0, "latency": 0.5, "leakage": 1.0}
    write_run(study / "small" / "sa-pause" / "seed-3", "sa-pause", 3, **other, selection={"steps": 7})
    with pytest.raises(ConfigError, match=r"sa-pause has selection\.steps = 7, but sa-pause None"):
        gather(study)
