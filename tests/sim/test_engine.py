"""The loop: clocks, charges, deadlines, dropouts; a small learner that is easy to follow."""

import math
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, Mechanism, Schedule
from pausefl.privacy.aggregation import Aggregation
from pausefl.privacy.zcdp import zcdp_epsilon, zcdp_within
from pausefl.selection import Fastest
from pausefl.selector import Selector
from pausefl.sim.availability import AvailabilityTrace, Bernoulli, OnOff
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import Quantile, Trace, two_groups
from pausefl.sim.learner import RecordNoise, Scores
from pausefl.sim.network import Network


class Counting:
    """A learner whose update is the client's number plus one, in every coordinate."""

    def __init__(self) -> None:
        self.trained: list[tuple[int, list[int]]] = []

    def initial(self) -> np.ndarray:
        return np.zeros(3, dtype=np.float32)

    def train(self, model: np.ndarray, members: np.ndarray, number: int) -> np.ndarray:
        self.trained.append((number, members.tolist()))
        return np.repeat((members + 1.0)[:, None], 3, axis=1).astype(np.float32)

    def announce(self, model: np.ndarray) -> None:
        pass

    def train_and_score(self, model: np.ndarray, members: np.ndarray, number: int) -> tuple[np.ndarray, Future]:
        scores: Future = Future()
        scores.set_result(self.evaluate(model))
        return self.train(model, members, number), scores

    def evaluate(self, model: np.ndarray) -> Scores:
        return Scores(float(model[0]), 0.0)

    def client_accuracies(self, model: np.ndarray) -> np.ndarray:
        return np.zeros(6)

    def state(self) -> dict:
        return {}

    def restore(self, state: dict) -> None:
        pass

    def close(self) -> None:
        pass


def simulation(
    network: Network | None = None, policy: str = "pause", sizes: object = None,
    schedule: Schedule = Geometric(10.0, 0.1), **more: object,  # noqa: B008 - frozen
) -> Simulation:  # fmt: skip
    selector = Selector(np.ones(6) if sizes is None else sizes, 2, policy, tau_min=0.05, schedule=schedule)
    return Simulation(selector, network or Network(two_groups(6), seed=1), **more)


def test_the_clock_adds_up_the_slowest_members() -> None:
    network = Network(two_groups(6), seed=1)
    sim = simulation(network)
    total = 0.0
    for number in range(1, 20):
        record = sim.step()
        latency = network.play(np.array(record["members"]), number)
        total += latency.latency.max()
        assert record["latency"] == pytest.approx(latency.latency.max())
        assert record["seconds"] == pytest.approx(total)
        assert record["round"] == number


def test_a_rehearsal_takes_time_and_costs_nothing() -> None:
    network = Network(two_groups(6), seed=1, dropout=0.4)
    learner = Counting()
    sim = simulation(network, learner=learner, rehearsal=True)
    record = sim.step()
    everybody = network.play(np.arange(6), 0)
    known = ~np.isnan(everybody.latency)
    assert 0 < known.sum() < 6
    assert record["rehearsal"] == everybody.seconds == everybody.latency[known].max()
    assert record["seconds"] == everybody.seconds + record["latency"]
    assert record["latency"] == network.play(np.array(record["members"]), 1).seconds
    assert not known[record["members"]].all()  # who did not answer is still unknown, and comes first
    assert learner.trained == [(1, [k for k in record["members"] if network.play(np.array([k]), 1).arrived[0]])]
    cohort = sim.selector.cohort
    assert cohort.picks.sum() == cohort.releases.sum() == 2
    assert (cohort.timings - cohort.picks == known).all()
    assert "rehearsal" not in sim.step()


def test_only_those_who_are_there_rehearse_and_the_deadline_ends_it() -> None:
    table = np.array([[0.1, 0.2, 0.3, 0.9, 0.9, 0.9]])
    there = AvailabilityTrace(np.array([[True, False, True, True, False, True]]))
    sim = simulation(Network(Trace(table), 0, there, deadline=0.5), rehearsal=True)
    record = sim.step()
    assert record["rehearsal"] == 0.5
    assert sorted(record["members"]) == [0, 2]
    rates = [1 / 0.1, 0.0, 1 / 0.3, 1 / 0.5, 0.0, 1 / 0.5]
    assert sim.selector.cohort.rate.tolist() == pytest.approx(rates)
    assert sim.selector.cohort.timings.tolist() == [2, 0, 2, 1, 0, 1]


