"""What the site adds to the pages: links, tables from the code, drawings, licences.

The site itself is built by ``make docs``, strictly.
"""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from house import page as mapped  # noqa: E402 - the folder is known only now
from house import picture, tree  # noqa: E402 - the folder is known only now
from licences import DATA_INSIDE, groups, licence, needed  # noqa: E402
from offline import fetched  # noqa: E402
from tables import commands_table, configuration_table, key_comments  # noqa: E402

from pausefl.runs.config import make_config  # noqa: E402


def test_every_key_is_explained_in_the_manual() -> None:
    said = key_comments((ROOT / "docs/simulator.md").read_text())
    keys = {(section, key) for section, values in make_config({}).model_dump().items() for key in values}
    assert keys == set(said)
    assert all(said.values())


def test_the_tables_name_every_key_and_every_command() -> None:
    table = configuration_table()
    for section, values in make_config({}).model_dump().items():
        assert f"## [{section}]" in table
        assert all(f"| `{key}` |" in table for key in values)
    commands = commands_table()
    for name in ("pausefl run", "pausefl ledger verify", "pausefl data fetch", "pausefl audit"):
        assert f"## {name}\n" in commands
    assert "The TOML file of the run. Every key in it has a default." in commands


def test_the_drawing_is_the_one_that_the_script_makes() -> None:
    assert (ROOT / "docs/images/architecture.svg").read_text() == picture()


def test_the_map_shows_the_real_tree_and_the_checked_order() -> None:
    """Made with ``python tools/house.py docs``."""
    text = (ROOT / "docs/architecture.md").read_text()
    assert mapped(text) == text
    assert "`" not in tree()


def test_addresses_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://a.b/c">fine</a><img src="here.png"><link href="x.css">')
    assert fetched(tmp_path) == []
    (tmp_path / "b.html").write_text('<script async src="https://a.b/c.js"></script><img src="//a.b/d.png">')
    (tmp_path / "c.css").write_text("@import 'https://a.b/f.css'; p { background: url(data:x) }")
    assert len(fetched(tmp_path)) == 3


def test_the_licences_are_those_of_what_is_asked_for() -> None:
    page = (ROOT / "docs/licences.md").read_text()
    for name in needed(groups()["pausefl"]):
        assert f"| {distribution(name).metadata['Name']} | {licence(distribution(name))} |" in page
    assert all(f"pausefl[{extra}]" in page for extra in groups() if extra != "pausefl")
    assert page.endswith("\n".join(DATA_INSIDE))


def test_links_are_led_to_the_same_file_in_the_site() -> None:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    from site_pages import _in_repository, _origin, _place

    for origin, place in [
        ("README.md", "index.md"),
        ("docs/how-to/resume.md", "how-to/resume.md"),
        ("examples/own_policy.py", "source/examples/own_policy.py"),
        ("examples/tutorial.ipynb", "source/examples/tutorial.md"),  # a page, not a file to fetch
    ]:
        assert (_place(origin), _origin(place)) == (place, origin)
    assert _in_repository("docs/tutorial.md", "../CONTRIBUTING.md") == "CONTRIBUTING.md"
    assert _in_repository("docs/tutorial.md", "../results") == "results/README.md"
    assert _in_repository("docs/tutorial.md", "../../outside.md") is None


def test_a_page_can_be_read_on_a_small_screen() -> None:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    from site_pages import on_page_content

    block = '<div class="language-console highlight"><pre><code><span id="__line-0-1">{}\n</span></code></pre></div>'
    for line, column, narrow in [
        ("$ make demo  <b># all</b>", 13, 2),
        ("  a.py     What a &amp; b do", 11, 4),
        ("  plain", 6, 4),
    ]:
        wanted = f'hanging"><pre><code><span id="__line-0-1" style="--hang: {column}ch; --in: {narrow}ch">{line}'
        assert wanted in on_page_content(block.format(line))
    python = on_page_content(block.format("...     luck = 1  # why").replace("console", "pycon"))
    assert 'style="--hang: 12ch; --in: 10ch"' in python
    assert on_page_content('<img alt="a" src="b.png">') == '<a href="b.png"><img alt="a" src="b.png"></a>'
    numbers = "<table><tr><th>a</th><th>b</th><th>c</th></tr><tr><td>1</td><td>2</td><td>3</td></tr></table>"
    assert on_page_content(numbers) == numbers
    sentences = on_page_content(numbers.replace("2", "words " * 10))
    assert "<table data-stacked>" in sentences and '<td data-of="c">3</td>' in sentences
    assert "tests/<wbr>test_<wbr>" in on_page_content(f"<td><code>tests/test_{'long' * 9}</code></td>")
    assert '<span id="__line-0-1" class="drawn" style="--columns: 5">│ 1 │' in on_page_content(block.format("│ 1 │"))
    many = numbers.replace("<th>c</th>", "<th>c</th><th>d</th><th>e</th>")
    assert "<table data-stacked>" in on_page_content(many)
    assert on_page_content("<code>a --json</code>") == '<code>a <span class="whole">--json</span></code>'


def test_docstrings_become_markdown() -> None:
    pytest.importorskip("griffe", reason="the docs extra is not installed")
    from docstrings import as_markdown

    text = as_markdown("One.\n\n>>> 1 + 1\n2\n\nSee :class:`~a.b.C` and ``d``.")
    assert text == "One.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nSee `C` and `d`."


def test_a_notebook_becomes_a_page_with_its_code_and_what_it_showed() -> None:
    from notebook_page import notebook_page

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Words."]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": [
            {"output_type": "stream", "text": ["1\n"]},
            {"output_type": "display_data", "data": {"image/png": "QUJD\n", "text/plain": ["<a & b>"]}},
            {"output_type": "execute_result", "data": {"text/plain": ["```"]}}]},
    ]  # fmt: skip
    assert notebook_page(json.dumps({"cells": cells})) == (
        "# Title\nWords.\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        '<img alt="&lt;a &amp; b&gt;" src="data:image/png;base64,QUJD">\n\n````text\n```\n````\n'
    )
    whole = notebook_page((ROOT / "examples/tutorial.ipynb").read_text(encoding="utf-8"))
    assert whole.count("```python") >= 3


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        for target in re.findall(r"(?<!`)\]\(([^)\s#:]+)", text):
            assert (page.parent / target).exists(), f"{page}: {target}"
    notebook = json.loads((ROOT / "examples/tutorial.ipynb").read_text())
    assert notebook["nbformat"] == 4


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("broken", [[], ["nowhere.md", "simulator.md#no-such-heading"]])
def test_make_docs_fails_when_a_link_is_broken(tmp_path: Path, broken: list[str]) -> None:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.name in ("src", "examples", "results", "Makefile", "mkdocs.yml") or path.suffix in (
            ".md",
            ".toml",
            ".cff",
        ):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "constraints.txt").touch()
    (tmp_path / "venv").mkdir()
    for done in ("python", "demo", "dev"):  # as if the environment had been set up: the one of this test is used
        (tmp_path / "venv" / done).touch()
    with (tmp_path / "docs/tutorial.md").open("a") as page:
        page.writelines(f"\n[broken]({target})\n" for target in broken)
    make = ["make", "--no-print-directory", "docs", "VENV=venv", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) is (not broken), done.stderr
    assert ("nowhere.md" in done.stderr) is ("no-such-heading" in done.stderr) is bool(broken), done.stderr
    assert done.stdout == ""
