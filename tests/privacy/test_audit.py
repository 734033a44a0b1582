"""The audit lets every shipped mechanism pass, comes close to what they do leak, and keeps its confidence.

The simulated source has a fixed seed.  The secure one cannot be seeded, so its tests could fail by chance: a correct
mechanism is accused with a probability of at most ``RARE`` per audit, which is 7 x 10^-8 for all of them.
Nothing is skipped or repeated.  The faults that the audit must find are in ``test_audit_faults.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

from pausefl.privacy import Gaussian, Laplace, PrivUnit, SecureNoise, SimulatedNoise
from pausefl.privacy.audit import audit, bound_for
from pausefl.privacy.audit.bounds import AnyMechanism, GaussianCurve, low_bit
from pausefl.privacy.audit.input_pairs import ROWS, SIZES, bounded, input_pairs
from pausefl.privacy.mechanisms.gaussian import noise_multiplier

MECHANISMS = [
    Laplace(unit="coordinate", width=1.0),
    Laplace(unit="update", l1=1.0),
    Gaussian(l2=1.0, delta=1e-5),
    PrivUnit(l2=1.0),
    PrivUnit(l2=1.0, norm="private"),
    Gaussian(l2=1.0, delta=1e-5, account="zcdp"),
    Gaussian(l2=1.0, delta=1e-5, unit="record"),
]
HARD = MECHANISMS[2], MECHANISMS[4], MECHANISMS[6]
"""Those of whose leak few runs show little."""
EPSILONS = [0.5, 1.5, 4.0]
RARE = 1e-8
every = pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
SECURE = [
    pytest.param(one, marks=[] if number in (0, 4) else pytest.mark.thorough) for number, one in enumerate(MECHANISMS)
]
"""One mechanism whose noise comes from a library, and one whose noise is our own; the others take longer."""


def simulated(seed=0):
    return SimulatedNoise(np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("epsilons", "error", "most"), [([1.5], 0.02, 3), pytest.param(EPSILONS, 0.2, 13, marks=pytest.mark.thorough)]
)
def test_shipped_mechanisms_pass_as_often_as_stated(epsilons, error, most):
    """Of 7 audits at an error of 2 %, or 21 of 20 %, more than ``most`` accuse once in 10^5 such tests."""
    accused = sum(
        not audit(mechanism, epsilon, simulated(seed), runs=400, error=error).passed
        for seed, mechanism in enumerate(MECHANISMS)
        for epsilon in epsilons
    )
    assert accused <= most, accused


@pytest.mark.parametrize("mechanism", SECURE, ids=repr)
def test_shipped_mechanisms_pass_with_secure_noise(mechanism):
    found = audit(mechanism, 1.5, SecureNoise(), runs=2000, error=RARE)
    assert found.private and found.attainable > 2.0, found
    assert found.verdict == "not refuted", found


@pytest.mark.parametrize("epsilon", [1.5, pytest.param(4.0, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(("mechanism", "runs"), [(m, 10_000 if m in HARD else 4000) for m in MECHANISMS], ids=repr)
def test_the_audit_comes_close_to_the_truth(mechanism, runs, epsilon):
    """An audit that never accuses is worthless: it must find most of what a correct mechanism does leak.

    PrivUnit with a noisy norm reaches its epsilon only where both of its parts err together.  It, the Gaussian that is
    paid by its sum, and the one for records, of which most pairs are tried, need more runs: with 4,000 they show 0.40,
    0.56 and 0.57 of their epsilon, and the others 0.71 to 0.95.
    """
    found = audit(mechanism, epsilon, simulated(2), runs=runs if epsilon < 4.0 else 10_000)
    share = 0.5 if mechanism == MECHANISMS[4] else 0.6
    assert share * epsilon < found.lower <= found.claimed and found.verdict == "not refuted", found


def test_simulated_noise_is_betrayed_by_its_low_bits_only():
    """The same seed, the same noise: unnoticed from its values, caught from the last bits."""
    blind, seeing = (audit(MECHANISMS[0], 1.5, simulated(4), runs=10_000, low_bits=bits) for bits in (False, True))
    assert blind.passed
    assert not seeing.passed and "lowest set bit" in seeing.event


def test_too_few_runs_are_inconclusive():
    found = audit(MECHANISMS[0], 4.0, simulated(8), runs=200, error=1e-6)
    assert found.passed and found.attainable == pytest.approx(3.35, abs=0.1)
    assert found.verdict.startswith("inconclusive: at most") and "200 runs; raise --runs" in found.verdict
    assert audit(MECHANISMS[0], 0.5, simulated(8), runs=200, error=1e-6).verdict == "not refuted"


def test_the_same_noise_gives_the_same_finding():
    first, second, other = (audit(MECHANISMS[1], 1.0, simulated(seed), runs=200) for seed in (3, 3, 4))
    assert first == second != other


@every
def test_pairs_are_what_the_unit_allows(mechanism):
    """One coordinate or one record differs; every size is there, and noise that comes again is looked for."""
    rng, unit = np.random.default_rng(0), mechanism.guarantee.unit
    pairs = list(input_pairs(mechanism.guarantee, rng, rng.standard_normal((50, 64))))
    assert {pair.size for pair in pairs} == set(SIZES) and any(pair.before for pair in pairs)
    for pair in pairs:
        differs = pair.first != pair.second
        assert unit == "update" or np.count_nonzero(differs.any(axis=1) if unit == "record" else differs) == 1
        order = {"l1": 1, "l2": 2, "linf": np.inf}[mechanism.guarantee.norm]
        for update in (pair.first, pair.second):
            norm = np.linalg.norm(bounded(update, mechanism.guarantee, pair.count), order)
            assert norm <= mechanism.guarantee.bound * (1.0 + 1e-12)


@pytest.mark.parametrize("count", [1, 5, 12, 1000])
def test_tables_have_no_more_rows_than_the_public_count(count):
    rng, guarantee = np.random.default_rng(0), MECHANISMS[-1].guarantee
    for pair in input_pairs(guarantee, rng, rng.standard_normal((50, 64)), count=count):
        assert len(pair.first) == len(pair.second) == min(count, ROWS) and pair.count == count
        mean = bounded(pair.first, guarantee, count) - bounded(pair.second, guarantee, count)
        assert np.linalg.norm(mean) <= 2.0 * guarantee.bound / count * (1.0 + 1e-12)


def test_what_is_paid_in_rho_is_held_to_its_rho():
    """Noise that is a hundredth too little for its rho is above the claim; that of the mechanism is not."""
    bound, mu = bound_for(MECHANISMS[-1]), 2.0 / MECHANISMS[-1].sigma(1.0)
    assert bound == GaussianCurve(1e-5, in_rho=True) and bound_for(MECHANISMS[2]) == GaussianCurve(1e-5)
    assert bound.epsilon(mu) <= 1.0 < bound.epsilon(1.01 * mu) and bound.epsilon(mu) == pytest.approx(1.0)
    assert bound.epsilon(-1.0) == 0.0


@pytest.mark.parametrize("period", [37, 64, 200])
def test_noise_that_comes_again_is_noticed(period):
    rng = np.random.default_rng(1)
    series = np.resize(rng.standard_normal(period), (50, 64))
    guarantee = MECHANISMS[1].guarantee
    assert any(pair.lag % period == 0 and pair.echo > 0.8 for pair in input_pairs(guarantee, rng, series) if pair.lag)
    independent = rng.standard_normal((50, 64))
    assert sum(pair.lag > 0 for pair in input_pairs(guarantee, rng, independent)) == 1


@pytest.mark.parametrize(("delta", "epsilon"), [(0.0, 1.0), (0.05, 0.8)])
def test_the_bound_keeps_its_confidence(delta, epsilon):
    """Exactly p = e^epsilon q + delta: at most 5 % of bounds may lie above epsilon; 5 sigma of 2000 draws on top."""
    rng, above, bound = np.random.default_rng(5), 0, AnyMechanism(delta)
    q = 0.5 / np.e
    p = np.exp(epsilon) * q + delta
    for _ in range(2000):
        ours = int(rng.binomial(800, 0.5))
        first, second = rng.binomial(ours, p), rng.binomial(800 - ours, q)
        above += float(bound.lower(np.array(first), np.array(second), (ours, 800 - ours), 0.05)) > epsilon
    assert (above > 0 or delta > 0.0) and above < 2000 * 0.05 + 5.0 * np.sqrt(2000 * 0.05 * 0.95)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_gaussian_curve_keeps_its_confidence(epsilon):
    """Exactly Gaussian noise for epsilon, and a threshold in the middle or in the tail."""
    rng, delta = np.random.default_rng(6), 1e-5
    bound, mu = GaussianCurve(delta), 1.0 / noise_multiplier(epsilon, delta)
    for cut in (mu / 2.0, mu / 2.0 + 1.5):
        scores = rng.standard_normal((1000, 2, 400)) + np.array([mu, 0.0])[:, np.newaxis]
        hits = (scores > cut).sum(axis=2)
        lower = bound.lower(hits[:, 0], hits[:, 1], (400, 400), 0.05)
        above = sum(bound.epsilon(float(one)) > epsilon for one in lower)
        assert above < 1000 * 0.05 + 5.0 * np.sqrt(1000 * 0.05 * 0.95)
    assert bound.epsilon(mu) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("bound", [AnyMechanism(0.0), AnyMechanism(0.5), GaussianCurve(1e-5)], ids=repr)
def test_a_bound_from_nothing_is_zero(bound):
    for first, second in ((0, 0), (0, 100), (50, 50), (100, 100)):
        lower = bound.lower(np.array(first), np.array(second), (100, 100), 0.05)
        assert bound.epsilon(float(lower)) == 0.0


def test_low_bits():
    assert low_bit(np.array([1.0, 0.5, 0.75, -6.0, 0.0, 2.0**-1000])).tolist() == [0, -1, -2, 1, 1074, -1000]
