"""Signals in the loop: who tells, who pays, how long it takes, and that a resumed run tells the same."""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import Any, ClassVar

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, Schedule
from pausefl.privacy.signals import Signals
from pausefl.privacy.zcdp import zcdp_within
from pausefl.selection import Candidates, Policy
from pausefl.selector import Selector
from pausefl.sim.charges import SignalTerms
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import Trace, two_groups
from pausefl.sim.learner import ClientScores, Scores
from pausefl.sim.network import Network


class Listening(Policy):
    """The m clients with the highest loss, unknown ones first; members tell with their update."""

    name = "listening"
    needs = frozenset({"loss"})

    def pick(self, candidates: Candidates) -> Any:
        loss = np.where(np.isnan(candidates.loss), np.inf, candidates.loss)
        return np.lexsort((candidates.tickets(np.arange(len(candidates))), -loss))[: candidates.m]


class Asking(Listening):
    """The same, but four clients are asked first."""

    name = "asking"
    needs = frozenset({"loss", "accuracy"})

    def ask(self, candidates: Candidates) -> Any:
        return np.argsort(candidates.tickets(np.arange(len(candidates))))[:4]


class Minibatch(Listening):
    """It needs one minibatch only."""

    name = "minibatch"
    minibatch: ClassVar[bool] = True


class Scoring:
    """The loss of client k is (k + 1) / 2, its accuracy 1 / (k + 1); it notes who was scored.  Updates are k + 1."""

    def __init__(self) -> None:
        self.scored: list[tuple[list[int], float, int | None, float]] = []

    def initial(self) -> np.ndarray:
        return np.zeros(3, dtype=np.float32)

    def train(self, model: np.ndarray, members: np.ndarray, number: int) -> np.ndarray:
        return np.repeat((members + 1.0)[:, None], 3, axis=1).astype(np.float32)

    def evaluate(self, model: np.ndarray) -> Scores:
        return Scores(float(model[0]), 0.0)

    def announce(self, model: np.ndarray) -> None:
        pass

    def train_and_score(self, model: np.ndarray, members: np.ndarray, number: int) -> tuple[np.ndarray, Future]:
        scores: Future = Future()
        scores.set_result(self.evaluate(model))
        return self.train(model, members, number), scores

    def state(self) -> dict:
        return {}

    def restore(self, state: dict) -> None:
        pass

    def client_scores(
        self, model: np.ndarray, members: np.ndarray, bound: float, minibatch_of: int | None = None
    ) -> ClientScores:
        self.scored.append((members.tolist(), bound, minibatch_of, float(model[0])))
        return ClientScores(np.minimum((members + 1.0) / 2.0, bound), 1.0 / (members + 1.0), np.full(len(members), 10))


def simulation(
    policy: Policy, settings: Signals | None = None, schedule: Schedule = Geometric(10.0, 0.1),  # noqa: B008 - frozen
    network: Network | None = None, mechanism: Any = Laplace(unit="coordinate", width=1e-3), share: float = 0.1,  # noqa: B008
    learner: Any = None,
) -> Simulation:  # fmt: skip
    told = settings or Signals()
    updates, part = told.parts(schedule)
    free = told.kind == "bare"
    selector = Selector(np.ones(6), 2, policy, tau_min=0.05, schedule=schedule if free else updates)
    terms = SignalTerms(told, None if free else part, schedule.budget, share)
    return Simulation(
        selector, network or Network(two_groups(6), seed=1), learner=learner or Scoring(), mechanism=mechanism,
        signals=terms,
    )  # fmt: skip


def test_members_tell_the_loss_of_the_model_that_the_round_starts_from() -> None:
    learner = Scoring()
    sim = simulation(Listening(), Signals(kind="bare"), learner=learner)
    models = [float(sim.model[0])]
    for number in range(1, 5):
        record = sim.step()
        models.append(float(sim.model[0]))
        assert record["signals"] == record["members"]
        assert sorted(learner.scored[-1][0]) == sorted(record["members"])
        assert learner.scored[-1][1:] == (4.6, None, models[number - 1])
        loss = sim.selector.cohort.column("loss")
        assert all(loss[k] == (k + 1.0) / 2.0 for k in record["members"])
    assert np.isnan(sim.selector.cohort.column("accuracy")).all()
    assert sorted(sim.step()["members"]) == [4, 5]


