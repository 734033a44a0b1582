"""The inner strategy: which rules it must follow, which types it averages, and what a checkpoint stores of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import Strategy

from pausefl.errors import InvalidValueError, StateFileError, require
from pausefl.flower.protocol import record_of, view_of
from pausefl.privacy.mechanisms.tensor_rules import Tensor

_ACCOUNTANT = ("compose", "get_epsilon")
"""What Flower's accountants can do: they share no class."""


def least_round(inner: Strategy, per_round: int) -> int:
    """Return the smallest round the inner strategy can play; refuse one that would wait for ever, or choose by itself.

    Flower's strategies wait, without end, until as many nodes are there as they want at least; here only the chosen
    ever are.
    """
    if not isinstance(inner, Strategy):
        raise InvalidValueError(
            f"inner is a {type(inner).__name__}, but must be a Flower strategy; for example FedAvg()"
        )
    least = 1
    for part in _parts(inner):
        share = getattr(part, "fraction_train", 1.0)
        require(
            share == 1.0,
            "fraction_train of the inner strategy",
            share,
            "1.0",
            "leave it out, because the selector chooses the clients",
        )
        for name in ("min_train_nodes", "min_available_nodes"):
            count = getattr(part, name, 0)
            remedy = f"pass {name}={per_round} or less, or raise per_round of the selector"
            require(count <= per_round, f"{name} of the inner strategy", count, f"at most {per_round}", remedy)
            least = max(least, count)
    return least


def least_evaluation(inner: Strategy) -> int:
    """Return how many nodes the inner strategy wants before it evaluates."""
    names = ("min_evaluate_nodes", "min_available_nodes")
    return max([1, *(getattr(part, name, 0) for part in _parts(inner) for name in names)])


def weight_key(inner: Strategy) -> str | None:
    """Return the metric by which a strategy, or the one it wraps, weighs replies."""
    return next((key for part in _parts(inner) if isinstance(key := getattr(part, "weighted_by_key", None), str)), None)


def record_keys(inner: Strategy) -> tuple[str, str]:
    """Return the names by which a strategy, or the one it wraps, sends model and configuration."""
    arrays, config = (
        next((key for part in _parts(inner) if isinstance(key := getattr(part, name, None), str)), default)
        for name, default in (("arrayrecord_key", "arrays"), ("configrecord_key", "config"))
    )
    return arrays, config


def in_types_of(model: ArrayRecord, arrays: ArrayRecord) -> ArrayRecord:
    """Return the arrays in the model's types: Flower's FedAdam makes float64 of float32, and apps do not."""
    if set(arrays) != set(model) or (
        list(arrays) == list(model) and all(map(_same_type, arrays.values(), model.values()))
    ):
        return arrays
    return record_of({name: _like(view_of(arrays[name]), view_of(array)) for name, array in model.items()})


def inner_state(inner: Strategy) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays a strategy keeps between rounds (momentum, second moments), each under a name that says where.

    Numbers are left out: they are settings, and those are the caller's.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for depth, part in enumerate(_parts(inner)):
        for attribute, value in vars(part).items():
            form, arrays = _form(value)
            found |= {f"{depth}|{form}|{attribute}|{name}": array for name, array in arrays.items()}
    return found


def check_keepable(inner: Strategy) -> None:
    """Refuse to keep a strategy with a privacy account of its own: after a crash it would begin anew, too low."""
    for part in _parts(inner):
        for name, value in vars(part).items():
            if all(callable(getattr(value, method, None)) for method in _ACCOUNTANT):
                raise InvalidValueError(
                    f"{name} of the inner strategy is a {type(value).__name__}, whose account no checkpoint can hold; "
                    "leave out checkpoint, or the accountant"
                )


def restore_inner(inner: Strategy, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Put back what ``inner_state`` returned."""
    parts = _parts(inner)
    grouped: dict[tuple[int, str, str], dict[str, npt.NDArray[Any]]] = {}
    for key, array in state.items():
        depth, form, attribute, name = _key_parts(key, len(parts))
        _check_kept(parts[depth], attribute)
        grouped.setdefault((depth, form, attribute), {})[name] = np.array(array)
    for (place, form, attribute), arrays in grouped.items():
        value: Any = arrays
        if form == "array":
            [value] = arrays.values()
        elif form == "list":
            value = list(arrays.values())
        elif form == "record":
            value = record_of(arrays)
        setattr(parts[place], attribute, value)


def _key_parts(key: str, count: int) -> tuple[int, str, str, str]:
    depth, *rest = key.split("|", 3)
    if len(rest) != 3 or not depth.isdecimal() or int(depth) >= count:
        raise StateFileError(f"the checkpoint has {key[:80]!r}, which no inner strategy has; use another copy")
    return int(depth), rest[0], rest[1], rest[2]


def _check_kept(part: Strategy, attribute: str) -> None:
    """Refuse what is no array of a strategy: a checkpoint from others must not set its noise or replace its methods."""
    now = getattr(part, attribute, None)
    if hasattr(type(part), attribute) or not (now is None or isinstance(now, np.ndarray | ArrayRecord | list | dict)):
        raise StateFileError(
            f"the checkpoint sets {attribute[:80]!r} of the inner strategy, which is a setting and no array; use "
            "another copy"
        )


def _form(value: object) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    if isinstance(value, np.ndarray):
        return "array", {} if value.dtype.hasobject else {"": value}
    if isinstance(value, ArrayRecord):
        return "record", {name: array.numpy() for name, array in value.items()}
    if isinstance(value, list):
        value, form = {f"{place:09d}": one for place, one in enumerate(value)}, "list"
    else:
        form = "dict"
    # Arithmetic on arrays without dimensions gives numbers of numpy's.
    fine = isinstance(value, dict) and all(
        isinstance(one, (np.ndarray, np.generic)) and not one.dtype.hasobject for one in value.values()
    )
    return form, {name: np.asarray(one) for name, one in cast("dict[str, Any]", value).items()} if fine else {}


def _same_type(array: Array, model: Array) -> bool:
    """Say whether an array has the model's type, by its bytes and not by its word, and lies in rows."""
    tensor = view_of(array)
    return tensor.flags.c_contiguous and tensor.dtype == view_of(model).dtype and array.dtype == str(tensor.dtype)


def _like(values: Tensor, model: Tensor) -> Tensor:
    kind = model.dtype
    if values.dtype == kind:
        return values
    if kind.kind not in "iub" or values.shape != model.shape:
        with np.errstate(over="ignore"):  # a model that has become infinite is refused by every client, uncharged
            return values.astype(kind)
    # A mean of counters, say: the nearest whole number there is, and the model's own where there is none.
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    wide = np.rint(np.asarray(values, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        whole = wide.astype(kind)  # right wherever none of the conditions below holds
    ends = [np.array(end, dtype=kind) for end in (low, high)]
    return np.select([np.isnan(wide), wide <= low, wide >= high], [model, *ends], whole)


def _parts(inner: Strategy) -> list[Strategy]:
    """Return a strategy and those it wraps, as Flower's differential privacy strategies do."""
    parts = [inner]
    while isinstance(further := getattr(parts[-1], "strategy", None), Strategy):
        parts.append(further)
    return parts
