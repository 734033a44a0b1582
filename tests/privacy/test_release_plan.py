"""Plans: within the budget, better with more of anything good, and what they say would help does help."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.cli import main
from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Gaussian, Laplace, Mechanism, PrivUnit, suggest

MECHANISMS: list[Mechanism] = [PrivUnit(1.0), Gaussian(1.0, 1e-5), Laplace(unit="update", l1=1.0)]
SETTINGS = st.fixed_dictionaries(
    {
        "clients": st.integers(1, 5000),
        "per_round": st.integers(1, 100),
        "dimension": st.integers(1, 100_000),
        "budget": st.floats(0.01, 1000.0),
        "mechanism": st.sampled_from(MECHANISMS),
        "examples": st.none() | st.integers(1, 10_000),
        "accuracy": st.floats(1.0, 99.0),
    }
).filter(lambda setting: setting["per_round"] <= setting["clients"])


@settings(max_examples=40, deadline=None)
@given(SETTINGS)
def test_a_plan_keeps_the_budget_and_can_be_played(setting: dict[str, Any]) -> None:
    plan = suggest(**setting)
    schedule = FixedHorizon(setting["budget"], plan.releases)
    assert plan.epsilon == pytest.approx(schedule.epsilon(1), rel=1e-12)
    assert plan.releases * plan.epsilon <= setting["budget"]
    assert plan.rounds == max(1, setting["clients"] * plan.releases // setting["per_round"])
    assert (plan.noise_to_signal <= plan.bearable) is (plan.verdict == "can learn")
    known = setting["mechanism"].noise_to_signal(setting["dimension"], plan.epsilon)
    assert plan.per_release == pytest.approx(known) == pytest.approx(plan.per_round * setting["per_round"] ** 0.5)


@settings(max_examples=40, deadline=None)
@given(SETTINGS, st.sampled_from(["clients", "budget", "examples"]), st.floats(1.1, 5.0))
def test_more_of_anything_good_is_never_worse(setting: dict[str, Any], name: str, times: float) -> None:
    """Not compared beyond what a mechanism can use: there a plan gets by with more and weaker releases."""
    if setting[name] is None or setting["budget"] * times > 500.0:
        return
    more = type(setting[name])(setting[name] * times)
    before, after = suggest(**setting), suggest(**setting | {name: more})
    # The choice weighs rounds as well as noise, so a little noise may be given for more of them.
    assert after.noise_to_signal <= before.noise_to_signal * 1.3


@settings(max_examples=40, deadline=None)
@given(SETTINGS)
def test_what_is_said_to_help_does(setting: dict[str, Any]) -> None:
    plan = suggest(**setting)
    for name in ("clients", "budget", "dimension"):
        needed = getattr(plan, f"needed_{name}")
        if needed is not None:
            assert plan.verdict == "cannot learn"
            assert suggest(**setting | {name: needed}).verdict == "can learn"


@pytest.mark.parametrize(
    ("clients", "per_round", "dimension", "budget", "verdict"),
    [
        (300, 15, 1290, 10.0, "can learn"),  # MNIST: 95 of 97.5 %
        (30, 5, 1290, 4.0, "cannot learn"),  # 45 %
        (3, 3, 650, 40.0, "cannot learn"),  # the three SuperNodes of the example: 66 % on digits
        (30, 5, 650, 40.0, "can learn"),  # 90 %
        (30, 5, 25_818, 40.0, "cannot learn"),  # the paper's network: 16 %
    ],
)
def test_verdicts_of_runs_that_were_made(
    clients: int, per_round: int, dimension: int, budget: float, verdict: str
) -> None:
    assert suggest(clients, per_round, dimension, budget).verdict == verdict


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clients": 0}, "clients is 0"), ({"per_round": 31}, "per_round is 31, but must be at most the 30 clients"),
        ({"dimension": 0}, "dimension is 0"), ({"budget": 0.0}, "budget is 0.0"), ({"budget": float("nan")}, "budget"),
        ({"examples": 0}, "examples is 0"), ({"accuracy": 100.0}, "accuracy is 100.0"),
    ],
)  # fmt: skip
def test_nonsense_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        suggest(**{"clients": 30, "per_round": 5, "dimension": 650, "budget": 4.0} | change)


def test_a_plan_is_one_that_the_ledger_allows() -> None:
    assert suggest(300, 15, 100, 300.0, mechanism=Gaussian(1.0, 1e-3)).releases == 1
    assert suggest(300, 15, 100, 300.0, mechanism=Gaussian(1.0, 1e-4)).releases <= 10
    for budget, mechanism, words in (
        (1e-9, PrivUnit(1.0), "budget is 1e-09, but must be at least 1e-06"),
        (1.0, Gaussian(1.0, 0.1), "delta is 0.1, but must be at most 0.001"),
    ):
        with pytest.raises(InvalidValueError, match=words):
            suggest(300, 15, 100, budget, mechanism=mechanism)


def test_the_delta_that_is_told_is_that_of_all_releases(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(
            [
                "plan",
                "--clients",
                "3000",
                "--per-round",
                "15",
                "--budget",
                "100",
                "--dimension",
                "20",
                "--mechanism",
                "gaussian",
                "--delta",
                "1e-4",
                "--json",
            ]
        )
    told = json.loads(capsys.readouterr().out)
    assert f"delta = {told['releases'] * 1e-4:g}," in told["guarantee"] and told["releases"] > 1