def test_a_policy_may_want_one_minibatch_only() -> None:
    learner = Scoring()
    sim = simulation(Minibatch(), learner=learner)
    for _ in range(2):
        sim.step()
    assert [number for _, _, number, _ in learner.scored] == [1, 2]


def test_who_is_asked_pays_is_heard_before_the_pick_and_takes_time() -> None:
    table = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]])
    learner = Scoring()
    sim = simulation(Asking(), Signals(kind="bare"), network=Network(Trace(table), 0), share=0.25, learner=learner)
    record = sim.step()
    asked = record["signals"]
    assert len(asked) == 4 and sorted(learner.scored[0][0]) == sorted(asked)
    assert len(learner.scored) == 1  # members do not tell again
    known = sim.selector.cohort.column("loss")
    assert [k for k in range(6) if not math.isnan(known[k])] == sorted(asked)
    assert sim.selector.cohort.column("accuracy")[asked[0]] == 1.0 / (asked[0] + 1.0)
    assert record["asking"] == pytest.approx(0.25 * table[0, asked].max())
    training = table[0, record["members"]].max()
    assert record["latency"] == record["seconds"] == pytest.approx(record["asking"] + training)


def test_who_drops_out_pays_and_is_not_heard() -> None:
    network = Network(two_groups(6), 3, dropout=0.5)
    for policy in (Listening(), Asking()):
        learner = Scoring()
        sim = simulation(policy, network=network, learner=learner)
        paid = [sim.step()["signals"] for _ in range(20)]
        assert sum(map(len, paid)) > sum(len(members) for members, *_ in learner.scored) > 0
        assert sim._charges.tellings.tolist() == np.bincount(np.concatenate(paid), minlength=6).tolist()


@pytest.mark.parametrize("policy", [Listening, Asking])
@pytest.mark.parametrize("kind", ["bit", "noised"])
@pytest.mark.parametrize(
    "mechanism", [Laplace(unit="coordinate", width=1e-3), Gaussian(1.0, 1e-5), Gaussian(1.0, 1e-5, account="zcdp")]
)
def test_leakage_counts_signals_and_stays_within_the_budget(policy: Any, kind: Any, mechanism: Any) -> None:
    schedule, settings = FixedHorizon(8.0, 4), Signals(kind=kind, share=0.3, releases=3)
    sim = simulation(policy(), settings, schedule, mechanism=mechanism)
    records = list(sim.play(25))
    leaks = [record["max_leakage"] for record in records]
    assert sorted(leaks) == leaks and leaks[-1] <= 8.0
    assert leaks[-1] == pytest.approx(8.0, rel=1e-6)  # four updates and three tellings: all of it
    assert sim._charges.tellings.tolist() == [3] * 6
    picks = np.bincount(records[0]["members"], minlength=6)
    told = np.bincount(records[0]["signals"], minlength=6)
    if mechanism.composition == "sum":
        first = (picks * 0.7 * 8.0 / 4.0 + told * 0.3 * 8.0 / 3.0).max()
        assert leaks[0] == pytest.approx(first, rel=1e-6)
    said = sim.guarantee()
    assert "epsilon = 8 per" in said and "signals are included: up to 3 tellings per client" in said


def test_a_signal_paid_in_rho_has_the_epsilon_that_its_rho_allows() -> None:
    mechanism = Gaussian(1.0, 1e-5, account="zcdp")
    sim = simulation(Listening(), Signals(share=0.5, releases=10), FixedHorizon(2.0, 5), mechanism=mechanism)
    epsilon = sim._charges.charge_signals(np.array([0]))[0]
    assert epsilon == pytest.approx(math.sqrt(2.0 * zcdp_within(2.0, 1e-5) * 0.5 / 10))


