import json
import re
import sys
from pathlib import Path

import pytest

from pausefl import __version__
from pausefl.cli import MOVED, main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[:2] == (0, f"pausefl {__version__}\n")
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "demo" in out
    assert "paper" in out


@pytest.mark.parametrize("command", [(), ("run",), ("ledger",), ("ledger", "show"), ("paper", "claims")])
def test_help_has_a_short_form_everywhere(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    assert run(capsys, *command, "-h") == run(capsys, *command, "--help")
    assert run(capsys, *command, "-h")[0] == 0


def test_options_of_the_supernode_have_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "node", "start", "--owner", "owner.toml", "--superlink", "hub:9092")
    assert (code, err) == (
        2, "pausefl: no such option: --superlink; write the options of flower-supernode after --\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("ledger = 'mine.db'", "is not a ledger but an owner's file; pass its ledger "),
        ("[study]\ntitle = 'x'", "is not a ledger but a study; pass the database"),
        ("[[app]]\nname = 'x'", "is not a ledger but a list of reviewed apps"),
        ("[run]\nrounds = 3", "is not a ledger but a configuration in TOML"),
    ],
)
def test_what_is_no_ledger_is_said_to_be_what_it_is(
    capsys: pytest.CaptureFixture[str], content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "x.toml").write_text(content)
    for command in ("show", "verify"):
        code, _, err = run(capsys, "ledger", command, str(tmp_path / "x.toml"))
        assert (code, err.count("\n")) == (2, 1)
        assert words in err


def test_the_guarantee_is_told_wherever_runs_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "study = {title = 'x', policies = ['random', 'random (no privacy)']}\nlearning.enabled = true\n"
        "data.train_size = 40\nnetwork.clients = 4\nselection.per_round = 2\nrun.rounds = 1\n"
    )
    where = str(tmp_path / "out")
    _, out, err = run(capsys, "study", str(tmp_path / "s.toml"), "--scale", "full", "--jobs", "1", "--out", where)
    assert "guarantee of random: epsilon = 40 per coordinate" in out, err
    assert "guarantee of random (no privacy): " in out
    _, out, _ = run(capsys, "compare", f"{where}/random")
    assert out.count("guarantee: epsilon = 40 per coordinate") == 1


def test_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("demo", "--rounds", "2", "--jobs", "1", "--out", str(tmp_path / "demo"))
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    for policy in ("pause", "sa-pause", "random", "all", "fastest", "clustered", "no privacy"):
        assert policy in out
    assert out.index("epsilon = 40 per update") < out.index("epsilon = 40 per coordinate")
    for unit in ("whole-update", "coordinate"):
        page = (tmp_path / "demo" / unit / "report.html").read_text()
        assert "whole update" in page
        assert "http://" not in page.split("<script")[0]
    code, out, err = run(capsys, *arguments, "--json")  # of the same runs, which are not played again
    assert (code, err) == (0, "")
    assert set(json.loads(out)) == {"whole-update", "coordinate"}


