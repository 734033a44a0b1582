"""Off-policy evaluation: what is logged, the replay, and the estimates against the truth, which the simulator knows."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.runs.network import build_latency
from pausefl.runs.off_policy import Estimate, estimates, off_policy, round_terms
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run
from pausefl.runs.replay import LoggedRound, replay
from pausefl.runs.run_data import RunData
from pausefl.selection import Candidates, Pause, Policy, TiFL

TAU = 0.05
SEEDS = 80
FAR = 4.5
"""Standard errors: a mean of 80 independent errors is as far off with a chance below 1 in 20,000 (Student, 79)."""


def config(policy: str = "random", rounds: int = 15, **sections: dict[str, Any]) -> Config:
    base: dict[str, dict[str, Any]] = {
        "learning": {"enabled": False}, "network": {"clients": 12, "tau_min": TAU},
        "selection": {"policy": policy, "per_round": 3}, "run": {"rounds": rounds},
    }  # fmt: skip
    return make_config({name: base.get(name, {}) | sections.get(name, {}) for name in {*base, *sections}})


def trained(policy: str, **sections: dict[str, Any]) -> Config:
    base = {
        "learning": {"enabled": True, "model": "softmax", "max_steps": 1}, "data": {"train_size": 240},
    }  # fmt: skip
    return config(policy, **{name: base.get(name, {}) | sections.get(name, {}) for name in {*base, *sections}})


def logged(settings: Config) -> RunData:
    """A run in memory, as ``run`` would return it, with its records as a file would hold them."""
    simulation = build(settings)
    records = [json.loads(json.dumps(record)) for record in simulation.play(settings.run.rounds)]
    summary = {"clients": {"size": simulation.selector.cohort.sizes.tolist()}}
    simulation.close()
    return RunData(settings.title, settings, records, summary)


LATENCY = build_latency(config().network, 0)  # two groups: the same for every seed
SECONDS, SPEED = LATENCY.expected(), LATENCY.mean_speed(TAU)


def true_values(run: RunData, rounds: list[LoggedRound]) -> dict[str, float]:
    """What the target's members are like on average in these states, from the expectations of the simulator."""
    there = 1.0 - run.settings.network.dropout
    each = {"seconds": SECONDS, "speed": there * SPEED, "answers": np.full(12, there)}
    return {
        name: float(np.mean([(one.target * value[one.candidates]).sum() / one.target.sum() for one in rounds]))
        for name, value in each.items()
    }


@cache
def many(played: str, judged: str, dropout: float, availability: str) -> list[Any]:
    """For each seed: the truth, the estimates and the rounds."""
    found = []
    for seed in range(SEEDS):
        network = {"dropout": dropout, "availability": availability}
        data = logged(
            config(played, network={"clients": 12, "tau_min": TAU, **network}, run={"seed": seed, "rounds": 30})
        )
        rounds = replay(data, judged)
        found.append((true_values(data, rounds), estimates(rounds, tau_min=TAU), rounds))
    return found


def errors(found: list[Any], measure: str, way: str) -> np.ndarray:
    return np.array([getattr(said[measure], way).value - truth[measure] for truth, said, _ in found])


def far(differences: np.ndarray) -> float:
    """How many standard errors the mean is from 0."""
    return abs(float(differences.mean())) / (float(differences.std(ddof=1)) / len(differences) ** 0.5)


# What is logged


def test_members_have_latencies_and_chances_where_the_policy_knows_them() -> None:
    for policy, knows in (("random", True), ("clustered", True), ("pause", False)):
        settings = config(policy, network={"clients": 12, "dropout": 0.3, "deadline": 0.8})
        simulation = build(settings)
        for record in simulation.play(10):
            members = np.array(record["members"])
            outcome = simulation.network.play(members, record["round"])
            seen = np.array(record["latencies"], dtype=np.float64)
            assert seen == pytest.approx(outcome.latency, rel=1e-5, nan_ok=True)
            assert ("chances" in record) is knows
            if policy == "random":
                assert len(set(record["chances"])) == 1
                assert 0.25 <= record["chances"][0] <= 1.0
        assert "told" not in record


