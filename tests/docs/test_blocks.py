"""Every Python and console block in README, CONTRIBUTING and docs/ is run, and prints what the page shows.

What is run in a smaller size, and what is checked instead of run, is listed in ``tools/blocks.py``.
"""

import re
import shlex
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import click
import pytest
import typer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from blocks import Printed, blocks, commands, pages, play, sandbox  # noqa: E402 - the folder is known only now

from pausefl.cli import app, main  # noqa: E402


def check(command: str) -> None:
    """Whatever is not run names something that exists."""
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M), command
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for extra in re.findall(r"\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= set(extras), command
        for option, value in pairwise(words):
            assert option != "-c" or (ROOT / value).exists(), command
    elif words[0] == "pausefl" and "--install-completion" not in words:
        parsed(typer.main.get_command(app), words[1:])


def parsed(command: click.Command, words: list[str]) -> None:
    context = command.make_context("pausefl", list(words), resilient_parsing=isinstance(command, click.Group))
    if isinstance(command, click.Group):
        parsed(command.commands[words[0]], words[1:])
    else:
        assert context.params


@pytest.mark.parametrize("name", pages())
def test_blocks_run_and_print_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for _, printed in play(name, sandbox(tmp_path), check):
        for one in printed:
            assert one.agrees, f"{name}: $ {one.command}\nshown:\n{one.shown}\nprinted:\n{one.real}"


@pytest.mark.parametrize("name", ["results/README.md", "examples/flower-digits/README.md"])
def test_commands_of_hours_and_of_deployments_exist(name: str) -> None:
    """What made the results takes hours, and tests/e2e deploys the example: here they are only parsed."""
    found = [c for b in blocks((ROOT / name).read_text()) if b.kind == "console" for c, _ in commands(b)]
    for command in found:
        check(command)
    assert any(command.startswith("pausefl ") for command in found)


def test_the_plans_of_the_example_are_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "examples" / "flower-digits" / "README.md").read_text()
    shown = [one for b in blocks(page) if b.kind == "console" for one in commands(b) if "pausefl plan" in one[0]]
    assert len(shown) == 2
    for command, text in shown:
        with pytest.raises(SystemExit):
            main(shlex.split(command)[1:])
        assert capsys.readouterr().out == text


def test_no_block_is_left_out_by_its_name() -> None:
    """Only kinds that are run, shown as files, or checked elsewhere; a misspelt kind would never run."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        kinds = {block.kind for block in blocks(path.read_text())}
        assert kinds <= {"python", "console", "toml", "text", "csv"}, path


def test_the_comparison_can_fail() -> None:
    assert Printed("x", "3 rows\n", "4 rows\n", True).agrees
    assert not Printed("x", "3 rows\n", "4 lines\n", True).agrees
    assert Printed("x", "a\n…\nz\n", "a\nb\nc\nz\n", True).agrees
    assert not Printed("x", "a\n…\nz\n", "a\nb\nc\n", True).agrees


def test_commands_that_do_not_exist_are_noticed() -> None:
    for wrong in ("make nothing", "pip install '.[nothing]'", "pausefl data fetsch mnist", "pausefl data fetch"):
        with pytest.raises((AssertionError, KeyError, click.ClickException)):
            check(wrong)
