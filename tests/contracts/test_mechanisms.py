"""Laws of every mechanism: it refuses what it cannot protect, never changes its input, and says what it did.

The statistics use fixed seeds for the simulated source.  The secure one cannot be seeded: its bounds are set so that a
correct mechanism fails a test less than once in a million runs.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pausefl.errors import InvalidValueError
from pausefl.privacy import MECHANISMS as REGISTRY
from pausefl.privacy import Gaussian, Laplace, Layers, PrivUnit, SecureNoise, SimulatedNoise

MECHANISMS = [
    Laplace(unit="coordinate", width=2.0),
    Laplace(unit="update", l1=1.0),
    Gaussian(l2=1.0, delta=1e-5),
    PrivUnit(l2=1.0),
    PrivUnit(l2=1.0, norm="private"),
    PrivUnit(l2=1.0, norm="private", norm_share=0.2),
]
assert {type(one) for one in MECHANISMS} == set(REGISTRY.values()), "every mechanism of the registry is tested"
SOURCES = ["simulated", "secure"]
every = pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)


def source(name, seed=0):
    return SecureNoise() if name == "secure" else SimulatedNoise(np.random.default_rng(seed))


@every
@pytest.mark.parametrize(
    "update",
    [
        np.array([1.0, math.nan]),
        np.array([math.inf, 0.0]),
        np.array([-math.inf], dtype=np.float32),
        np.array([1, 2, 3]),
        np.array([True]),
        np.array([1.0], dtype=np.float16),
        np.array([1 + 2j]),
        np.array(["1.0"]),
        np.array([1.0, 2.0], dtype=object),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.array([]),
        np.array(1.0),
        np.ones((2, 2)),
        [1.0, 2.0],
        None,
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}-{value}",
)
def test_what_cannot_be_protected_is_refused(mechanism, update):
    with pytest.raises(InvalidValueError):
        mechanism.release(update, 1.0, source("simulated"))


@every
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e-12, 1e7])
def test_an_epsilon_that_is_none_is_refused(mechanism, epsilon):
    with pytest.raises(InvalidValueError, match="epsilon"):
        mechanism.release(np.ones(3), epsilon, source("simulated"))


MODEL = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2), "bn.running_var": np.ones(2), "bn.weight": np.ones(2)}
LAYERS = Layers.of(MODEL, batch_norm="keep-local")


@every
@pytest.mark.parametrize(
    "change",
    [
        {"stray": np.ones(1)},
        {"w": np.ones((3, 2))},
        {"w": np.ones((2, 3), dtype=np.int64)},
        {"b": np.array([1.0, math.nan])},
        {"b": None},
    ],
    ids=repr,
)
def test_a_tensor_without_a_rule_is_refused(mechanism, change):
    update = {**MODEL, **change}
    with pytest.raises(InvalidValueError):
        mechanism.release(update, 1.0, source("simulated"), layers=LAYERS)
    with pytest.raises(InvalidValueError):
        mechanism.release({key: MODEL[key] for key in ("w", "bn.weight")}, 1.0, source("simulated"), layers=LAYERS)
    with pytest.raises(InvalidValueError, match="layers"):
        mechanism.release(MODEL, 1.0, source("simulated"))


@every
@pytest.mark.parametrize("name", SOURCES)
def test_form_precision_and_input_are_kept(mechanism, name):
    update = {key: value + 0.25 for key, value in MODEL.items()}
    before = {key: value.copy() for key, value in update.items()}
    released = mechanism.release(update, 1.0, source(name), layers=LAYERS)
    assert list(released.update) == ["w", "b"] and released.dimension == 8  # what is local stays
    for key, value in released.update.items():
        assert value.shape == update[key].shape and value.dtype == update[key].dtype
        assert np.isfinite(value).all() and not np.any(value == update[key])
    assert all(np.array_equal(before[key], update[key]) for key in update)


class Copying(np.ndarray):
    """An array whose other shapes are copies: noise added to one of them never reaches it."""

    def reshape(self, *shape, **more):
        return np.array(self).reshape(*shape, **more)

    def ravel(self, *arguments):
        return np.array(self).ravel()


@every
@pytest.mark.parametrize("name", SOURCES)
def test_an_array_of_another_kind_is_noised_all_the_same(mechanism, name):
    bare = np.full(6, 0.1)
    for update, layers in ((bare.view(Copying), None), ({"w": bare.view(Copying)}, Layers({"w": (6,)}))):
        released = mechanism.release(update, 1.0, source(name), layers=layers).update
        released = released if layers is None else released["w"]
        assert type(released) is np.ndarray and not np.any(released == bare)


@every
@pytest.mark.parametrize("name", SOURCES)
def test_whether_numpy_raises_makes_no_difference(mechanism, name):
    """Overflow and underflow depend on the data: an error would tell of it."""
    tiny = 2.0**-1060
    for update in ([0.0, 0.0], [1e200, 1e-200], [5e-324, 0.0], [tiny, 3.0 * tiny], [1e308, 1e308], [1e308, 1e-320]):
        for clip in (None, 1e-310):
            with np.errstate(all="raise"):
                released = mechanism.release(np.array(update), 1.0, source(name), clip=clip).update
                narrow = mechanism.release(np.array([1.0, 1e-40], np.float32), 1.0, source(name), clip=clip).update
            assert np.isfinite(released).all() and np.isfinite(narrow).all()


@every
@pytest.mark.parametrize("name", SOURCES)
def test_every_record_says_whether_it_is_private(mechanism, name):
    record = json.loads(json.dumps(mechanism.release(np.ones(3), 1.5, source(name)).record()))
    assert record["private"] is (name == "secure") and record["source"] == name
    assert ("not private" in record["note"]) is (name == "simulated")
    assert record["unit"] in ("coordinate", "update") and record["adjacency"] == "any two inputs"
    assert record["whole_update_epsilon"] == (4.5 if record["unit"] == "coordinate" else 1.5)
    assert (record["delta"] > 0.0) is isinstance(mechanism, Gaussian)


@every
def test_a_seed_fixes_the_simulated_noise(mechanism):
    one, two, other = (mechanism.release(np.ones(50), 1.0, source("simulated", seed)).update for seed in (3, 3, 4))
    assert np.array_equal(one, two)
    assert np.mean(one == other) < 0.9  # a mechanism of few values repeats some; none repeats (nearly) all


@every
@given(
    update=hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.integers(1, 20),
        elements=st.floats(-(2.0**100), 2.0**100, width=32) | st.sampled_from([0.0, 2.0**-140]),
    ),
    epsilon=st.floats(1e-3, 100.0),
)
@settings(max_examples=40, deadline=None)
def test_any_finite_update_gives_a_finite_release(mechanism, update, epsilon):
    released = mechanism.release(update, min(epsilon, mechanism.most_epsilon), source("simulated")).update
    assert released.shape == update.shape and released.dtype == update.dtype and np.isfinite(released).all()


@every
@pytest.mark.parametrize("size", [1e308, 1e-320])
def test_huge_and_tiny_updates_keep_their_direction(mechanism, size):
    noise, epsilon = source("simulated", 5), min(50.0, mechanism.most_epsilon)
    total = sum(mechanism.release(np.array([size, -size]), epsilon, noise).update for _ in range(50))
    if size > 1.0 or (isinstance(mechanism, PrivUnit) and mechanism.norm == "fixed"):
        assert total[0] > 0.0 > total[1]
    assert np.isfinite(total).all()


def expected(mechanism, update, epsilon):
    """The mean of a release, and its total variance, in closed form."""
    d, l2 = update.size, float(np.linalg.norm(update))
    if isinstance(mechanism, Laplace) and mechanism.unit == "coordinate":
        return np.clip(update, -1.0, 1.0), d * 2.0 * (2.0 / epsilon) ** 2
    if isinstance(mechanism, Laplace):
        return update / max(1.0, float(np.abs(update).sum())), d * 2.0 * (2.0 / epsilon) ** 2
    if isinstance(mechanism, Gaussian):
        return update / max(1.0, l2), d * mechanism.sigma(epsilon) ** 2
    length = 1.0 if mechanism.norm == "fixed" else min(l2, 1.0)
    return update / l2 * length, mechanism.error(d, epsilon, length)


@every
@pytest.mark.parametrize("epsilon", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("update", [np.array([3.0, -1.0, 0.5]), np.array([0.3, -0.1, 0.05])], ids=["clipped", "inside"])
def test_mean_and_variance_against_theory(mechanism, epsilon, update):
    """4000 seeded releases; 5 standard errors would fail a correct mechanism once in 1.7 million fresh seeds."""
    runs, noise = 4000, source("simulated", 11)
    released = np.array([mechanism.release(update, epsilon, noise).update for _ in range(runs)])
    mean, variance = expected(mechanism, update, epsilon)
    assert np.all(np.abs(released.mean(0) - mean) < 5.0 * released.std(0) / math.sqrt(runs))
    squares = ((released - mean) ** 2).sum(1)
    assert abs(squares.mean() - variance) < 5.0 * squares.std() / math.sqrt(runs)


@every
def test_mean_and_variance_of_the_secure_source(mechanism):
    """800 releases with fresh randomness; 6 standard errors: one false alarm in 10^8 per coordinate."""
    runs, update = 800, np.array([3.0, -1.0, 0.5])
    released = np.array([mechanism.release(update, 1.5, SecureNoise()).update for _ in range(runs)])
    mean, variance = expected(mechanism, update, 1.5)
    assert np.all(np.abs(released.mean(0) - mean) < 6.0 * released.std(0) / math.sqrt(runs))
    squares = ((released - mean) ** 2).sum(1)
    assert abs(squares.mean() - variance) < 8.0 * squares.std() / math.sqrt(runs)


@every
def test_secure_releases_lie_on_a_grid(mechanism):
    """No bit finer than the noise's own grid, whatever the input: there is nothing to tell inputs apart by."""
    if isinstance(mechanism, PrivUnit) and mechanism.norm == "private":
        return  # the grid is stretched by one of a few levels
    for value in (0.0, 1.0, 1.0 / 3.0):
        released = mechanism.release(np.full(3, value), 1.5, SecureNoise()).update
        if isinstance(mechanism, PrivUnit):  # its grid of 2^-20 is stretched by a public number
            stretch = 1.0 / mechanism.cap(3, 1.5).mean
            assert np.array_equal(released, np.rint(released / stretch * 2.0**20) * 2.0**-20 * stretch)
        else:
            assert np.all(released * 2.0**45 == np.rint(released * 2.0**45))