def test_the_record_of_many_clients_stays_small() -> None:
    """It grows with the members of a round, and not with the clients."""
    sizes = []
    for clients in (100, 10_000):
        settings = config("random", network={"clients": clients}, selection={"policy": "random", "per_round": 15})
        sizes.append(len(json.dumps(next(build(settings).play(1)))))
    assert sizes[1] < 1.2 * sizes[0] < 2400


@pytest.mark.parametrize("policy", ["random", "tifl", "rpow-d"])
def test_a_resumed_run_logs_the_same(tmp_path: Path, policy: str) -> None:
    settings = trained(policy, run={"rounds": 8, "checkpoint_every": 3})
    run(settings, tmp_path / "whole")
    for until in (3, 6, 8):
        run(settings, tmp_path / "parts", until=until)
    lines = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "parts")]
    assert lines[0] == lines[1]
    assert all("chances" in json.loads(line) for line in lines[0].splitlines())


def test_older_runs_are_read_and_cannot_be_judged(tmp_path: Path) -> None:
    run(config(), tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    new = ("latencies", "chances")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps({k: v for k, v in r.items() if k not in new}) + "\n" for r in lines))
    with pytest.raises(InvalidValueError, match="does not record with which probability"):
        off_policy(read_run(tmp_path), "pause")


