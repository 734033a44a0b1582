"""Tensors as they leave the box: whatever the bytes are, names, types and shapes are the model's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from pausefl.errors import InvalidValueError
from pausefl.flower.node.array_bytes import from_bytes, size_of, to_bytes

TENSORS = npst.arrays(
    dtype=st.sampled_from(["<f4", "<f8", "<f2", "<i8", "|b1"]),
    shape=npst.array_shapes(min_dims=0, min_side=0, max_side=4),
)
MODELS = st.dictionaries(st.text(max_size=5), TENSORS, max_size=4)


@given(MODELS)
def test_tensors_come_back_as_they_were(model: dict[str, np.ndarray]) -> None:
    sent = to_bytes(model, dict(reversed(model.items())))
    assert len(sent) == size_of(model)
    found = from_bytes(model, memoryview(sent))
    assert list(found) == list(model)
    for name, tensor in model.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert found[name].tobytes() == tensor.tobytes()


@given(MODELS, st.binary(max_size=300))
def test_only_as_many_bytes_as_the_model_has_are_read(model: dict[str, np.ndarray], given: bytes) -> None:
    if len(given) != size_of(model):
        with pytest.raises(InvalidValueError, match=f"returned {len(given)} bytes, but the model has {size_of(model)}"):
            from_bytes(model, given)


@given(MODELS.filter(size_of), st.integers(0, 3))
def test_rows_of_records_come_back_as_they_were(model: dict[str, np.ndarray], count: int) -> None:
    trained = {name: np.stack([tensor] * count) if count else tensor[np.newaxis][:0] for name, tensor in model.items()}
    sent = to_bytes(model, trained, records=True)
    assert len(sent) == count * size_of(model)
    found = from_bytes(model, memoryview(sent), records=True)
    for name, tensor in trained.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert found[name].tobytes() == tensor.tobytes()


@given(MODELS.filter(size_of), st.binary(max_size=300))
def test_only_whole_rows_are_read(model: dict[str, np.ndarray], given: bytes) -> None:
    if len(given) % size_of(model):
        with pytest.raises(InvalidValueError, match=f"returned {len(given)} bytes, but the model has {size_of(model)}"):
            from_bytes(model, given, records=True)
    else:
        count = len(given) // size_of(model)
        found = from_bytes(model, given, records=True)
        assert {name: t.shape for name, t in found.items()} == {n: (count, *t.shape) for n, t in model.items()}


def test_rows_that_do_not_fit_together_are_refused() -> None:
    model = {"w": np.zeros(3, dtype=np.float32), "b": np.zeros((), dtype=np.float32)}
    assert len(to_bytes(model, {"w": np.zeros((2, 3)), "b": np.zeros(2)}, records=True)) == 2 * size_of(model)
    for wrong in (
        model, {"w": np.zeros((2, 3)), "b": np.zeros(3)}, {"w": np.zeros((2, 4)), "b": np.zeros(2)},
        {"w": np.zeros(()), "b": np.zeros(2)}, {"w": np.zeros((2, 3))},
    ):  # fmt: skip
        with pytest.raises(InvalidValueError):
            to_bytes(model, wrong, records=True)
    with pytest.raises(InvalidValueError):
        to_bytes(model, {"w": np.zeros((2, 3)), "b": np.zeros(2)})
    with pytest.raises(InvalidValueError):  # a trained model is no row
        to_bytes({"b": model["b"]}, {"b": model["b"]}, records=True)


def test_a_row_that_overflows_fails_no_others() -> None:
    """Whatever the app has told numpy to do: the gate counts such a row as zeros."""
    model, rows = {"w": np.zeros(2, np.float32)}, {"w": np.array([[1e300, 1.0], [2.0, 3.0]])}
    with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
        made = from_bytes(model, to_bytes(model, rows, records=True), records=True)["w"]
    assert made.tolist() == [[np.inf, 1.0], [2.0, 3.0]]


def test_reading_takes_no_memory() -> None:
    model = {"w": np.zeros(1000), "b": np.zeros((2, 3), dtype=np.float32)}
    given = bytearray(size_of(model))
    whole = np.frombuffer(given, np.uint8)
    assert all(np.shares_memory(tensor, whole) for tensor in from_bytes(model, given).values())


def test_other_names_shapes_and_kinds_are_refused() -> None:
    model = {"w": np.zeros(3, dtype=np.float32)}
    assert to_bytes(model, {"w": np.ones(3)}) == np.ones(3, dtype=np.float32).tobytes()  # floats of another size
    for wrong in ({}, {"v": np.zeros(3)}, {"w": np.zeros(3), "v": np.zeros(3)}, {"w": np.zeros((3, 1))}):
        with pytest.raises(InvalidValueError):
            to_bytes(model, wrong)
    for kind in (np.complex64, "U3", object):
        with pytest.raises(TypeError):
            to_bytes(model, {"w": np.zeros(3).astype(kind)})


def test_a_mean_over_records_is_of_single_or_double_floats() -> None:
    """Coarser ones would come out as single floats, and the gate could not tell; see ``rounding_share``."""
    model = {"w": np.zeros(3, dtype=np.float32)}
    for fine in (np.float32, np.float64):
        assert to_bytes(model, {"w": np.ones(3, dtype=fine)}, mean=True) == np.ones(3, dtype=np.float32).tobytes()
    for coarse in (np.float16, np.int64, bool):
        assert len(to_bytes(model, {"w": np.ones(3, dtype=coarse)})) == 12
        with pytest.raises(InvalidValueError, match="but must be float32 or float64"):
            to_bytes(model, {"w": np.ones(3, dtype=coarse)}, mean=True)