class Recording(SimulatedNoise):
    """Notes every question that a mechanism asks, and every draw it gets."""

    def __init__(self, seed):
        super().__init__(np.random.default_rng(seed))
        self.asked = []

    def laplace(self, vector, *arguments, **more):
        bare = np.zeros_like(vector)
        super().laplace(bare, *arguments, **more)
        self.asked.append(("laplace", arguments, more, bare.tolist()))
        vector += bare

    def gaussian(self, vector, *arguments, **more):
        bare = np.zeros_like(vector)
        super().gaussian(bare, *arguments, **more)
        self.asked.append(("gaussian", arguments, more, bare.tolist()))
        vector += bare

    def uniform(self, size):
        drawn = super().uniform(size)
        self.asked.append(("uniform", drawn.tolist()))
        return drawn

    def integer(self, below):
        drawn = super().integer(below)
        self.asked.append(("integer", below, drawn))
        return drawn

    def cap(self, direction, threshold, inside):
        state = self._generator.bit_generator.state["state"]
        self.asked.append(("cap", direction.size, threshold, inside, state))
        return super().cap(direction, threshold, inside)


@every
@given(
    update=hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e3, 1e3)),
    clip=st.floats(min_value=5e-324, max_value=1e300),
    epsilon=st.floats(0.1, 20.0),
)
@settings(max_examples=60, deadline=None)
def test_a_wish_for_another_clip_never_changes_the_noise(mechanism, update, clip, epsilon):
    """The very same draws at the very same scales, whatever clip a server asks for."""
    own, wished = Recording(1), Recording(1)
    mechanism.release(update, epsilon, own)
    mechanism.release(update, epsilon, wished, clip=clip)
    assert own.asked == wished.asked


