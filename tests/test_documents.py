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
from pausefl.studies.field_page import USE_WHEN, field_page
from pausefl.studies.measured.auto_published import AutoPublished, by_entry
from pausefl.studies.measured.field import by_policy as standings
from pausefl.studies.measured.field import by_setting
from pausefl.studies.measured.study import read_rows
from pausefl.studies.measured.weights import WeightSearch

ROOT = Path(__file__).parent.parent


def test_the_configuration_in_the_manual_is_valid() -> None:
    block = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "simulator.md").read_text(), re.S | re.M)[0]
    make_config(tomllib.loads(block))


def test_the_manual_tells_the_defaults() -> None:
    block = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "simulator.md").read_text(), re.S | re.M)[0]
    defaults = make_config({}).model_dump()
    for section, values in tomllib.loads(block).items():
        lines = block.partition(f"[{section}]")[2].splitlines()  # keys of two sections may be called the same
        for key, value in values.items():
            line = next(line for line in lines if line.startswith(f"{key} = "))
            assert (defaults[section][key] is None) if "# e.g." in line else defaults[section][key] == value, line


def test_the_steps_with_flower_are_the_same_on_both_pages() -> None:
    """tests/e2e runs those of the README in Flower's simulation."""
    readme, page = (
        re.findall(r'^```python title="((?:server|client)_app\.py)"\n(.*?)^```', (ROOT / name).read_text(), re.S | re.M)
        for name in ("README.md", "docs/flower.md")
    )
    assert readme == page and len(page) == 3
    commands = r"^\$ ((?:flwr run|flower-|pausefl owner init|mkdir)[^#\n]*?(?:\\\n.*?)?)(?: +#.*)?$"
    short, whole = (
        set(re.findall(commands, (ROOT / name).read_text(), re.M)) for name in ("README.md", "docs/flower.md")
    )
    assert short <= whole and len(short) == 9


@pytest.mark.parametrize(
    "name",
    [
        "docs/flower.md",
        "docs/data-owner.md",
        "docs/node.md",
        "docs/review-an-app.md",
        "docs/owner-reference.md",
        "examples/flower-digits/README.md",
    ],
)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


SIMULATIONS = ("simulation.toml", "simulation-update.toml")


def test_the_owners_files_in_the_documents_are_valid(tmp_path: Path) -> None:
    from pausefl.owner.owner_file import read_owner

    shown = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "owner-reference.md").read_text(), re.S | re.M)
    example, whole = ((ROOT / "examples" / "flower-digits" / name).read_text() for name in SIMULATIONS)
    for text, budget in ((shown[0], 1.0), (example, 4.0), (whole, 40.0)):
        (tmp_path / "owner.toml").write_text(text)
        (tmp_path / "owner.toml").chmod(0o600)
        assert read_owner(tmp_path / "owner.toml", {"partition-id": 0}).schedule.budget == budget


def test_the_page_of_claims_is_what_the_committed_runs_say() -> None:
    page = claims_page(gather(ROOT / "results"), "pausefl paper claims results --out docs/claims.md")
    assert page == (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


def test_the_page_of_the_field_is_what_the_committed_rows_say() -> None:
    rows = read_rows(ROOT / "results" / "field" / "rows.csv").rows
    page = field_page(rows, "pausefl paper field results/field --out docs/field.md")
    assert page == (ROOT / "docs" / "field.md").read_text(encoding="utf-8")
    assert set(USE_WHEN) == {row["policy"] for row in rows}


def test_what_the_page_of_the_field_says_of_losses_is_in_the_rows() -> None:
    rows = read_rows(ROOT / "results" / "field" / "rows.csv").rows
    settings = by_setting([row for row in rows if row["unit"] == "update"])
    assert len(settings) == 8
    for name, found in settings.items():
        times = {policy: np.median([row["seconds"] for row in seeds]) for policy, seeds in standings(found).items()}
        assert all(times[policy] > times["random"] for policy in ("pow-d", "rpow-d", "afl")), name
        for policy in ("oort", "tifl"):
            assert (times[policy] < times["random"]) == ("stable" in name), (name, policy)


def test_the_table_on_the_page_of_weights_is_what_the_committed_rows_say() -> None:
    rows = read_rows(ROOT / "results" / "weights" / "rows.csv").rows
    table = WeightSearch.report(rows, "").sections[0].table
    assert table is not None
    page = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    assert [f"| {' | '.join(row)} |" for row in table.rows] == re.findall(r"^\| (?:fashion-)?mnist, .*\|$", page, re.M)


def test_the_page_of_weights_tells_the_ratios_of_first_and_added_seeds_apart() -> None:
    rows = read_rows(ROOT / "results" / "weights" / "rows.csv").rows
    page = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    first, added = (
        WeightSearch.report([row for row in rows if row["seed"] in range(start, end) or row["seed"] >= 100], "")
        for start, end in ((0, 20), (20, 60))
    )
    for report in (first, added):
        table = report.sections[0].table
        assert table is not None
        *most, last = (row[-1] for row in table.rows)
        assert f"{', '.join(most)} and {last}" in " ".join(page.split())


def test_the_table_of_the_published_setting_is_what_the_committed_rows_say() -> None:
    rows = read_rows(ROOT / "results" / "auto-published" / "rows.csv").rows
    table = AutoPublished.report(rows, "").sections[0].table
    assert table is not None
    page = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    assert [f"| {' | '.join(row)} |" for row in table.rows] == re.findall(r"^\| pause(?:-auto)?, .*\|$", page, re.M)
    slowest, run = max((run.time_to(80.0), run) for run in by_entry(rows)["pause-auto, fixed-horizon"])
    leaked = run.column("leakage")[run.column("seconds") == slowest][0]
    assert f"runs needs {slowest:.1f} seconds by itself, and has leaked {leaked:.0f} by then" in page


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
    page = (ROOT / "docs" / "review-an-app.md").read_text()
    _, found, review = page.partition("So when you review an app")
    assert found and "No single record can make the training fail" in review.partition("## Memory")[0]


def test_whoever_limits_memory_is_told_to_keep_the_node_running() -> None:
    """With systemd's default the whole service ends when an app runs out of memory, and the server sees that."""
    page = (ROOT / "docs" / "node.md").read_text()
    before, found, _ = page.partition("`MemoryMax`")
    assert found and "`OOMPolicy=continue`" in before
    page = (ROOT / "docs" / "data-owner.md").read_text()
    assert "**`OOMPolicy=continue` is needed.**" in page and "\nOOMPolicy=continue\n" in page


def test_whoever_counts_releases_in_a_log_is_told_when_the_log_is_not_whole() -> None:
    """journald writes ordinary lines to the disk every five minutes, so a power cut takes the last ones."""
    for page in ("data-owner.md", "owner-reference.md"):
        assert "`SyncIntervalSec=1s`" in (ROOT / "docs" / page).read_text()
