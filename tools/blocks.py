"""Runs the blocks of a page as a reader would, in a folder of their own, and compares what is printed with the page.

A block with a title is a file, a ``python`` block is run (all of a page in one scope), a ``text`` block after it is its
output, and of a ``console`` block each line after ``$`` is run: ``pausefl`` without anything of the shell in a process
that has its imports behind it, all else by bash.

    python tools/blocks.py docs/tutorial.md

writes what was really printed into the page.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SMALLER = (
    ("README.md", r"^make demo$", "pausefl demo --rounds 2 --jobs 1"),
    (
        "README.md",
        r"--seeds 5 --jobs 2",
        "--seeds 1 --set data.name=digits --set data.train_size=300 --set run.rounds=3",
    ),
    ("README.md", r" --images pictures", ""),  # docs/tutorial.md draws them
    ("docs/studies.md", r" --images own-charts", ""),
    ("docs/studies.md", r"--scale (half|full)", "--scale smoke"),
    ("docs/studies.md", r"0\.0003,0\.001,0\.003,0\.01,0\.03", "0.003,0.01"),
    ("docs/how-to/tune.md", r"--trials 40 --seeds 2", "--trials 2 --seeds 1"),
    ("docs/data-owner.md", r"\bHASH\b", "$(pausefl ledger verify clinic/ledger.db | sed 's/.* //')"),
)
"""What is run instead, where the command on the page would take minutes or stands for a value of the reader's own."""

NOT_RUN = {
    r"^make (test|check|bench|docs|package)$": "the tests themselves, or minutes of work",
    r"^pip install ": "needs a package index",
    r"^python3? -m venv ": "the tests run in an environment already",
    r"^(source|\.) ": "the tests run in an environment already",
    r"^git clone ": "needs the network",
    r"^pausefl data fetch ": "needs the network",
    r"^pausefl --install-completion": "would write to the home folder",
    r"^pausefl watch ": "serves a page until it is stopped; tests/e2e opens one",
    r"^(flower-|flwr |pausefl node )": "a deployment; tests/e2e runs one",
    r"\.flwr/config\.toml$|^ls ~/trial/simulated$|^kill ": "before or after a deployment or a simulation",
}
"""Commands that are checked but not run, and why."""

ONE_AT_A_TIME = re.compile(r"^pausefl (study(?! --list)|tune|demo)\b(?!.*--jobs)")
"""Commands that start two processes unless told otherwise.  What they print does not depend on how many there are."""

SLOW_IMPORTS = [
    "pausefl.cli", "pausefl.studies.load", "pausefl.runs.play", "pausefl.report.report_files", "pausefl.privacy.audit",
    "torch", "sklearn.datasets", "altair", "vl_convert", "opendp.prelude", "dp_accounting",
]  # fmt: skip

_SILENT = " > /dev/null"
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    kind: str
    title: str | None
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Printed:
    """What a command or a block of Python printed, what the page shows, and whether it was run as written."""

    command: str
    shown: str
    real: str
    as_written: bool

    @property
    def agrees(self) -> bool:
        """Whether the page tells the truth; numbers may differ between machines, and … stands for any lines."""
        if not self.shown.strip() or not self.as_written:
            return True
        pieces = [re.escape(_plain(piece)) for piece in self.shown.split("…\n")]
        return re.fullmatch(r"[\s\S]*?".join(pieces), _plain(self.real)) is not None


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [Block(m[1], m[2], m[3], m.start(3), m.end(3)) for m in _FENCE.finditer(page)]


def pages() -> list[str]:
    """Return the pages whose blocks are run."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if any(b.kind in ("python", "console") for b in blocks((ROOT / name).read_text()))]


def play(name: str, folder: Path, check: Callable[[str], None]) -> list[tuple[Block, list[Printed]]]:
    """Run a page's blocks in ``folder``; ``check`` is told the commands that are only to be checked."""
    found = blocks((ROOT / name).read_text(encoding="utf-8"))
    told: list[tuple[Block, list[Printed]]] = []
    scope: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(found):
        if block.title:
            target = folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            real = _run_python(block.text, scope, folder, name)
            after = found[number + 1] if number + 1 < len(found) else None
            if after is not None and after.kind == "text" and after.title is None:
                told.append((after, [Printed("python", after.text, real, True)]))
        elif block.kind == "console":
            told.append((block, [_run(name, command, shown, folder, check) for command, shown in commands(block)]))
    return told