def test_when_the_share_is_used_up_the_last_word_stays() -> None:
    sim = simulation(Listening(), Signals(releases=2), learner=Scoring())
    words: dict[int, list[float]] = {k: [] for k in range(6)}
    for _ in range(30):
        record = sim.step()
        for client in record["members"]:
            words[client].append(float(sim.selector.cohort.column("loss")[client]))
            assert (client in record["signals"]) == (len(words[client]) <= 2)
    often = max(words.values(), key=len)
    assert len(often) > 4 and len(set(often[1:])) == 1


def test_bare_signals_cost_nothing_and_are_told_to_be_bare() -> None:
    sim = simulation(Listening(), Signals(kind="bare"))
    record = sim.step()
    assert record["max_leakage"] == Geometric(10.0, 0.1).epsilon(1)
    assert "un-noised losses are told besides, which it does not cover" in sim.guarantee()


def test_policies_without_signals_have_the_whole_budget_and_the_same_run() -> None:
    schedule, network, mechanism = Geometric(10.0, 0.1), Network(two_groups(6), seed=1), Laplace("coordinate", 1e-3)
    runs = []
    for more in ({}, {"signals": SignalTerms(Signals(), Signals().parts(schedule)[1], 10.0)}):
        selector = Selector(np.ones(6), 2, "pause", tau_min=0.05, schedule=schedule)
        sim = Simulation(selector, network, learner=Scoring(), mechanism=mechanism, **more)
        runs.append((list(sim.play(6)), sim.model.tolist(), sim.guarantee()))
    assert runs[0] == runs[1]
    assert runs[0][0][0]["max_leakage"] == schedule.epsilon(1)


def test_without_privacy_signals_are_told_as_they_are() -> None:
    selector = Selector(np.ones(6), 2, Listening(), tau_min=0.05)
    sim = Simulation(selector, Network(two_groups(6), seed=1), learner=Scoring())
    record = sim.step()
    assert record["max_leakage"] is None
    assert all(selector.cohort.column("loss")[k] == (k + 1.0) / 2.0 for k in record["members"])


def test_protected_updates_beside_signals_on_no_terms_are_refused() -> None:
    selector = Selector(np.ones(6), 2, Listening(), tau_min=0.05)
    with pytest.raises(InvalidValueError, match="'listening' hears signals"):
        Simulation(selector, Network(two_groups(6), seed=1), learner=Scoring(), mechanism=Laplace("coordinate", 1e-3))
    with pytest.raises(InvalidValueError, match="'bare' without a schedule"):
        SignalTerms(Signals(), None, 10.0)


@pytest.mark.parametrize("policy", [Listening, Asking])
def test_a_resumed_run_tells_the_same(policy: Any) -> None:
    def fresh() -> Simulation:
        return simulation(policy(), Signals(releases=3), network=Network(two_groups(6), 1, dropout=0.2))

    straight, broken = fresh(), fresh()
    wanted = [straight.step() for _ in range(12)]
    got = [broken.step() for _ in range(5)]
    again = fresh()
    again.restore(*broken.state())
    assert got + [again.step() for _ in range(7)] == wanted
    np.testing.assert_array_equal(again.selector.cohort.column("loss"), straight.selector.cohort.column("loss"))
    assert again._charges.tellings.tolist() == straight._charges.tellings.tolist()


def test_without_training_tellings_cost_budget_and_time_and_nothing_is_heard() -> None:
    schedule, settings = FixedHorizon(8.0, 4), Signals(share=0.25, releases=2)
    updates, part = settings.parts(schedule)
    selector = Selector(np.ones(6), 2, Asking(), tau_min=0.05, schedule=updates)
    terms = SignalTerms(settings, part, 8.0)
    sim = Simulation(selector, Network(two_groups(6), seed=1), signals=terms)
    record = sim.step()
    assert record["asking"] > 0.0 and np.isnan(selector.cohort.column("loss")).all()
    assert record["max_leakage"] == pytest.approx(8.0 * (0.75 / 4 + 0.25 / 2))
