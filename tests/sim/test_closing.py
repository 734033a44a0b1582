"""Rounds that are closed early: first n of m, deadlines that are learned, late answers, and what is wasted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Geometric, Laplace
from pausefl.selection import Candidates, Policy
from pausefl.selector import Selector
from pausefl.selector.deadline import Deadline
from pausefl.sim.closing import Closing, closed
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import Trace, two_groups
from pausefl.sim.learner import ClientScores, Scores
from pausefl.sim.network import Network, Outcome

TABLE = np.array([[0.1, 0.2, 0.3, 0.4, 1.05, 2.25]])


class First(Policy):
    """The first m candidates, whose losses it hears."""

    name, needs = "first", frozenset({"loss"})

    def pick(self, candidates: Candidates) -> Any:
        return list(range(candidates.m))


class Counting:
    """A learner whose update is the client's number plus one, in every coordinate."""

    def __init__(self) -> None:
        self.trained: list[list[int]] = []

    def initial(self) -> np.ndarray:
        return np.zeros(3, dtype=np.float32)

    def train(self, model: np.ndarray, members: np.ndarray, number: int) -> np.ndarray:
        self.trained.append(members.tolist())
        return np.repeat((members + 1.0)[:, None], 3, axis=1).astype(np.float32)

    def evaluate(self, model: np.ndarray) -> Scores:
        return Scores(float(model[0]), 0.0)

    def client_scores(self, model: np.ndarray, members: np.ndarray, bound: float, number: Any = None) -> ClientScores:
        return ClientScores((members + 1.0) / 2.0, np.zeros(len(members)), np.full(len(members), 10))

    def state(self) -> dict:
        return {}

    def restore(self, state: dict) -> None:
        pass


def simulation(closing: Closing, policy: Any = "all", per_round: int = 2, network: Any = None, **more: Any) -> Any:
    selector = Selector(np.ones(6), per_round, policy, tau_min=0.05, schedule=Geometric(10.0, 0.1))
    return Simulation(selector, network or Network(Trace(TABLE), 0), closing=closing, **more)


def test_the_first_n_of_m_close_a_round_at_the_nth_answer() -> None:
    network = Network(two_groups(6), seed=3)
    sim = simulation(Closing(over_select=2.0), "random", network=network)
    record = sim.step()
    assert len(record["members"]) == 4  # everybody pays
    assert sim.selector.cohort.picks.sum() == sim.selector.cohort.releases.sum() == 4
    latency = np.sort(network.play(np.array(record["members"]), 1).latency)
    assert record["latency"] == record["seconds"] == latency[1]
    assert (record["arrived"], record["wasted"]) == (2, 2)


def test_nothing_changes_where_nobody_is_late() -> None:
    wanted = simulation(Closing(), "pause")
    found = simulation(Closing(close_after=2, late="use"), "pause")
    assert [found.step() for _ in range(9)] == [wanted.step() for _ in range(9)]


def test_who_is_out_is_no_candidate_until_its_answer_is_there_and_is_timed_truly() -> None:
    sim = simulation(Closing(close_after=4))
    records = [sim.step() for _ in range(4)]
    assert [len(record["members"]) for record in records] == [6, 4, 4, 5]
    assert records[3]["members"] == [0, 1, 2, 3, 4]
    assert [record["seconds"] for record in records] == pytest.approx([0.4, 0.8, 1.2, 1.6])
    assert [record.get("wasted", 0) for record in records] == [2, 0, 0, 1]
    cohort = sim.selector.cohort
    assert cohort.seconds[:4].tolist() == pytest.approx(TABLE[0, :4].tolist())
    assert cohort.seconds[4] == pytest.approx(1.05) and cohort.timings.tolist() == [4, 4, 4, 4, 1, 0]


