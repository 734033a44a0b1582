"""Whatever stands in a file or on the command line: a result, or one line and exit code 2; never a traceback."""

import contextlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pausefl.cli import main
from pausefl.runs.config import Config

CASES = int(os.environ.get("PAUSEFL_SWEEP", "250"))  # of each of the two tests
SECTIONS = {name: list(field.annotation.model_fields) for name, field in Config.model_fields.items()}  # type: ignore[union-attr]
SMALL = {"clients": st.integers(1, 40), "rounds": st.integers(1, 3), "per_round": st.integers(1, 6)}
STRANGE = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.just(2**70), st.floats(allow_nan=True), st.text(max_size=8),
    st.sampled_from(["", "pause", "random", "trace", "module:Thing", "no.such:Thing", "digits", "labels", "on-off",
                     "fixed-horizon", "privunit", "gaussian", "update", "linear", "sgd", "fresh", "cpu", "warp"]),
    st.lists(st.integers(), max_size=2),
)  # fmt: skip


def outcome(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0), out.getvalue(), err.getvalue()


def fine_or_one_line(arguments: tuple[str, ...]) -> None:
    code, out, err = outcome(*arguments)
    said = ("runs code of its own", "wrote ")  # messages that are no refusals
    lines = [line for line in err.splitlines() if not any(words in line for words in said)]
    assert code in (0, 2), (arguments, code, err)
    assert "Traceback" not in err
    helped = "Usage:" in out  # a group of commands without one of them
    assert len(lines) == (1 if code and not helped else 0), (arguments, err)


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else "x" for c in value) + '"'
    return "nan" if value is None else repr(value).replace("'", '"')


@st.composite
def files(draw: st.DrawFn) -> str:
    """A configuration with a few keys that are strange, or unknown, and the rest small."""
    lines = []
    for section in draw(st.lists(st.sampled_from([*SECTIONS, "rnu"]), unique=True, max_size=4)):
        lines.append(f"[{section}]")
        keys = draw(st.lists(st.sampled_from([*SECTIONS.get(section, []), "nonsense"]), unique=True, max_size=3))
        lines += [f"{key} = {toml(draw(SMALL.get(key, STRANGE) if draw(st.booleans()) else STRANGE))}" for key in keys]
    return "\n".join(lines)


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(files())
def test_any_configuration(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "c.toml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        small = ("--set", "run.rounds=1", "--set", "network.clients=12", "--set", "learning.enabled=false")
        fine_or_one_line(("run", str(file), "--out", f"{folder}/out", *small))


QUICK = {"study": ("--scale", "smoke"), "tune": ("--scale", "smoke", "--trials", "1"), "audit": ("--runs", "100")}
COMMANDS = [*QUICK, "run", "compare", "report", "paper", "ledger", "data"]
WORDS = st.one_of(
    st.sampled_from(["--out", "--seeds", "--jobs", "--set", "--scale", "smoke", "half", "--list", "--policy", "pause",
                     "--json", "claims", "keep", "results",
                     "show", "verify", "export", "list", "fetch", "run.rounds=1", "0", "-1", "1", "nowhere",
                     "g-function", "annealing", "large-mnist", "privacy.width", "--vary", "privacy.width=0.1,1",
                     "selection.alpha=0..1", "--rounds", "--clients", "--target", "--data-dir"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
)  # fmt: skip


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(COMMANDS), st.lists(WORDS, max_size=5))
def test_any_arguments(command: str, words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if command == "data" and "fetch" in words:
            return  # would go to the network
        fine_or_one_line((command, *words, *QUICK.get(command, ())))