def test_a_rehearsal_is_not_repeated_after_a_resume() -> None:
    straight, broken = (simulation(rehearsal=True) for _ in range(2))
    wanted = [straight.step() for _ in range(6)]
    got = [broken.step() for _ in range(2)]
    again = simulation(rehearsal=True)
    again.restore(*broken.state())
    assert got + [again.step() for _ in range(4)] == wanted


@pytest.mark.parametrize("policy", ["pause", "random"])
def test_a_rehearsal_changes_nothing_but_what_is_known(policy: str) -> None:
    with_it, without = (list(simulation(policy=policy, rehearsal=told).play(9)) for told in (True, False))
    for one, other in zip(with_it, without, strict=True):
        same = one["members"] == other["members"]
        assert same or policy == "pause"
        if same:
            assert one["latency"] == other["latency"]
    if policy == "random":
        took = with_it[0]["rehearsal"]
        assert [one["seconds"] - took for one in with_it] == pytest.approx([one["seconds"] for one in without])


def test_with_a_rehearsal_few_releases_are_spent_almost_as_fast_as_by_an_oracle() -> None:
    """300 clients with two releases each: fixed seeds, so no chance of a false alarm."""
    spent: dict[str, list[float]] = {}
    for seed in (0, 1):
        network = Network(two_groups(300), seed)
        for policy, rehearsed in (("pause", True), ("pause", False), (Fastest(network.latency.expected()), False)):
            selector = Selector(
                np.ones(300), 15, policy, schedule=FixedHorizon(10.0, 2), tau_min=0.05, seed=seed
            )  # fmt: skip
            records = list(Simulation(selector, network, rehearsal=rehearsed).play(40))
            assert selector.cohort.picks.tolist() == [2] * 300
            spent.setdefault(f"{selector.policy.name} {rehearsed}", []).append(records[-1]["seconds"])
    told, untold, oracle = (np.mean(spent[name]) for name in ("pause True", "pause False", "fastest False"))
    assert told <= 1.1 * oracle
    assert untold > 1.2 * told


def test_aggregation_weighs_by_data() -> None:
    learner = Counting()
    sim = simulation(learner=learner, policy="all", sizes=np.array([1.0, 1, 1, 1, 1, 5]))
    record = sim.step()
    assert record["accuracy"] == pytest.approx((1 + 2 + 3 + 4 + 5 + 5 * 6) / 10)
    assert record["max_leakage"] is None


def test_draws_with_replacement_bring_their_own_weights() -> None:
    sizes = np.array([50.0, 1, 1, 1, 1, 1])
    sim = simulation(learner=Counting(), policy="clustered", sizes=sizes)
    record = sim.step()
    assert record["members"] == [0]  # drawn twice, trained once, weight 1
    assert record["accuracy"] == pytest.approx(1.0)


def test_late_clients_are_left_out_observed_at_the_deadline_and_charged() -> None:
    table = np.array([[0.1, 0.2, 0.9, 0.9, 0.9, 0.9]])
    learner = Counting()
    mechanism = Laplace(unit="coordinate", width=1e-3)
    sim = simulation(Network(Trace(table), 0, deadline=0.5), "all", learner=learner, mechanism=mechanism)
    record = sim.step()
    assert learner.trained == [(1, [0, 1])]
    assert record["latency"] == 0.5
    assert record["arrived"] == 2
    assert sim.selector.cohort.picks.tolist() == [1] * 6
    assert sim.selector.cohort.rate[2] == pytest.approx(1 / 0.5)
    assert record["max_leakage"] == pytest.approx(Geometric(10.0, 0.1).epsilon(1))