@every
def test_a_smaller_clip_bounds_tighter_and_a_larger_one_is_ignored(mechanism):
    """Seeded, so the difference of two releases is that of the bounded updates; PrivUnit is compared by its mean."""
    update, own = np.array([3.0, -1.0, 0.5]), 2.0 if mechanism.guarantee.norm == "linf" else 1.0

    def released(clip, epsilon=1.5):
        return mechanism.release(update, epsilon, source("simulated", 9), clip=clip).update

    assert np.array_equal(released(None), released(own)) and np.array_equal(released(None), released(1e9))
    if isinstance(mechanism, PrivUnit) and mechanism.norm == "fixed":
        assert np.array_equal(released(None), released(own / 4))  # a direction has no norm to clip
    elif isinstance(mechanism, PrivUnit):
        noise = source("simulated", 9)
        seen = np.array([mechanism.release(update, 8.0, noise, clip=own / 4).update for _ in range(4000)])
        mean = update / np.linalg.norm(update) / 4.0
        assert np.all(np.abs(seen.mean(0) - mean) < 5.0 * seen.std(0) / math.sqrt(4000))
    else:
        bounded = {
            "linf": lambda bound: np.clip(update, -bound, bound),
            "l1": lambda bound: update * bound / np.abs(update).sum(),
            "l2": lambda bound: update * bound / np.linalg.norm(update),
        }[mechanism.guarantee.norm]
        wanted = bounded(mechanism.guarantee.bound / 4) - bounded(mechanism.guarantee.bound)
        np.testing.assert_allclose(released(own / 4) - released(None), wanted, atol=1e-8)


