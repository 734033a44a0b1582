"""What the documents say of configurations, owners and the Flower lines is what the code takes."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pausefl.report.policy_summary import by_policy
from pausefl.runs.config import make_config
from pausefl.runs.read_folder import read_runs
from pausefl.studies.claims.page import claims_page
from pausefl.studies.evidence import gather

ROOT = Path(__file__).parent.parent


def test_the_configuration_in_the_manual_is_valid() -> None:
    block = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "simulator.md").read_text(), re.S | re.M)[0]
    make_config(tomllib.loads(block))


def test_the_manual_tells_the_defaults() -> None:
    block = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "simulator.md").read_text(), re.S | re.M)[0]
    defaults = make_config({}).model_dump()
    for section, values in tomllib.loads(block).items():
        for key, value in values.items():
            line = next(line for line in block.splitlines() if line.startswith(f"{key} = "))
            assert (defaults[section][key] is None) if "# e.g." in line else defaults[section][key] == value, line


def test_the_flower_lines_of_the_readme_are_the_examples_own() -> None:
    """What the end-to-end tests run is what a reader copies."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    app = ROOT / "examples" / "flower-digits" / "digits_app"
    for word, name in (("PauseStrategy", "server.py"), ("PrivateUpdate", "client.py")):
        [block] = [block for block in blocks if word in block]
        said = {line.strip() for line in block.splitlines() if line.strip()}
        lines = {line for line in said if not line.startswith("examples, per_round, options =")}
        assert lines <= {line.strip() for line in (app / name).read_text().splitlines()}


@pytest.mark.parametrize("name", ["docs/flower.md", "docs/data-owner.md", "examples/flower-digits/README.md"])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


SIMULATIONS = ("simulation.toml", "simulation-update.toml")


def test_the_owners_files_in_the_documents_are_valid(tmp_path: Path) -> None:
    from pausefl.owner.owner_file import read_owner

    shown = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "data-owner.md").read_text(), re.S | re.M)
    example, whole = ((ROOT / "examples" / "flower-digits" / name).read_text() for name in SIMULATIONS)
    for text, budget in ((shown[0], 1.0), (example, 4.0), (whole, 40.0)):
        (tmp_path / "owner.toml").write_text(text)
        (tmp_path / "owner.toml").chmod(0o600)
        assert read_owner(tmp_path / "owner.toml", {"partition-id": 0}).schedule.budget == budget


def test_the_page_of_claims_is_what_the_committed_runs_say() -> None:
    page = claims_page(gather(ROOT / "results"), "pausefl paper claims results --out docs/claims.md")
    assert page == (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


def test_the_table_beside_the_published_runs_is_what_the_committed_runs_say() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\| ([\w, -]+) \((\d+)\) \| ([\d.]+) \| [^|]+ \| ([^|]+) \| [^|]+ \| ([\d.]+) \|", text, re.MULTILINE
    )
    groups = by_policy(read_runs([ROOT / "results" / "published-mnist"]))
    assert {name.replace(", no privacy", " (no privacy)") for name, *_ in table} == set(groups)
    for name, rounds, seconds, leakage, accuracy in table:
        runs, end = groups[name.replace(", no privacy", " (no privacy)")], int(rounds)
        leaked = re.findall(r"[\d.]+", leakage)  # after 100, 200 and 300 rounds, as far as the published run goes
        found = [
            np.mean([run.column("seconds")[end - 1] for run in runs]),
            *(np.mean([run.column("max_leakage")[at - 1] for run in runs]) for at in (100, 200, 300)[: len(leaked)]),
            np.mean([run.series("accuracy")[end - 1] for run in runs]),
        ]
        assert [seconds, *leaked, accuracy] == [f"{value:.1f}" for value in found], name


def test_whoever_reviews_an_app_for_records_is_told_that_no_record_may_make_it_fail() -> None:
    """The noise of one record does not hide that the sum of all of them is missing."""
    page = (ROOT / "docs" / "data-owner.md").read_text()
    _, found, review = page.partition("So when you review an app")
    assert found and "no single record can make the training fail" in review.partition("**Memory.**")[0]


def test_whoever_limits_memory_is_told_to_keep_the_node_running() -> None:
    """With systemd's default the whole service ends when an app runs out of memory, and the server sees that."""
    page = (ROOT / "docs" / "data-owner.md").read_text()
    before, found, _ = page.partition("`MemoryMax`")
    assert found and "`OOMPolicy=continue`" in before
