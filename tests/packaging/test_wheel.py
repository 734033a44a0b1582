"""The wheel, alone in a new environment: it works, is complete, and names the extra that is missing.

It needs a package index and a minute, so it has a mark of its own: ``make package``.
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.package
ROOT = Path(__file__).resolve().parents[2]
SECURE = (
    "import numpy as np; from pausefl.privacy import Laplace, SecureNoise; "
    "Laplace(unit='coordinate', width=1.0).release(np.zeros(3), 1.0, SecureNoise())"
)
VERSION = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/pausefl/__init__.py").read_text())[1]  # type: ignore[index]


def call(*command: object, where: Path | None = None) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([str(word) for word in command], cwd=where, env=clean, capture_output=True, text=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = call(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def home(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    assert call(sys.executable, "-m", "venv", folder).returncode == 0
    [wheel] = dist.glob("*.whl")
    done = call(folder / "bin/python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    assert done.returncode == 0, done.stderr
    return folder


def test_what_is_in_the_wheel(dist: Path) -> None:
    names = set(zipfile.ZipFile(next(dist.glob("*.whl"))).namelist())
    for path in (ROOT / "src").rglob("*"):
        if path.is_file() and path.suffix in (".py", ".toml", ".css", ".html", ".js", ".csv", ".typed"):
            assert path.relative_to(ROOT / "src").as_posix() in names
    assert "pausefl/py.typed" in names
    assert not any(name.startswith(("tests/", "docs/", "tools/")) for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_builds_what_the_tree_does(dist: Path) -> None:
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "mkdocs.yml"} <= names
    assert not any(name.startswith((".venv", "build/", "runs/")) for name in names)


def test_one_version(dist: Path, home: Path) -> None:
    assert {path.name.split("-")[1].removesuffix(".tar.gz") for path in dist.iterdir()} == {VERSION}
    assert call(home / "bin/pausefl", "--version").stdout == f"pausefl {VERSION}\n"
    said = call(home / "bin/python", "-c", "import importlib.metadata as m; print(m.version('pausefl'))").stdout
    assert said == f"{VERSION}\n"


def test_the_environment_is_sound(home: Path) -> None:
    done = call(home / "bin/python", "-m", "pip", "check")
    assert done.returncode == 0, done.stdout
    for name in ("torch", "flwr", "altair", "opendp"):
        assert call(home / "bin/python", "-c", f"import {name}").returncode == 1


def test_the_three_calls_of_the_readme_run(home: Path, tmp_path: Path) -> None:
    block = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)[0]
    done = call(home / "bin/python", "-W", "error", "-c", block, where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "speed" in done.stdout


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("import pausefl.learn.client_data", "learn"),
        ("import pausefl.learn.learners", "learn"),
        ("from pausefl.learn.r_package import read_table; read_table(b'', b'', 'Chem97')", "data"),
        ("from pausefl.report.chart_base import require_charts; require_charts()", "report"),
        (SECURE, "private"),
        ("import pausefl.studies.search.trial_journal", "tune"),
        ("from pausefl.runs.ray_cluster import connected\nwith connected('auto'): pass", "ray"),
        ("from pausefl.flower import PauseStrategy", "flower"),
        ("from pausefl.flower import PrivateUpdate", "flower"),
    ],
)
def test_importing_what_is_missing_names_its_extra(home: Path, statement: str, extra: str) -> None:
    done = call(home / "bin/python", "-c", statement)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("pausefl.errors.MissingExtraError")
    assert f"pip install 'pausefl[{extra}]'" in last


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(["run", "a.toml", "--out", "runs"], "learn"), (["demo"], "report"), (["study", "regret"], "report")],
)
def test_commands_name_the_missing_extra_in_one_line(
    home: Path, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    (tmp_path / "a.toml").write_text("[run]\nrounds = 1\n")
    done = call(home / "bin/pausefl", *arguments, where=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("pausefl: ")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'pausefl[{extra}]'" in done.stderr


def test_what_needs_no_extra_runs(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[learning]\nenabled = false\n[run]\nrounds = 3\n")
    done = call(home / "bin/pausefl", "run", "a.toml", "--out", "runs", where=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for arguments in (["study", "--list"], ["data", "list"]):
        done = call(home / "bin/pausefl", *arguments, where=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
