"""The audit of an app that clips its records itself: it passes a sound one, and finds what one can get wrong.

Noise is secure and has no seed.  A sound app is accused with a probability of at most 10^-8.  The faults below move the
mean by so much more than the noise that they are found unless most of 200 fair coins fall alike.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.flower import PrivateUpdate, audit_client
from pausefl.owner.owner_init import init_owner

FEW, RARE, COUNT = 100, 1e-8, 100
MODEL = {"weight": np.full((4, 5), 0.5, dtype=np.float32), "bias": np.ones(4, dtype=np.float32)}


@pytest.fixture
def file(tmp_path):
    return owner_file(tmp_path, 'clipped_by = "app"')


def owner_file(folder, line, unit='unit = "record"'):
    init_owner(folder / "hospital", "hospital")
    path = folder / "hospital" / "owner.toml"
    terms = path.read_text().partition("[schedule]")[0] + (
        '[schedule]\nkind = "fixed-horizon"\nbudget = 4.0\nreleases = 4\n[mechanism]\nkind = "gaussian"\n'
        f"l2 = 1.0\ndelta = 1e-5\n{unit}\n{line}\n[replies]\nexamples = {COUNT}\n"
    )
    path.write_text(terms)
    return path


def contributions(which):
    """Return what each record adds to each tensor; the first one is large in both, and replaced by its opposite."""
    rng = np.random.default_rng(0)
    rows = {name: rng.standard_normal((COUNT, *tensor.shape)) for name, tensor in MODEL.items()}
    for part in rows.values():
        part[0] *= 100.0 * (-1.0) ** which
    return rows


def whole_norm(rows):
    return {name: np.sqrt(sum(np.square(p).reshape(COUNT, -1).sum(axis=1) for p in rows.values())) for name in rows}


def without_bias(rows):
    """The bias is not clipped."""
    return whole_norm(rows) | {"bias": np.zeros(COUNT)}


def of_the_mean(rows):
    """No record is clipped; the gate bounds the mean."""
    return {name: np.zeros(COUNT) for name in rows}


def arrays_of(tensors):
    return ArrayRecord({name: Array(tensor) for name, tensor in tensors.items()})


def answer(message, tensors):
    return Message(RecordDict({"arrays": arrays_of(tensors)}), reply_to=message)


def maker(norms, *, spoilt=False):
    """Return a maker of apps that clip by these norms, add up, and divide by the public count."""

    def make(which):
        def train(message, context):
            rows = contributions(which)
            if spoilt and which:
                raise ValueError("one record cannot be read")
            model = {name: array.numpy() for name, array in message.content["arrays"].items()}
            new = {}
            for name, norm in norms(rows).items():
                factor = 1.0 / np.maximum(1.0, norm)
                mean = np.tensordot(factor, rows[name], axes=1) / COUNT
                new[name] = (model[name] + mean).astype(np.float32)
            return answer(message, new)

        return train, MODEL

    return make


make_sound, make_faulty = maker(whole_norm), maker(without_bias)


def called(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code, capsys.readouterr()


def test_a_sound_app_passes(file):
    replies, arrays = audit_client(file, runs=FEW, error=RARE, make=make_sound)
    assert replies.event == "nothing but noised arrays differs"
    assert arrays.passed and arrays.attainable > arrays.claimed == pytest.approx(4.0), arrays


@pytest.mark.parametrize(
    "make", [maker(of_the_mean), pytest.param(maker(whole_norm, spoilt=True), marks=pytest.mark.thorough)]
)
def test_an_app_that_clips_badly_is_found(file, make):
    """One that clips no record; one that fails because of a single record."""
    _, arrays = audit_client(file, runs=FEW, make=make)
    assert arrays.verdict == "BROKEN" and "the app's two data sets" in arrays.event, arrays


def test_a_clip_of_each_layer_is_found_without_trials_where_a_budget_is_shared_by_many_releases(tmp_path):
    """One of 20 releases of a budget of 1 tells so little that no number of trials would show it in time."""
    file = owner_file(tmp_path, 'clipped_by = "app"')
    file.write_text(file.read_text().replace("budget = 4.0", "budget = 1.0").replace("releases = 4", "releases = 20"))
    by_layer = maker(
        lambda rows: {name: np.linalg.norm(part.reshape(COUNT, -1), axis=1) for name, part in rows.items()}
    )
    _, arrays = audit_client(file, runs=100, make=by_layer)
    assert arrays.verdict == "BROKEN" and " times as far as the noise hides" in arrays.event, arrays


def make_rows(which):
    """A Flower app with the mod of its own, whose rows are as long as they come."""
    app = ClientApp(mods=[PrivateUpdate()])

    @app.train()
    def train(message, context):
        return answer(message, contributions(which))

    return app, arrays_of(MODEL)


def test_rows_need_no_clip_of_the_app(tmp_path):
    _, arrays = audit_client(owner_file(tmp_path, ""), runs=FEW, error=RARE, make=make_rows)
    assert arrays.verdict == "not refuted", arrays


def batched(*, fixed):
    """Return a maker of apps whose records have visits: padded to the longest record, or to a fixed length."""

    def make(which):
        visits = np.random.default_rng(1).integers(1, 4, COUNT)
        visits[0] = 4 if which else 3
        records = [np.random.default_rng(n).standard_normal((v, 7)).astype(np.float32) for n, v in enumerate(visits)]

        def train(message, context):
            longest = 9 if fixed else max(map(len, records))
            table = np.stack([np.pad(one, ((0, longest - len(one)), (0, 0))).ravel() for one in records])
            # As matrix products do it: half of the columns are added up first, then the other half.
            halves = np.array_split(np.tanh(table), 2, axis=1)
            score = sum(np.cumsum(half, axis=1, dtype=np.float32)[:, -1] for half in halves)
            rows = {name: np.multiply.outer(score, np.ones_like(tensor)) for name, tensor in MODEL.items()}
            return answer(message, rows)

        return train, MODEL

    return make


def make_dropping(which):
    """It leaves out a bad record, and its model is zeros, with which no digit shows."""
    x = np.random.default_rng(2).standard_normal((COUNT, 20)).astype(np.float32)
    x[0] = np.nan if which else x[0]

    def train(message, context):
        [weights] = [array.numpy() for array in message.content["arrays"].values()]
        kept = x[np.isfinite(x).all(axis=1)]
        # As matrix products do it: rows at even places are added up in another order.
        parts = kept * weights
        even, odd = np.cumsum(parts, axis=1, dtype=np.float32)[:, -1], np.cumsum(parts[:, ::-1], axis=1)[:, -1]
        score = np.where(np.arange(len(kept)) % 2, odd, even)
        return answer(message, {"weight": np.tanh(score)[:, np.newaxis] * np.ones(20, dtype=np.float32)})

    return train, {"weight": np.zeros(20, dtype=np.float32)}


def test_rows_are_compared_with_other_models_than_zeros(tmp_path):
    _, arrays = audit_client(owner_file(tmp_path, ""), runs=FEW, make=make_dropping)
    assert arrays.verdict == "BROKEN" and "rows, if only in their last digits" in arrays.event, arrays


def make_failing_once(which):
    def train(message, context):
        if which:
            raise ValueError("a bad record")
        return answer(message, {name: np.zeros((COUNT, *tensor.shape)) for name, tensor in MODEL.items()})

    return train, MODEL


def make_failing_with_other_models(which):
    def train(message, context):
        if which and any(array.numpy().any() for array in message.content["arrays"].values()):
            raise ValueError("a bad record")
        return answer(message, {name: np.zeros((COUNT, *tensor.shape)) for name, tensor in MODEL.items()})

    return train, {name: np.zeros_like(tensor) for name, tensor in MODEL.items()}


@pytest.mark.parametrize("make", [make_failing_once, make_failing_with_other_models])
def test_an_app_that_fails_with_one_data_set_only_is_broken(tmp_path, make):
    """Even if its rows add up to nothing, so that no trial could show it, and if its own model hides it."""
    _, arrays = audit_client(owner_file(tmp_path, ""), runs=FEW, make=make)
    assert arrays.verdict == "BROKEN" and "fails with one of them only (ValueError: a bad record" in arrays.event


def test_an_app_whose_rows_depend_on_how_long_other_records_are_is_found(tmp_path):
    """A product of matrices of another shape is rounded in another way; a server can make the last digit count."""
    file = owner_file(tmp_path, "")
    _, arrays = audit_client(file, runs=FEW, make=batched(fixed=False))
    assert arrays.verdict == "BROKEN" and "rows, if only in their last digits" in arrays.event, arrays
    _, arrays = audit_client(file, runs=FEW, error=RARE, make=batched(fixed=True))
    assert arrays.verdict == "not refuted", arrays


def test_the_command_finds_an_app_that_forgets_to_clip_one_layer(file, capsys):
    words = ("audit", "--owner", file, "--runs", FEW, "--json")
    code, seen = called(capsys, *words, "--app", f"{__name__}:make_faulty")
    assert code == 1 and [one["passed"] for one in json.loads(seen.out)] == [True, False]


def failing(which):
    def train(message, context):
        raise ValueError("no data here")

    return train


def broken(which):
    raise KeyError("data.csv")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (failing, "fails with both data sets, so only noise would be audited: ValueError: no data here, at"),
        (broken, "cannot make the app of data set 0: KeyError: 'data.csv'"),
        (lambda which: 7, "made 7 of data set 0, but must make a ClientApp"),
    ],
)
def test_an_app_that_cannot_be_audited_is_an_error(file, make, said):
    with pytest.raises(ConfigError, match=said):
        audit_client(file, runs=FEW, make=make)


def test_what_the_command_refuses(file, tmp_path, capsys):
    code, seen = called(capsys, "audit", "laplace", "--epsilon", 1, "--app", f"{__name__}:make_sound")
    assert code == 2 and "given with --owner" in seen.err
    assert "cannot be imported" in called(capsys, "audit", "--owner", file, "--app", "nowhere:make")[1].err
    by_coordinate = file.read_text().replace('"gaussian"', '"laplace"').partition("l2 =")[0]
    file.write_text(by_coordinate + 'unit = "coordinate"\nwidth = 1.0\n')
    assert "no two data sets" in called(capsys, "audit", "--owner", file, "--app", f"{__name__}:make_sound")[1].err