@pytest.mark.parametrize("change", [
    {"latencies": [0.1]}, {"chances": "all"}, {"chances": [0.2, 0.2, "x"]}, {"told": [1]}, {"told": {"loss": [1.0]}},
])  # fmt: skip
def test_damaged_columns_are_told(tmp_path: Path, change: dict[str, Any]) -> None:
    run(config(rounds=3), tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    metrics.write_text("".join(f"{line}\n" for line in [*lines[:2], json.dumps(json.loads(lines[2]) | change)]))
    with pytest.raises(ConfigError, match="not a number per member"):
        read_run(tmp_path)


# The replay


HARD = {
    "clients": 12, "dropout": 0.2, "availability": "on-off", "clusters": 3, "congestion": 0.05, "jams": 0.2,
    "rehearsal": True, "late": 0.3, "late_by": 5, "straggle": 0.1, "deadline": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("settings", [
    config("random"), config("random", network=HARD), config("clustered", network=HARD), config("refl", network=HARD),
    config("random", network={"clients": 12, "dropout": 0.2}, server={"over_select": 1.7, "late": "use"}),
    config("random", network={"clients": 12}, server={"deadline_quantile": 0.5, "deadline_slack": 1.0}),
    config("random", privacy={"schedule": "fixed-horizon", "releases": 2}),
    trained("tifl", run={"rounds": 25}), trained("rpow-d"),
    trained("random", data={"train_size": 240, "partition": "sizes"}),
])  # fmt: skip
def test_the_replay_sees_what_the_policy_saw(settings: Config) -> None:
    """If the judged policy is the one that played, both have the same chances, and they are the logged ones."""
    data = logged(settings)
    rounds = replay(data, settings.selection.policy)
    assert len(rounds) == sum(bool(record["members"]) for record in data.records) > 5
    for one in rounds:
        record = data.records[one.number - 1]
        assert one.candidates[one.members].tolist() == record["members"]
        assert one.chances[one.members].tolist() == record["chances"]
        if settings.selection.policy in ("random", "refl", "rpow-d"):  # others sort equal clients by their own tickets
            assert one.target.tolist() == one.chances.tolist()
        size = round(float(one.chances.sum()), 9)
        assert len(record["members"]) == size or settings.selection.policy == "clustered"


class Seeing(Policy):
    """Notes what it sees, and picks the slowest."""

    name = "seeing"
    needs = frozenset({"latency", "forecast"})

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __deepcopy__(self, _: object) -> Seeing:
        return self

    def pick(self, candidates: Candidates) -> Any:
        names = ("ucb", "score", "mean_seconds", "timings", "picks", "budget_left", "sizes", "forecast")
        self.seen.append([candidates.ids, *(getattr(candidates, name).tolist() for name in names)])
        return np.argsort(candidates.mean_seconds)[-candidates.m :]


def test_the_judged_policy_sees_the_state_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns are those that the policy that played saw in its run, to the bit."""
    settings, during, after = config("refl", network=HARD), list[Any](), list[Any]()
    kind = type(build(settings).selector.policy)
    inside = kind.pick

    def pick(self: Policy, candidates: Candidates) -> Any:
        Seeing(during).pick(candidates)
        return inside(self, candidates)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "pick", pick)
        data = logged(settings)
    replay(data, Seeing(after))
    assert repr(during) == repr(after)
    assert len(after) > 10


def test_ties_of_the_judged_policy_do_not_follow_the_logged_draw() -> None:
    """In the first round all clients are equal, and ``random`` and ``pause`` both choose by lottery.

    Without numbers of its own ``pause`` would always choose the logged members.  Of 200 rounds with 3 of 12, a share
    of 0.25 of its members is logged on average; 0.35 and more has a chance below 1 in 10,000.
    """
    shared = []
    for seed in range(200):
        [one, *_] = replay(logged(config(rounds=2, run={"rounds": 2, "seed": seed})), "pause")
        shared.append(one.target[one.members].sum() / 3)
    assert 0.15 < np.mean(shared) < 0.35


def test_a_policy_with_a_memory_follows_the_logged_rounds_and_stays_as_it_was() -> None:
    mine = TiFL(adaptive=False, credits=2, tiers=3)
    rounds = replay(logged(config(rounds=20)), mine)
    assert (mine.left == 2.0).all()
    assert len({tuple(one.target) for one in rounds}) > 5


# Refusals


def test_what_cannot_be_judged_is_refused_in_one_line(tmp_path: Path) -> None:
    plain, taught = logged(config()), logged(trained("random"))
    for data, policy, said in (
        (logged(config("pause")), "random", "does not record with which probability"),
        (plain, "pow-d", "asks clients before it picks"),
        (plain, "clustered-similarity", "learns from updates"),
        (taught, "afl", "needs the loss of clients"),
        (replace(taught, summary=None), "pause", "wait until the run has ended"),
        (plain, "nobody", "nobody"),
        (logged(config("refl", network=HARD)), "random", "could not be picked in round"),
    ):
        with pytest.raises(InvalidValueError, match=said) as refused:
            off_policy(data, policy)
        assert "\n" not in str(refused.value)
    with pytest.raises(InvalidValueError, match="number of rounds is 1, but must be 2 or more"):
        off_policy(plain, "pause", first=15)
    assert off_policy(logged(config("tifl", rounds=30)), "random", first=20).rounds == 11  # all were timed before


@pytest.mark.parametrize(("key", "value"), [
    ("latencies", [0.1, 0.1, 0.1]), ("chances", [0.3, 0.25, 0.25]), ("seconds", 0.01), ("members", [0, 1, 2]),
])  # fmt: skip
def test_a_log_that_is_not_that_of_the_run_is_noticed(key: str, value: Any) -> None:
    data = logged(config())
    records = [dict(record) for record in data.records]
    records[3][key] = value
    with pytest.raises(InvalidValueError, match="cannot be replayed"):
        replay(replace(data, records=records), "pause")


# The estimates


CASES = [
    ("random", "pause", 0.0, "always"), ("random", "oort", 0.2, "always"), ("clustered", "rbcs-f", 0.0, "on-off"),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [CASES[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in CASES[1:])], ids=str
)
@pytest.mark.parametrize("measure", ["seconds", "speed", "answers"])
def test_they_are_right_on_average(case: tuple[Any, ...], measure: str) -> None:
    """18 comparisons, each with a false-alarm rate below 1 in 20,000; the seeds are fixed."""
    found = many(*case)
    for way in ("inverse", "doubly_robust"):
        off = errors(found, measure, way)
        assert far(off) < FAR, (way, off.mean())
        covered = np.mean([inside(getattr(said[measure], way), truth[measure]) for truth, said, _ in found])
        assert covered > 0.83, way  # 80 intervals of 95 %: fewer than 67 of them have a chance below 1 in 10,000


def inside(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_a_model_makes_the_error_smaller_and_a_bad_one_no_bias() -> None:
    """The same false-alarm rate; the errors differ by factors, which 80 seeds cannot blur."""
    found = many(*CASES[0])
    inverse, both = (errors(found, "seconds", way) for way in ("inverse", "doubly_robust"))
    assert (both**2).mean() < 0.5 * (inverse**2).mean()
    good, bad, wrong = [], [], []
    for truth, _, rounds in found:
        seconds = [one.seconds for one in rounds]
        good.append(round_terms(rounds, seconds, SECONDS).doubly_robust.mean() - truth["seconds"])
        terms = round_terms(rounds, seconds, 1.0 - SECONDS)  # the fast are taken to be the slow ones
        bad.append(terms.doubly_robust.mean() - truth["seconds"])
        wrong.append(terms.direct.mean() - truth["seconds"])
    assert np.mean(np.square(good)) < 0.1 * (inverse**2).mean()
    assert far(np.array(good)) < FAR
    assert far(np.array(bad)) < FAR
    assert far(np.array(wrong)) > FAR  # the model really is a bad one


def test_the_model_alone_may_be_wrong() -> None:
    """``oort`` goes by what was seen, and so does the model: whom chance made look good looks good to both."""
    assert far(errors(many(*CASES[1]), "answers", "direct")) > FAR
    assert far(errors(many(*CASES[1]), "answers", "doubly_robust")) < FAR


def test_a_policy_judged_by_its_own_rounds_gets_its_own_mean() -> None:
    data = logged(config(rounds=30))
    found = off_policy(data, "random").measures["seconds"]
    plain = np.mean([np.mean(record["latencies"]) for record in data.records])
    assert found.played == found.inverse
    assert found.played.value == pytest.approx(plain, rel=1e-5)


def test_the_terms_by_hand() -> None:
    common = {"candidates": np.array([0, 2]), "chances": np.array([0.5, 0.25]), "target": np.array([0.25, 0.75])}
    member = {"arrived": np.array([True])}
    rounds = [
        LoggedRound(number=1, **common, members=np.array([0]), seconds=np.array([4.0]), **member),
        LoggedRound(number=2, **common, members=np.array([1]), seconds=np.array([8.0]), **member),
        LoggedRound(number=3, **common, members=np.array([1]), seconds=np.array([2.0]), **member),
    ]
    terms = round_terms(rounds, [one.seconds for one in rounds])
    assert terms.inverse.tolist() == [2.0, 24.0, 6.0]
    assert terms.direct.tolist() == [0.25 * 4 + 0.75 * 5] * 3
    # Before round 2 client 2 counts as the mean of all, which is 4; before round 3 it was seen once, with 8.
    assert terms.doubly_robust.tolist() == [2.0, 4.0 + 3 * (8 - 4), 0.25 * 4 + 0.75 * 8 + 3 * (2 - 8)]
    with pytest.raises(InvalidValueError, match="chances of a member is 0"):
        replace(rounds[0], chances=np.array([0.0, 0.5]))


def test_no_client_without_a_chance_may_be_wanted() -> None:
    data = logged(config())
    rounds = replay(data, Pause())
    first = int(np.setdiff1d(np.flatnonzero(rounds[2].target), rounds[2].members)[0])
    chances = rounds[2].chances.copy()
    chances[first] = 0.0
    broken = [*rounds[:2], replace(rounds[2], chances=chances), *rounds[3:]]
    with pytest.raises(InvalidValueError, match=f"client {first} could not be picked in round 3"):
        estimates(broken, tau_min=TAU)
