"""``--help`` is enough to use every command; what another program reads is JSON; completion completes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from pausefl.cli import app, main
from pausefl.cli.compare import show_runs
from pausefl.cli.options import finished
from pausefl.runs.config import make_config
from pausefl.runs.run_data import RunData
from pausefl.system.state_file import read_state


def commands(command: click.Command, name: str = "pausefl") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for inner in command.commands:
            yield from commands(command.commands[inner], f"{name} {inner}")


ALL = dict(commands(finished(typer.main.get_command(app))))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.mark.parametrize("name", ALL)
def test_every_command_argument_and_option_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ALL[name]
    assert command.help
    silent = [p.name for p in command.params if not getattr(p, "help", None) and p.name != "help"]
    assert not silent
    code, out, _ = run(capsys, *name.split()[1:], "--help")
    assert code == 0
    assert "Usage: pausefl" in out
    assert not any("\n" in part or "  " in part for part in command.help.split("\n\n"))  # typer would keep line ends


def test_the_exit_codes_are_in_the_help_and_a_first_day_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    assert "Exit codes: 0 means done. 1" in out
    assert out.index("│ demo ") < out.index("│ run ") < out.index("│ ledger ") < out.index("│ paper ")


def test_the_same_thing_has_the_same_name_everywhere() -> None:
    """A flag that several commands have takes the same kind of value in all of them."""
    kinds: dict[str, set[str]] = {}
    for command in ALL.values():
        for parameter in command.params:
            for flag in parameter.opts if isinstance(parameter, click.Option) else ():
                kinds.setdefault(flag, set()).add(parameter.type.name)
    assert {flag: kind for flag, kind in kinds.items() if len(kind) > 1 and flag != "--seed"} == {}


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["study", "--list"], {"name", "title", "figures"}),
        (["data", "list"], {"folder", "data"}),
        (["paper", "claims", "results"], {"claim", "tested", "findings"}),
        (["study", "g-function", "--scale", "smoke", "--out", "{folder}"], {"beta", "g"}),
        (
            ["tune", "large-mnist", "--vary", "selection.alpha=1", "--scale", "smoke", "--out", "{folder}"],
            {"aim", "best", "front", "trials"},
        ),
    ],
)
def test_what_another_program_reads_is_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], keys: set[str]
) -> None:
    code, out, err = run(capsys, *(word.format(folder=tmp_path) for word in arguments), "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert keys <= set(answer[0] if isinstance(answer, list) else answer)


def test_a_run_and_a_study_tell_their_summaries_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('[study]\ntitle = "t"\npolicies = ["random"]\n[run]\nrounds = 2\n')
    code, out, _ = run(capsys, "study", str(tmp_path / "study.toml"), "--scale", "smoke", "--out", str(tmp_path / "s"),
                       "--set", "learning.enabled=false", "--json")  # fmt: skip
    assert code == 0
    [policy] = json.loads(out)
    assert (policy["name"], policy["rounds"]) == ("random", 4)


def test_ctrl_c_leaves_a_run_that_goes_on_and_says_so(tmp_path: Path) -> None:
    """Nothing is learned: the signal, the checkpoints and the message are the same, and no process imports torch."""
    (tmp_path / "long.toml").write_text("learning.enabled = false\n[run]\nrounds = 100000\ncheckpoint_every = 1\n")
    command = [sys.executable, "-m", "pausefl", "run", str(tmp_path / "long.toml"), "--out", str(tmp_path / "out")]
    # As in a terminal: the signal goes to the command and its workers alike, and is not ignored, as it is by whatever a
    # shell started in the background.
    started = subprocess.Popen(
        [*command, "--seeds", "2", "--jobs", "2"], start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while started.poll() is None and not list(tmp_path.glob("out/*/checkpoint.state")):
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    try:
        out, err = started.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    assert (started.returncode, out) == (130, "")
    told = "interrupted; run the same command again to continue from the last checkpoints in"
    assert err == f"{told} {tmp_path / 'out'}\n"
    [checkpoint, *_] = tmp_path.glob("out/*/checkpoint.state")
    header, _ = read_state(checkpoint, "run")
    assert header["number"] >= 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pausefl st", "study"),
        ("pausefl study small-iid-r", "small-iid-r1"),
        ("pausefl study x --scale s", "smoke"),
        ("pausefl data fetch m", "mnist"),
        ("pausefl tune --policy sa", "sa-pause"),
    ],
)
def test_completion_completes(words: str, expected: str) -> None:
    count = len(words.split()) - 1
    asked = os.environ | {"_PAUSEFL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run(
        [sys.executable, "-c", "from pausefl.cli import main; main()"], env=asked, capture_output=True, text=True
    )
    assert expected in done.stdout.split(), done.stderr


def test_how_many_seeds_reached_each_target_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def one(seed: int, *scores: float) -> RunData:
        base = {"latency": 1.0, "members": [0], "max_leakage": 1.0}
        records = [base | {"round": i, "seconds": float(i), "accuracy": a} for i, a in enumerate(scores, 1)]
        return RunData("pause", make_config({"run": {"seed": seed}}), records, None)

    show_runs([one(0, 50.0, 70.0, 90.0), one(1, 50.0, 50.0, 50.0)], [40.0, 60.0])
    [line] = [line for line in capsys.readouterr().out.splitlines() if "pause" in line and "1/2" in line]
    assert line.count("(") == 2
    assert line.index("(2/2)") < line.index("never (1/2)")