def sandbox(folder: Path) -> Path:
    """Return the folder, with the repository's examples and results, made-up data, and commands of this checkout."""
    for part in ("examples", "results"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "patients.jsonl").write_text('[{"age":71}]\n' * 5000)  # the data of the owner's page
    (folder / "bin").mkdir()
    for command, call in (("pausefl", "-m pausefl "), ("python", "")):
        script = folder / "bin" / command
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {call}"$@"\n')
        script.chmod(0o755)
    return folder


def commands(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with what the page shows of its output."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:].rstrip("\n"), ""))
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0] + "\n" + line.rstrip("\n"), "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return [(re.sub(r"\s{2,}# .*$", "", command), shown) for command, shown in found]


def _run(name: str, command: str, shown: str, folder: Path, check: Callable[[str], None]) -> Printed:
    smaller = command
    for page, pattern, other in SMALLER:
        if page == name:
            smaller = re.sub(pattern, lambda _, other=other: other, smaller)  # type: ignore[misc]
    if any(re.search(pattern, smaller) for pattern in NOT_RUN):
        check(smaller)
        return Printed(command, shown, shown, False)
    code, out = _by_fork(smaller, folder) if _needs_no_shell(smaller) else _by_bash(smaller, folder)
    refusal = any(line.startswith("pausefl: ") and "code of its own" not in line for line in shown.splitlines())
    if (code != 0) is not refusal:
        raise RuntimeError(f"{name}: $ {smaller} ended with {code}:\n{out}")
    real = out.replace(f"{folder.resolve()}/", "/home/you/")
    return Printed(command, shown, real, smaller == command)


def _needs_no_shell(command: str) -> bool:
    return command.startswith("pausefl ") and not re.search(r"[|&;<>$`\\*?~\n]", command.removesuffix(_SILENT))


def _by_bash(command: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=600,
    )  # fmt: skip
    return done.returncode, done.stdout


def _by_fork(command: str, folder: Path) -> tuple[int, str]:
    """Run ``pausefl`` in a fork of a server that has imported what is slow to import, and has run nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(SLOW_IMPORTS)
    words = shlex.split(command.removesuffix(_SILENT))[1:]
    if ONE_AT_A_TIME.search(command):
        words += ["--jobs", "1"]
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / ("err" if command.endswith(_SILENT) else "out")
        process = context.Process(target=_call, args=(words, folder, _environment(folder), out, err))
        process.start()
        process.join(600)
        if process.exitcode is None:
            process.kill()
        return -1 if process.exitcode is None else process.exitcode, err.read_text(encoding="utf-8")


def _call(words: list[str], folder: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    """Do what ``python -m pausefl`` does in a folder."""
    for stream, path in ((1, out), (2, err)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, str(folder))

    from pausefl.cli import main as pausefl

    pausefl(words)


def _run_python(text: str, scope: dict[str, object], folder: Path, name: str) -> str:
    printed = io.StringIO()
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            exec(compile(text, name, "exec", dont_inherit=True), scope)
    finally:
        sys.path.remove(str(folder))
    return printed.getvalue()


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {
        "HOME": str(folder.resolve()),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "PAUSEFL_DATA": str(folder / "data"),
        "XDG_STATE_HOME": str(folder.resolve() / ".local" / "state"),
    }


def _plain(text: str) -> str:
    """Return the text without what may differ: numbers, hashes, and the widths that follow from them."""
    text = re.sub(r"\b[0-9a-f]{16,}\b", "#", text)
    text = re.sub(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", text)
    text = re.sub(r"([─━])\1+", r"\1", text)
    return re.sub(r"[ \t]+", " ", text).strip()


def main(names: list[str]) -> None:
    """Write into each page what its commands really print."""
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            page = (ROOT / name).read_text(encoding="utf-8")
            for block, printed in reversed(play(name, sandbox(Path(place)), lambda _: None)):
                if block.kind == "text":
                    page = page[: block.start] + printed[0].real + page[block.end :]
                elif any(one.shown or one.as_written for one in printed):
                    lines = [f"$ {one.command}\n{_kept(one)}" for one in printed]
                    page = page[: block.start] + "".join(lines) + page[block.end :]
            (ROOT / name).write_text(page, encoding="utf-8")


def _kept(one: Printed) -> str:
    if not one.as_written or ("…\n" in one.shown and one.agrees):
        return one.shown
    return one.real if one.real.endswith("\n") or not one.real else one.real + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