def test_dropped_clients_do_not_answer_and_are_charged() -> None:
    learner = Counting()
    sim = simulation(Network(two_groups(6), 3, dropout=0.5), "all", learner=learner)
    records = [sim.step() for _ in range(40)]
    asked = sum(len(r["members"]) for r in records)  # those who were silent wait
    assert 60 < asked < 240
    assert 0.3 < sum(r["arrived"] for r in records) / asked < 0.7  # 100 coin flips: four standard deviations are 0.2
    assert sim.selector.cohort.picks.sum() == asked
    assert sum(len(members) for _, members in learner.trained) == sum(r["arrived"] for r in records)


def test_similarity_policies_see_what_the_server_receives() -> None:
    sim = simulation(policy="clustered-similarity", learner=Counting())
    record = sim.step()
    seen = sim.selector.policy.sketches
    assert set(seen) == set(record["members"])
    assert all(seen[k][0] == k + 1 for k in seen)


@pytest.mark.parametrize("pause_every", [1, 3, 100])
@pytest.mark.parametrize("rate", [1.0, 0.3, 0.05])
def test_scoring_while_training_changes_no_record(pause_every: int, rate: float) -> None:
    def fresh() -> Simulation:
        network = Network(two_groups(6), 1, availability=Bernoulli(rate), dropout=0.3)
        return simulation(network, learner=Counting(), evaluate_every=2)

    straight = fresh()
    wanted = [straight.step() for _ in range(11)]
    played = list(fresh().play(11, pause_every))
    assert [r["round"] for r in played] == list(range(1, 12))
    for a, b in zip(played, wanted, strict=True):
        assert ("accuracy" in a) == (a["round"] % 2 == 0 or a["round"] == 11)
        assert a == {k: v for k, v in b.items() if k in a}


def test_congestion_lengthens_rounds() -> None:
    clusters = np.array([0, 0, 0, 1, 1, 1])
    free, crowded = (
        simulation(Network(two_groups(6), 1, clusters=clusters, congestion=delay), "all").step()["latency"]
        for delay in (0.0, 0.25)
    )
    assert crowded - free == pytest.approx(4 * 0.25)


def test_only_those_online_are_picked_and_rounds_shrink() -> None:
    online = AvailabilityTrace(np.array([[True, False, False, False, False, False]]))
    sim = simulation(Network(two_groups(6), 1, availability=online))
    assert sim.step()["members"] == [0]
    nobody = AvailabilityTrace(np.zeros((1, 6), dtype=bool))
    record = simulation(Network(two_groups(6), 1, availability=nobody)).step()
    assert record["members"] == []
    assert record["seconds"] == 0.0


def test_long_run_availability() -> None:
    rng = np.random.default_rng(0)
    state = np.ones(4000, dtype=bool)
    chain = OnOff(leave=0.2, back=0.3)
    for number in range(60):
        state = chain.step(state, rng, number)
    assert state.mean() == pytest.approx(0.6, abs=0.04)  # five standard errors
    assert Bernoulli(0.25).step(state, rng, 60).mean() == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("family", ["lognormal", "exponential", "pareto"])
def test_latency_families_have_the_means_they_say(family: str) -> None:
    model = Quantile(family, np.full(50, 0.4), spread=0.3, floor=0.2)
    rng = np.random.default_rng(0)
    drawn = np.stack([model.sample(rng) for _ in range(4000)])
    assert drawn.min() >= 0.2
    slack = 0.01 if family != "pareto" else 0.02
    assert drawn.mean() == pytest.approx(0.4, abs=slack)
    assert (0.2 / drawn).mean() == pytest.approx(model.mean_speed(0.2).mean(), abs=0.005)


def test_a_client_whose_epsilon_has_faded_releases_nothing() -> None:
    mechanism = Laplace(unit="coordinate", width=1e-3)
    sim = simulation(policy="all", schedule=Geometric(10.0, 5.0), learner=Counting(), mechanism=mechanism)
    models = []
    for _ in range(8):
        sim.step()
        models.append(sim.model.copy())
    assert not (models[0] == models[1]).all()
    assert (models[-1] == models[-2]).all()  # e^(-40) is below what any mechanism accepts


