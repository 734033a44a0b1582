"""Runs whose policy hears signals: their names, their numbers, and what the section means to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.errors import ConfigError
from pausefl.report.policy_summary import by_policy, summarise
from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run
from pausefl.selection import POLICIES, Candidates, Policy, Random

MARK = " (leaks un-noised losses)"


class Listening(Policy):
    """The m clients with the highest loss, unknown ones first."""

    name, needs = "listening", frozenset({"loss"})

    def pick(self, candidates: Candidates) -> Any:
        loss = np.where(np.isnan(candidates.loss), np.inf, candidates.loss)
        return np.lexsort((candidates.tickets(np.arange(len(candidates))), -loss))[: candidates.m]


def config(policy: str = f"{__name__}:Listening", rounds: int = 6, **sections: dict[str, Any]) -> Config:
    base: dict[str, dict[str, Any]] = {
        "data": {"train_size": 80}, "network": {"clients": 6}, "selection": {"policy": policy, "per_round": 2},
        "learning": {"model": "softmax", "max_steps": 2}, "run": {"rounds": rounds, "checkpoint_every": 2},
        "privacy": {"schedule": "fixed-horizon", "releases": 2},
    }  # fmt: skip
    return make_config({name: base.get(name, {}) | sections.get(name, {}) for name in {*base, *sections}})


def test_bare_losses_are_marked_in_every_table_where_updates_are_protected(tmp_path: Path) -> None:
    bare = {"kind": "bare"}
    assert config(signals=bare).title.endswith(MARK)
    assert MARK not in config().title + config(signals={"kind": "noised"}).title
    assert config(signals=bare, privacy={"enabled": False}).title.endswith("(no privacy)")
    assert config("pause", signals=bare).title == "pause"
    played = run(config(signals=bare), tmp_path)
    assert read_run(tmp_path).name == played.name == "listening" + MARK
    assert [policy.name for policy in summarise(by_policy([played]))] == [played.name]
    assert "un-noised losses are told besides" in played.guarantee


def test_a_policy_of_the_package_is_marked_by_its_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hearing(Random):
        needs = frozenset({"accuracy"})

    monkeypatch.setitem(POLICIES, "random", Hearing)
    assert config("random", signals={"kind": "bare"}).title == "random" + MARK


def test_the_section_changes_nothing_for_policies_without_signals() -> None:
    found = []
    for signals in ({}, {"kind": "noised", "share": 0.7, "releases": 3}, {"kind": "bare"}):
        simulation = build(config("random", signals=signals))
        found.append((list(simulation.play(4)), simulation.guarantee(), simulation.model.tolist()))
        simulation.close()
    assert found[0] == found[1] == found[2]


def test_all_policies_may_spend_the_same(tmp_path: Path) -> None:
    ends = []
    for policy in (f"{__name__}:Listening", "random"):
        played = run(config(policy, rounds=9), tmp_path / policy.rpartition(":")[2])
        ends.append(played.records[-1]["max_leakage"])
        left = played.budget_left()
        assert left is not None
        assert (left == pytest.approx(np.zeros(6), abs=1e-6)) and (left >= 0.0).all()
    assert ends == pytest.approx([40.0, 40.0])


def test_what_is_left_counts_tellings(tmp_path: Path) -> None:
    played = run(config(rounds=1, signals={"share": 0.5, "releases": 4}), tmp_path)
    left = played.budget_left()
    assert left is not None
    spent = 40.0 * (0.5 / 2 + 0.5 / 4)
    assert sorted(left.tolist()) == pytest.approx([40.0 - spent] * 2 + [40.0] * 4)
    assert played.records[0]["max_leakage"] == pytest.approx(spent)


def test_a_run_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole = run(config(rounds=7), tmp_path / "whole")
    run(config(rounds=3), tmp_path / "parts")
    parts = run(config(rounds=7), tmp_path / "parts")
    assert parts.records == whole.records and parts.summary == whole.summary


def test_runs_of_before_the_section_are_read(tmp_path: Path) -> None:
    run(config("random", rounds=1), tmp_path)
    file = tmp_path / "config.toml"
    before, _, rest = file.read_text().partition("[signals]")
    file.write_text(before + rest[rest.index("\n[") :])
    assert "[signals]" not in file.read_text()
    assert read_run(tmp_path).settings.signals.kind == "bit"


@pytest.mark.parametrize(
    ("signals", "said"),
    [({"threshold": 5.0}, "must be below signals.bound = 4.6"),
     ({"kind": "noised", "threshold": 2.0}, "signals.threshold has no effect here"),
     ({"share": 1.0}, "signals.share"), ({"releases": 0}, "signals.releases"), ({"kind": "loud"}, "signals.kind")],
)  # fmt: skip
def test_what_cannot_be_is_refused(signals: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(signals=signals)
