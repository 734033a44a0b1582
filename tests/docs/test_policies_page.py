"""The page of policies lists every one of them, and says what it really needs."""

import re
from pathlib import Path

import pytest

from pausefl.selection import POLICIES, Fastest

ROWS = {
    name: [cell.strip() for cell in rest.split("|")]
    for name, rest in re.findall(
        r"^\| `([\w-]+)` \| (.*?) \|$", (Path(__file__).parents[2] / "docs" / "policies.md").read_text(), re.M
    )
    if rest.count("|") == 2
}


def test_every_policy_has_a_row() -> None:
    assert set(ROWS) == {*POLICIES, Fastest.name}


@pytest.mark.parametrize("name", POLICIES)
def test_a_row_says_what_the_policy_needs_and_who_pays(name: str) -> None:
    policy = POLICIES[name]()
    needs, paid, _ = ROWS[name]
    assert set(needs.split(", ")) == (set(policy.needs) or {"nothing"})
    assert paid.startswith("none") == (not policy.signals)
    for signal in policy.signals:
        assert f"the {signal} of the {'d clients' if policy.asks else 'm members'}" in paid
    assert ("minibatch" in paid) == policy.minibatch