def test_being_late_is_no_advantage() -> None:
    """Slow clients that are never waited for end up with the means that they would have if they were."""
    kept, early = (simulation(Closing(close_after=n), "pause", 3) for n in (None, 1))
    for sim in (kept, early):
        for _ in range(60):
            sim.step()
        timed = sim.selector.cohort.timings > 0
        assert sim.selector.cohort.seconds[timed] == pytest.approx(TABLE[0, timed])


def test_if_everybody_is_out_the_clock_goes_on_to_the_first_answer() -> None:
    selector = Selector(np.ones(3), 3, "all", tau_min=0.05, schedule=FixedHorizon(8.0, 1))
    network = Network(Trace(np.array([[1.0, 3.0, 4.0]])), 0)
    sim = Simulation(selector, network, closing=Closing(close_after=1, late="use"), learner=Counting())
    first, second, third, fourth = (sim.step() for _ in range(4))
    assert (first["members"], first["arrived"], first["seconds"]) == ([0, 1, 2], 1, 1.0)
    assert (second["members"], second["seconds"], second["latency"], second["late"]) == ([], 3.0, 2.0, 1)
    assert second["accuracy"] == 1.0 + 2.0  # the update of the second client, alone
    assert (third["seconds"], third["accuracy"]) == (4.0, 1.0 + 2.0 + 3.0)
    assert (fourth["members"], fourth["seconds"]) == ([], 4.0)


def test_a_deadline_never_closes_a_round_before_its_first_answer() -> None:
    sim = simulation(Closing(deadline_quantile=0.1, deadline_slack=1.0))
    sim._deadline.learn([0.01] * 50)
    record = sim.step()
    assert (record["arrived"], record["seconds"]) == (1, 0.1)


def test_late_updates_are_used_when_they_arrive_and_weigh_less_the_staler_they_are() -> None:
    learner = Counting()
    sim = simulation(Closing(close_after=4, late="use"), learner=learner)
    models, records = [0.0], []
    for _ in range(3):
        records.append(sim.step())
        models.append(float(sim.model[0]))
    assert learner.trained == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert models[1] == pytest.approx(2.5) and models[2] - models[1] == pytest.approx(2.5)
    # Client 4 answers after 1.05 seconds, in round 3: two rounds late, a third of its weight.
    assert models[3] - models[2] == pytest.approx((1 + 2 + 3 + 4 + 5 / 3) / (4 + 1 / 3))
    assert [record.get("late", 0) for record in records] == [0, 0, 1]
    assert not any("wasted" in record for record in records)


def test_lost_answers_are_not_trained_and_counted_as_wasted_if_they_were_paid() -> None:
    learner, mechanism = Counting(), Laplace(unit="coordinate", width=1e-3)
    sim = simulation(Closing(close_after=4), learner=learner, mechanism=mechanism)
    assert sim.step()["wasted"] == 2 and learner.trained == [[0, 1, 2, 3]]
    assert "wasted" not in simulation(Closing(close_after=4), learner=Counting()).step()  # nobody paid
    dropping = simulation(
        Closing(), network=Network(Trace(TABLE), 3, dropout=0.5), learner=Counting(), mechanism=mechanism
    )
    record = dropping.step()
    assert record["wasted"] == 6 - record["arrived"] > 0


def test_late_signals_are_heard_when_they_arrive() -> None:
    sim = simulation(Closing(close_after=4, late="use"), First(), 6, learner=Counting())
    heard = []
    for _ in range(3):
        sim.step()
        heard.append(np.flatnonzero(~np.isnan(sim.selector.cohort.column("loss"))).tolist())
    assert heard == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    lost = simulation(Closing(close_after=4), First(), 6, learner=Counting())
    for _ in range(3):
        lost.step()
    assert np.isnan(lost.selector.cohort.column("loss"))[4]