@every
@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan, math.inf])
def test_a_clip_that_is_none_is_refused(mechanism, clip):
    with pytest.raises(InvalidValueError, match="clip"):
        mechanism.release(np.ones(3), 1.0, source("simulated"), clip=clip)


@every
@pytest.mark.parametrize("dimension", [1, 64])
def test_noise_over_signal_against_simulation(mechanism, dimension):
    """4000 seeded releases of the longest update; 5 standard errors of the mean square (one in 1.7 million seeds)."""
    runs, noise = 4000, source("simulated", 13)
    longest = np.eye(1, dimension)[0] if mechanism.guarantee.norm == "l1" else np.ones(dimension)
    seen = np.array([mechanism.release(longest * 100.0, 1.5, noise).update for _ in range(runs)])
    signal = expected(mechanism, longest * 100.0, 1.5)[0]
    ratios = ((seen - signal) ** 2).sum(1) / (signal**2).sum()
    assert abs(ratios.mean() - mechanism.noise_to_signal(dimension, 1.5) ** 2) < 5.0 * ratios.std() / math.sqrt(runs)
    level = mechanism.noise_level(dimension, 1.5)
    assert level.signal == pytest.approx((signal**2).sum())
    assert level.noise == pytest.approx(mechanism.noise_to_signal(dimension, 1.5) ** 2 * level.signal)


SETTINGS = {"unit": "coordinate", "width": 0.003, "clip": 2.0, "delta": 1e-5, "budget": 40.0, "schedule": "geometric"}


@pytest.mark.parametrize(
    ("name", "unit", "made"),
    [
        ("laplace", "coordinate", Laplace(unit="coordinate", width=0.003)),
        ("laplace", "update", Laplace(unit="update", l1=2.0)),
        ("gaussian", "coordinate", Gaussian(l2=2.0, delta=1e-5)),
        ("privunit", "coordinate", PrivUnit(l2=2.0)),
    ],
)
def test_mechanisms_have_names_in_configurations(name, unit, made):
    assert REGISTRY[name].from_settings({**SETTINGS, "unit": unit}) == made


def test_audited_variants_have_names_of_their_own():
    names = [name for kind in REGISTRY.values() for name in kind.audited()]
    assert len(set(names)) == len(names) and set(REGISTRY) <= set(names)
