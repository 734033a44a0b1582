"""Policies against one, seed by seed, and the same as CSV and LaTeX."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.report.paired_differences import paired_differences, restricted_times
from pausefl.report.policy_summary import summarise
from pausefl.report.table_formats import latex_text, paired_latex, summary_csv, summary_latex
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.run_data import RunData

Made = Callable[..., RunData]


def seeds_of(made: Made, name: str, accuracies: dict[int, list[float]]) -> list[RunData]:
    return [
        replace(made([{"accuracy": a} for a in curve], [f"run.seed={seed}"]), name=name)
        for seed, curve in accuracies.items()
    ]


def test_only_the_same_seeds_are_compared_and_what_a_seed_does_to_both_cancels(made: Made) -> None:
    groups = {
        "pause": seeds_of(made, "pause", {0: [60.0], 1: [70.0], 2: [80.0], 9: [5.0]}),
        "random": seeds_of(made, "random", {2: [79.0], 1: [68.0], 0: [57.0], 7: [99.0]}),
    }
    accuracy, clock, leakage = paired_differences(groups, "pause")
    assert (accuracy.policy, accuracy.reference, accuracy.seeds) == ("random", "pause", 3)
    assert accuracy.difference == -2.0
    assert (accuracy.low, accuracy.high) == pytest.approx((-2.0 - 2.484, -2.0 + 2.484), abs=1e-3)
    assert accuracy.p_sign_flip == 2 / 8
    assert (clock.difference, clock.low, clock.p_t) == (0.0, None, None)  # the clock of all is alike
    assert leakage.measure == "largest leakage"
    (turned, *_) = paired_differences(groups, "random")
    assert (turned.difference, turned.p_t) == (2.0, accuracy.p_t)


def test_several_policies_are_corrected_together_and_each_measure_alone(made: Made) -> None:
    curves = {name: {s: [base + s * slope] for s in range(4)} for name, base, slope in (
        ("pause", 50.0, 1.0), ("a", 53.0, 1.5), ("b", 51.0, 1.1),
    )}  # fmt: skip
    groups = {name: seeds_of(made, name, some) for name, some in curves.items()}
    one, two = [line for line in paired_differences(groups, "pause") if line.measure.startswith("final")]
    assert one.p_t is not None and two.p_t is not None
    assert (one.p_t_holm, two.p_t_holm) == (max(one.p_t, min(1.0, 2 * two.p_t)), min(1.0, 2 * two.p_t)) or (
        one.p_t_holm, two.p_t_holm) == (min(1.0, 2 * one.p_t), max(two.p_t, min(1.0, 2 * one.p_t)))  # fmt: skip
    assert one.p_sign_flip_holm == 2 * (2 / 16)


def test_times_count_up_to_the_end_of_the_shortest_run_that_never_gets_there(made: Made) -> None:
    never, late, soon = [10.0] * 30, [10.0] * 10 + [100.0] * 20, [100.0] * 3
    pause, other = seeds_of(made, "pause", {0: soon, 1: soon}), seeds_of(made, "other", {0: never, 1: late})
    pairs = list(zip(other, pause, strict=True))
    arrival = other[1].time_to(80.0)
    assert restricted_times(pairs[1:], 80.0) == ([(arrival, 1.0)], None)  # both get there: the plain times
    assert restricted_times(pairs, 80.0) == ([(30.0, 1.0), (arrival, 1.0)], 30.0)  # seconds, one per round
    short = replace(other[0], records=other[0].records[:12])
    assert restricted_times([(short, pause[0]), pairs[1]], 80.0) == ([(12.0, 1.0), (12.0, 1.0)], 12.0)
    whole = paired_differences({"pause": pause, "other": other}, "pause", [80.0])[-1]
    assert arrival is not None
    assert (whole.measure, whole.difference, whole.horizon) == ("s to 80 %", (29.0 + arrival - 1.0) / 2, 30.0)


def test_a_run_that_has_no_such_number_is_not_compared_in_it(made: Made) -> None:
    groups = {"pause": [made([{"max_leakage": None}])], "random": [made([{}])]}
    assert [line.measure for line in paired_differences(groups, "pause")] == ["clock, s"]
    with pytest.raises(
        ConfigError, match="--against is 'paus', but must be one of pause, random; pass one of these names"
    ):
        paired_differences(groups, "paus")


def test_csv_has_a_number_per_cell(made: Made) -> None:
    policies = summarise({"a, b": seeds_of(made, "a, b", {0: [60.0], 1: [70.0], 2: [80.0]})}, [65.0])
    (row,) = csv.DictReader(io.StringIO(summary_csv(policies)))
    assert row["policy"] == "a, b"
    assert float(row["accuracy_mean"]) == 70.0
    assert float(row["accuracy_high"]) - 70.0 == pytest.approx(24.84, abs=0.01)
    assert (row["seconds_to_65_median"], row["seconds_to_65_reached"]) == ("1.0", "2")


def test_latex_is_a_table_whose_rows_all_have_as_many_cells_as_columns(made: Made) -> None:
    odd = r"[1] 50%_of {a} & b\c #1 $x^2~<|>"
    groups = {name: seeds_of(made, name, {0: [60.0], 1: [70.0]}) for name in ("pause", odd)}
    text = summary_latex(summarise(groups, [65.0]), [65.0]) + paired_latex(paired_differences(groups, "pause"))
    tables = re.findall(r"\\begin\{table\*\}\n\\centering\\footnotesize\\setlength\{\\tabcolsep\}\{4pt\}\n"
                        r"\\caption\{(.*?)\}\n\\label\{(.*?)\}\n"
                        r"\\begin\{tabular\}\{([lr]+)\}\n\\toprule\n(.*?)\\bottomrule\n\\end\{tabular\}\n\\end\{table\*\}\n",
                        text, re.S)  # fmt: skip
    assert [label for _, label, _, _ in tables] == ["tab:policies", "tab:paired"]
    for caption, _, columns, body in tables:
        head, rows = body.split("\\midrule\n")
        for line in (head + rows).splitlines():
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1
        for words in (caption, body):
            assert words.isascii()
            assert not re.search(r"(?<!\\)[%#_^~]", words.replace("\\textasciicircum{}", ""))
            assert words.count("{") - words.count("\\{") == words.count("}") - words.count("\\}")
            assert words.replace("\\$", "").count("$") % 2 == 0
    assert latex_text(odd) in text
    assert "\n[" not in text, "after the end of a row, LaTeX would take it for a length"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    for policy in ("pause", "random"):
        for seed in (0, 1):
            content = {"learning": {"enabled": False}, "network": {"clients": 6},
                       "selection": {"policy": policy, "per_round": 2}, "run": {"rounds": 3, "seed": seed}}  # fmt: skip
            run(make_config(content), out / policy / f"seed-{seed}")
    return out


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(["compare", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out or err


def test_every_format_says_the_same(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(said(capsys, str(study), "--json")[1])
    assert plain == json.loads(said(capsys, str(study), "--format", "json")[1])
    whole = json.loads(said(capsys, str(study), "--format", "json", "--paired")[1])
    assert whole["policies"] == plain
    rows = list(csv.DictReader(io.StringIO(said(capsys, str(study), "--format", "csv", "--paired")[1])))
    assert [float(row["difference"]) for row in rows] == [line["difference"] for line in whole["paired"]]
    assert whole["paired"][0]["difference"] == pytest.approx(plain[1]["seconds"]["mean"] - plain[0]["seconds"]["mean"])
    table = said(capsys, str(study), "--paired")[1]
    assert "Differences from pause, seed by seed" in table and "paired t" in table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "--format", "csv"], "--format is 'csv', but --json asks for json"),
        (["--against", "random"], "--against is 'random', but has no effect without --paired"),
        (["--paired", "--against", "x"], "--against is 'x', but must be one of pause, random"),
        (["--target", "0.8"], "0.8 is too small for an accuracy in percent; write 80 if you mean 80 %."),
        (["--target", "1"], "1 is too small for an accuracy in percent; write 100 if you mean 100 %."),
    ],
)
def test_what_makes_no_sense_is_refused(
    study: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, line = said(capsys, str(study), *arguments)
    assert (code, line.count("\n")) == (2, 1)
    assert words in line


def test_one_policy_has_nothing_to_be_compared_with(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(capsys, str(study / "pause"), "--paired")
    assert code == 2
    assert "--paired finds no policy that shares a seed with pause; pass folders of several policies" in line