def test_a_client_at_the_limit_of_delta_releases_nothing() -> None:
    """As in a real ledger: of releases with a delta of 3e-4 the limit of 1e-3 allows three."""
    mechanism = Gaussian(l2=1.0, delta=3e-4)
    sim = simulation(policy="all", schedule=FixedHorizon(40.0, 20), learner=Counting(), mechanism=mechanism)
    models, deltas = [sim.model.copy()], []
    for _ in range(6):
        deltas.append(sim.step()["max_delta"])
        models.append(sim.model.copy())
    moved = [not np.array_equal(new, old) for old, new in pairwise(models)]
    assert moved == [True] * 3 + [False] * 3
    assert deltas == pytest.approx([3e-4, 6e-4, 9e-4, 9e-4, 9e-4, 9e-4])
    assert "delta = 0.0009 after 3 releases, and its limit allows no more" in sim.guarantee()


def test_an_epsilon_that_the_mechanism_cannot_use_is_refused() -> None:
    sim = simulation(schedule=FixedHorizon(1e7, 1), learner=Counting(), mechanism=Laplace(unit="update", l1=1.0))
    with pytest.raises(InvalidValueError, match="at most 1e\\+06 for laplace"):
        sim.step()


def test_clients_at_the_end_of_their_schedule_are_not_asked_again() -> None:
    sim = simulation(schedule=FixedHorizon(8.0, 2))
    members = [sim.step()["members"] for _ in range(8)]
    assert [len(one) for one in members] == [2] * 6 + [0] * 2
    assert sim.selector.cohort.picks.tolist() == [2] * 6


def test_a_schedule_that_cannot_charge_is_refused() -> None:
    class Estimate:
        budget, limit = 1.0, None

        def spent(self, plays: object) -> np.ndarray:
            return np.zeros(np.shape(plays))

    selector = Selector(np.ones(6), 2, schedule=Estimate())
    with pytest.raises(InvalidValueError, match="must be a Schedule"):
        Simulation(selector, Network(two_groups(6), seed=1), mechanism=Laplace(unit="update", l1=1.0))


def test_noise_has_the_scale_of_the_schedule() -> None:
    class Still(Counting):
        def initial(self) -> np.ndarray:
            return np.zeros(20_000, dtype=np.float32)

        def train(self, model: np.ndarray, members: np.ndarray, number: int) -> np.ndarray:
            return np.zeros((len(members), 20_000), dtype=np.float32)

    selector = Selector(np.ones(1), 1, "all", schedule=FixedHorizon(8.0, 4))
    network = Network(Trace(np.array([[0.1]])), 0)
    sim = Simulation(selector, network, learner=Still(), mechanism=Laplace(unit="coordinate", width=0.5))
    sim.step()
    # The standard deviation of Laplace(b) is sqrt(2) b; relative error of 20,000 draws: 5 standard errors are 4 %.
    assert sim.model.std() == pytest.approx(math.sqrt(2) * 0.5 / 2.0, rel=0.04)
    assert "simulated noise, not private" in sim.guarantee()


def test_matched_aggregation_never_forgets_what_plain_averaging_loses_in_noise() -> None:
    """One client that releases for ever, ever noisier: the plain model ends far off, the matched one does not."""

    class Pulled(Counting):
        """Training pulls every coordinate towards 1, by at most a tenth."""

        def initial(self) -> np.ndarray:
            return np.zeros(200, dtype=np.float32)

        def train(self, model: np.ndarray, members: np.ndarray, number: int) -> np.ndarray:
            return np.repeat(np.clip(1.0 - model, -0.1, 0.1)[None, :], len(members), axis=0).astype(np.float32)

    def off(rule: str, rounds: int) -> float:
        selector = Selector(np.ones(2), 1, "all", schedule=Geometric(budget=200.0, decay=0.04))
        sim = Simulation(
            selector, Network(two_groups(2), 0), learner=Pulled(), mechanism=Laplace(unit="coordinate", width=0.2),
            aggregation=Aggregation(rule, average=0.97),
        )  # fmt: skip
        for _ in range(rounds):
            sim.step()
        return float(np.sqrt(np.mean((sim.scored - 1.0) ** 2)))

    assert off("plain", 250) > 100.0
    assert off("matched", 250) < 2.0