@pytest.mark.parametrize("late", ["waste", "use"])
@pytest.mark.parametrize("policy", ["all", "pause", First()])
def test_a_resumed_run_goes_on_to_the_bit(late: Any, policy: Any) -> None:
    def fresh() -> Simulation:
        closing = Closing(over_select=1.5, close_after=2, deadline_quantile=0.6, deadline_slack=1.2, late=late)
        network = Network(two_groups(6), 1, dropout=0.1)
        more = {} if isinstance(policy, First) else {"mechanism": Laplace(unit="coordinate", width=1e-3)}
        return simulation(closing, policy, 3, network, learner=Counting(), **more)

    straight, broken = fresh(), fresh()
    wanted = [straight.step() for _ in range(14)]
    got = [broken.step() for _ in range(6)]
    header, arrays = broken.state()
    assert "late.rows" in arrays
    again = fresh()
    again.restore(header, arrays)
    assert got + [again.step() for _ in range(8)] == wanted
    np.testing.assert_array_equal(again.model, straight.model)


def test_no_client_pays_beyond_its_horizon_by_being_asked_in_vain() -> None:
    selector = Selector(np.ones(6), 2, "random", tau_min=0.05, schedule=FixedHorizon(8.0, 3))
    mechanism = Laplace(unit="coordinate", width=1e-3)
    closing = Closing(over_select=3.0, close_after=1, late="use")
    sim = Simulation(selector, Network(two_groups(6), 1), closing=closing, learner=Counting(), mechanism=mechanism)
    records = [sim.step() for _ in range(40)]
    assert selector.cohort.picks.max() <= 3 and records[-1]["max_leakage"] <= 8.0


def test_a_deadline_is_learned_from_all_answers_and_does_not_creep_down() -> None:
    deadline = Deadline(quantile=0.5, slack=1.0)
    deadline.learn([1.0] * 4)
    assert deadline.seconds is None
    deadline.learn([1.0] * 5 + [3.0] * 8)
    assert deadline.seconds == 1.0
    deadline.learn([3.0] * 500)
    assert deadline.seconds == 3.0
    sim = simulation(Closing(deadline_quantile=0.5, deadline_slack=1.0), "all", 6, Network(two_groups(6), 1))
    for _ in range(300):
        sim.step()
    true = np.concatenate([Network(two_groups(6), 2).play(np.arange(6), n).latency for n in range(1, 300)])
    # Slow clients answer less often, so the median is that of the fast ones rather than of all; it does not fall to 0.
    assert np.quantile(true, 0.2) < sim._deadline.seconds <= np.quantile(true, 0.6)


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"over_select": 0.9}, {"close_after": 0}, {"late": "sell"}):
        with pytest.raises(InvalidValueError):
            Closing(**wrong)
    for quantile, slack in ((0.0, 1.5), (1.1, 1.5), (0.5, 0.9)):
        with pytest.raises(InvalidValueError):
            Deadline(quantile, slack)


def test_congestion_is_added_to_a_round_that_is_closed_early() -> None:
    outcome = Outcome(np.array([0.1, 0.2, 0.9]), np.ones(3, dtype=bool), 0.9 + 0.5)
    ended, out = closed(outcome, 2, None, added=0.5)
    assert ended.seconds == pytest.approx(0.2 + 0.5) and out.tolist() == [False, False, True]
    assert closed(outcome, 3, 5.0, added=0.5)[0] is outcome
    assert closed(outcome, 2, 0.15, added=0.5)[0].seconds == pytest.approx(0.15 + 0.5)
    clusters = np.array([0, 0, 0, 1, 1, 1])
    sim = simulation(Closing(close_after=2), network=Network(Trace(TABLE), 0, clusters=clusters, congestion=0.25))
    assert sim.step()["latency"] == pytest.approx(0.2 + 4 * 0.25)


def test_enough_answers_close_a_round_in_which_one_is_waited_for_in_vain() -> None:
    silent = Outcome(np.array([0.1, 0.2, np.nan]), np.array([True, True, False]), 9.0)
    ended, out = closed(silent, 2, None)
    assert (ended.seconds, ended.arrived.sum(), out.sum()) == (0.2, 2, 0)
    assert closed(silent, 3, None)[0].seconds == 9.0
    assert closed(silent, 3, 1.5)[0].seconds == 1.5