def test_run_compare_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One process plays both seeds: two are in ``tests/wiring`` and in the test of Ctrl-C."""
    (tmp_path / "a.toml").write_text("[run]\nrounds = 3\n")
    where = str(tmp_path / "out")
    arguments = ("run", str(tmp_path / "a.toml"), "--out", where, "--seeds", "2", "--jobs", "1", "--tensorboard")
    code, out, _ = run(capsys, *arguments, "--set", "selection.policy=random")
    assert code == 0
    assert re.search(r"random\s*│\s*2 │\s*3", out)  # seeds, rounds
    assert list((tmp_path / "out" / "seed-0" / "tensorboard").iterdir())
    code, out, _ = run(capsys, "compare", f"{where}/seed-0", f"{where}/seed-1", "--target", "20")
    assert code == 0
    assert "s to 20 %" in out
    code, out, _ = run(capsys, "report", where, "--out", str(tmp_path / "r.html"))
    assert code == 0
    assert (tmp_path / "r.html").stat().st_size > 500_000


def test_data_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "data", "list", "--data-dir", str(tmp_path))
    assert code == 0
    assert "pausefl data fetch cifar10" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--rounds", "0"], "Invalid value for '--rounds': 0 is not in the range x>=1."),
        (["demo", "--seed", "-1"], "'--seed': -1 is not in the range x>=0."),
        (["demo", "--jobs", "0"], "'--jobs': 0 is not in the range x>=1."),
        (["run", "a.toml", "--out", "x", "--seeds", "0"], "'--seeds': 0 is not in the range x>=1."),
        (["run", "a.toml", "--out", "x", "--jobs", "0"], "'--jobs': 0 is not in the range x>=1."),
        (["study", "regret", "--seeds", "0"], "'--seeds': 0 is not in the range x>=1."),
        (["study", "large-mnist", "--jobs", "0"], "'--jobs': 0 is not in the range x>=1."),
        (["tune", "large-mnist", "--vary", "privacy.width=1", "--jobs", "0"], "'--jobs': 0 is not in the range x>=1."),
        (["compare", "x", "--target", "0"], "'--target': 0.0 is not in the range 0<x<=100."),
        (["run", "nowhere.toml", "--out", "x"], "nowhere.toml does not exist"),
        (["run", __file__, "--out", "x"], "is not valid TOML"),
        (["compare", "nowhere"], "there is no folder nowhere"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["data", "fetch", "minst"], "data set is 'minst'"),
        (["study", "regret", "--scale", "smoke", "--set", "seeds=0"], "seeds is 0"),
        (["data", "fetch", "fashion_mnist"], "; did you mean 'fashion-mnist'?\n"),
        (["study", "published-minst"], "; did you mean 'published-mnist'?\n"),
        (["study", "somewhere/Large_MNIST.toml"], "; did you mean 'large-mnist'?\n"),
        (["tune", "large-mnist", "--vary", "privacy.width=1", "--reach", "0.9"], "write 90 if you mean 90 %."),
        (["frobnicate"], "frobnicate"),
        (["compre"], "No such command 'compre'. Did you mean 'compare'?\n"),
        (["owner", "chek"], "No such command 'chek'. Did you mean 'check'?\n"),
        (["demo", "--colour"], "--colour"),
    ],
)
def test_refusals_are_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert err.startswith("pausefl: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_command_that_moved_names_its_new_place(capsys: pytest.CaptureFixture[str], old: str, new: str) -> None:
    for arguments in ([], ["results", "--out", "page.md", "--rounds", "9"]):
        assert run(capsys, old, *arguments) == (
            2,
            "",
            f"pausefl: 'pausefl {old}' has a new name; run '{new}' instead\n",
        )
    assert f"│ {old} " not in run(capsys, "--help")[1]
    assert run(capsys, *new.split()[1:], "--help")[0] == 0


def test_a_strangers_configuration_brings_no_code_unasked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that shadow what pausefl imports lie beside it, and are not run; a module it names is, and that is said."""
    monkeypatch.setattr("sys.path", list(sys.path))
    for name in ("altair", "vl_convert", "pooch", "sklearn", "tomllib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run unasked')")
    (tmp_path / "plain.toml").write_text("[run]\nrounds = 1\n")
    code, _, err = run(capsys, "run", str(tmp_path / "plain.toml"), "--out", str(tmp_path / "a"))
    assert (code, err) == (0, "")
    (tmp_path / "polite_policy.py").write_text("from pausefl.selection import Random as Mine\n")
    (tmp_path / "named.toml").write_text('[selection]\npolicy = "polite_policy:Mine"\n[run]\nrounds = 1\n')
    code, _, err = run(capsys, "run", str(tmp_path / "named.toml"), "--out", str(tmp_path / "b"))
    assert code == 0
    assert err == "pausefl: this configuration runs code of its own: polite_policy:Mine\n"