def test_a_mechanism_that_does_not_state_its_noise_is_aggregated_plainly() -> None:
    class Quiet(Laplace):
        def noise_to_signal(self, dimension: int, epsilon: float) -> float:
            return math.nan

    def end(mechanism: Mechanism, rule: str) -> list[float]:
        sim = simulation(learner=Counting(), mechanism=mechanism, aggregation=Aggregation(rule), policy="random")
        for _ in range(5):
            sim.step()
        return sim.model.tolist()

    stated, unstated = Laplace(unit="coordinate", width=1.0), Quiet(unit="coordinate", width=1.0)
    assert end(unstated, "matched") == end(unstated, "plain") == end(stated, "plain")
    assert end(stated, "matched") != end(stated, "plain")


class Protecting(Counting):
    """A learner that notes how it was told to protect single records, and makes two passes in four steps."""

    passes = 2

    def __init__(self) -> None:
        super().__init__()
        self.told: list[RecordNoise] = []

    def steps(self, client: int) -> int:
        return 4

    def train(self, model: np.ndarray, members: np.ndarray, number: int, records: object = None) -> np.ndarray:
        assert isinstance(records, RecordNoise)
        self.told.append(records)
        return super().train(model, members, number)

    def train_and_score(
        self, model: np.ndarray, members: np.ndarray, number: int, records: object = None
    ) -> tuple[np.ndarray, Future]:
        scores: Future = Future()
        scores.set_result(self.evaluate(model))
        return self.train(model, members, number, records), scores


def test_records_are_noised_by_what_their_release_costs_and_never_beyond_the_budget() -> None:
    mechanism, schedule = Gaussian(l2=0.5, delta=1e-5, unit="record"), FixedHorizon(1.0, 3)
    learner = Protecting()
    sim = simulation(learner=learner, mechanism=mechanism, schedule=schedule, sizes=np.full(6, 100.0))
    records = list(sim.play(12))
    worth = zcdp_within(1.0, 1e-5)
    alone = zcdp_epsilon(worth / 3.0, 1e-5)
    assert len(learner.told) == 9  # six clients, three releases each, two per round; then nobody has anything left
    for told in learner.told:
        assert told.clip == 0.5
        np.testing.assert_allclose(told.deviations, mechanism.sigma(alone, passes=2), rtol=1e-6)
    # Two passes at this noise are worth the rho of one release.
    assert 2 * (2.0 * 0.5 / learner.told[0].deviations[0]) ** 2 / 2.0 == pytest.approx(worth / 3.0, rel=1e-6)
    spent = [record["max_leakage"] for record in records]
    assert spent[0] == pytest.approx(alone, rel=1e-6) and spent[-1] == pytest.approx(1.0, rel=1e-6)
    assert max(spent) <= 1.0
    assert {record["max_delta"] for record in records} == {1e-5}
    assert "per record, any one record replaced" in sim.guarantee() and "delta = 1e-05 for life" in sim.guarantee()


def test_the_level_of_noised_records_counts_steps_and_passes() -> None:
    """100 examples, two passes, four steps: batches of 50; their noise adds up in square, their gradients in length."""
    seen: list[Any] = []
    mechanism = Gaussian(l2=0.5, delta=1e-5, unit="record")
    learner = Protecting()
    sim = simulation(
        learner=learner, mechanism=mechanism, schedule=FixedHorizon(1.0, 3), sizes=np.full(6, 100.0),
        aggregation=Aggregation("matched", 1.0, 0.9),
    )  # fmt: skip
    weigh = sim._aggregator.weigh
    sim._aggregator.weigh = lambda plain, levels: (seen.append(levels), weigh(plain, levels))[1]  # type: ignore[method-assign]
    sim.step()
    for level in seen[0]:
        assert level.noise == pytest.approx(4 * 3 * (learner.told[0].deviations[0] / 50.0) ** 2)
        assert level.signal == pytest.approx((4 * 0.5) ** 2)
