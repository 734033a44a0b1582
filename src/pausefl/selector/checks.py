"""What policies and callers say, checked: a policy's choice and its faults, the seconds and updates of a round."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from pausefl.errors import InvalidValueError, PauseError, UserCodeError, is_finite, require, shown
from pausefl.selection import Candidates, Objective, Policy, Solution
from pausefl.selection.policy_contract import Need
from pausefl.selector.cohort import Cohort
from pausefl.system.import_path import defined_at, reason
from pausefl.types import BoolArray, ClientId, FloatArray, IntArray, Seconds

_ROUNDING = 1e-9

Expected: TypeAlias = Mapping[ClientId, Seconds | None] | Sequence[Seconds | None] | FloatArray
"""What is known of latencies: seconds by client, or for every client in order; None, NaN or left out: unknown."""


def checked_policy(policy: object) -> Policy:
    """Return the policy, if it is one with a name and a size."""
    if not isinstance(policy, Policy):
        raise InvalidValueError(
            f"policy is {shown(policy)}, but must be a name or a Policy; subclass pausefl.selection.Policy"
        )
    kind = type(policy)
    if not isinstance(getattr(policy, "name", None), str):
        raise InvalidValueError(f"policy {kind.__name__} has no name; set the class attribute name{_at(kind)}")
    if policy.size not in ("exactly m", "at most m", "all"):
        raise InvalidValueError(
            f"policy {policy.name!r} has size {_short(policy.size)!r}, but must have 'exactly m', 'at most m' or "
            f"'all'; change it{_at(kind)}"
        )
    if not isinstance(policy.needs, frozenset) or not policy.needs <= set(get_args(Need)):
        raise InvalidValueError(
            f"policy {policy.name!r} has needs {_short(policy.needs)}, but must have a frozenset of "
            f"{', '.join(get_args(Need))}; change it{_at(kind)}"
        )
    return policy


def asked(policy: Policy, candidates: Candidates) -> IntArray:
    """Return the positions of those whom the policy wants to hear before it picks."""
    with blaming(policy, "ask"):
        positions = policy.ask(candidates)
    return _checked_positions(policy, positions, candidates, 0, len(candidates), "ask")


def chosen(policy: Policy, candidates: Candidates) -> Solution:
    """Return what the policy picks, with its worth; an answer that breaks its contract is refused."""
    with blaming(policy, "pick"):
        choice = policy.pick(candidates)
    if isinstance(choice, Solution):
        raise InvalidValueError(
            f"policy {policy.name!r} returned a Solution, but must return positions; return those alone, without "
            "objective.solution(…)"
        )
    positions, weights = choice if isinstance(choice, tuple) and len(choice) == 2 else (choice, None)
    count, m = len(candidates), candidates.m
    low, high = {"exactly m": (m, m), "at most m": (1, m), "all": (count, count)}[policy.size]
    members = _checked_positions(policy, positions, candidates, low, high, "pick")
    return candidates.objective.solution(members, _checked_weights(policy, weights, len(members)))


def maximised(policy: Policy, candidates: Candidates) -> Objective | None:
    """Return what the policy says it maximises exactly, if anything."""
    with blaming(policy, "maximises"):
        told: object = policy.maximises(candidates)
    if told is None or (isinstance(told, Objective) and len(told.ucb) == len(candidates)):
        return told
    raise InvalidValueError(
        f"policy {policy.name!r} returned {_short(told)}, but must return an Objective of {len(candidates)} "
        f"candidates, or None; {_mend(policy, 'maximises')}"
    )


def chances(policy: Policy, candidates: Candidates) -> FloatArray | None:
    """Return how likely the policy was to choose each candidate, if it knows."""
    with blaming(policy, "inclusion"):
        told = policy.inclusion(candidates)
    if told is None:
        return None
    try:
        found = np.asarray(told, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    # NaN is in no range; sums of probabilities may be a rounding beyond 1.
    if found.shape != (len(candidates),) or not ((found >= -_ROUNDING) & (found <= 1.0 + _ROUNDING)).all():
        raise InvalidValueError(
            f"policy {policy.name!r} returned {_short(told)}, but must return a probability for each of "
            f"{len(candidates)} candidates, or None; {_mend(policy, 'inclusion')}"
        )
    clipped: FloatArray = np.clip(found, 0.0, 1.0)
    return clipped


def teach(policy: Policy, rows: IntArray, updates: FloatArray) -> None:
    """Show the policy the updates of these clients."""
    with blaming(policy, "learn"):
        policy.learn(rows, updates)


def tell_played(policy: Policy, candidates: Candidates, members: IntArray) -> None:
    """Tell the policy who took part, by position."""
    with blaming(policy, "played"):
        policy.played(candidates, members)


def settings_of(policy: Policy) -> str:
    """Return the policy's description of its parameters."""
    with blaming(policy, "settings"):
        text: object = policy.settings()
    if not isinstance(text, str):
        raise InvalidValueError(
            f"policy {policy.name!r} returned a {type(text).__name__} ({_short(text)}), but must return text; "
            f"{_mend(policy, 'settings')}"
        )
    return text


def state_of(policy: Policy) -> dict[str, npt.NDArray[Any]]:
    """Return what the policy has to remember, as arrays that a file can hold."""
    with blaming(policy, "state"):
        arrays = {name: np.asarray(value) for name, value in policy.state().items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise InvalidValueError(
                f"policy {policy.name!r} returned {shown(name)} = {_short(array)}, but must return arrays of numbers "
                f"or text; {_mend(policy, 'state')}"
            )
    return arrays


@contextmanager
def blaming(policy: Policy, method: str) -> Iterator[None]:
    """Turn whatever a policy of somebody's own may raise into one line with its file and line."""
    try:
        yield
    except (PauseError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # sys.exit() too
        said = reason(error, getattr(type(policy), method))
        raise UserCodeError(
            f"policy {policy.name!r} failed in {method}() ({said}); change its code at that line"
        ) from error


def _mend(policy: Policy, method: str) -> str:
    return f"change its {method}(){_at(getattr(type(policy), method))}"


def _at(thing: object) -> str:
    place = defined_at(thing)
    return f" at {place}" if place else ""


def _checked_positions(
    policy: Policy, positions: object, candidates: Candidates, low: int, high: int, method: str
) -> IntArray:  # fmt: skip
    count = len(candidates)
    members = np.asarray(positions) if isinstance(positions, (list, np.ndarray)) else np.full(1, 0.5)
    whole = members.ndim == 1 and members.dtype.kind in "iu"
    inside = members.shape == (0,) or (whole and members.min() >= 0 and members.max() < count)
    if not inside or not low <= len(members) <= high or len(np.unique(members)) < len(members):
        answer = members[:20].tolist() if whole else f"a {type(positions).__name__} ({_short(positions)})"
        how_many = policy.size if method == "pick" else f"at most {high}"
        raise InvalidValueError(
            f"policy {policy.name!r} returned {answer}, but must return an array or a list of {how_many} distinct "
            f"positions below {count}, with m = {candidates.m}; {_mend(policy, method)}"
        )
    return members.astype(np.int64)


def _checked_weights(policy: Policy, weights: object, count: int) -> FloatArray | None:
    if weights is None:
        return None
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (count,) or not (found > 0.0).all() or abs(float(found.sum()) - 1.0) > 1e-9:
        raise InvalidValueError(
            f"policy {policy.name!r} returned weights {_short(weights)}, but must return {count} above 0 "
            f"that sum to 1; {_mend(policy, 'pick')}"
        )
    return found


def _short(value: object) -> str:
    return " ".join(str(value).split())[:60]


def observed_seconds(latencies: Mapping[ClientId, Seconds | None], members: Collection[ClientId]) -> FloatArray:
    """Return the members' latencies in order, NaN for no answer."""
    if not isinstance(latencies, Mapping):
        raise InvalidValueError(
            f"latencies is a {type(latencies).__name__}, but must be a mapping; pass {{client: seconds}}"
        )
    _check_members(latencies, members)
    told = [latencies.get(client) for client in members]
    if set(map(type, told)) <= {float, type(None)}:  # nearly always: looked at together, which is much quicker
        seconds = np.array(told, dtype=np.float64)  # None is NaN
        if int(((seconds >= 1e-9) & (seconds < math.inf)).sum()) == len(told) - told.count(None):
            return seconds
    return np.array([_seconds(client, value) for client, value in zip(members, told, strict=True)])


def expected_seconds(latencies: Expected, cohort: Cohort) -> FloatArray:
    """Return the seconds that are known of each client in the cohort, NaN for nothing."""
    column = np.full(len(cohort), np.nan)
    if isinstance(latencies, Mapping):
        column[cohort.rows(latencies)] = [_known_seconds(client, value) for client, value in latencies.items()]
    elif isinstance(latencies, (Sequence, np.ndarray)) and not isinstance(latencies, str):
        given, count = len(latencies), len(cohort)
        require(
            given == count,
            "number of expected latencies",
            given,
            str(count),
            "pass {client: seconds} if you know only some",
        )
        column[:] = [_known_seconds(client, value) for client, value in zip(cohort.ids, latencies, strict=True)]
    else:
        raise InvalidValueError(
            f"expected latencies are a {type(latencies).__name__}, but must be a mapping or a sequence; pass "
            "{client: seconds}"
        )
    return column


def _known_seconds(client: ClientId, value: Seconds | None) -> float:
    return _seconds(client, None if isinstance(value, (float, np.floating)) and math.isnan(value) else value)


def observed_updates(updates: Mapping[ClientId, FloatArray], members: Collection[ClientId]) -> FloatArray:
    """Return the updates as rows, in the order in which they are given."""
    _check_members(updates, members)
    flat = [np.asarray(u, dtype=np.float64).ravel() for u in updates.values()]
    lengths = sorted({len(u) for u in flat})
    require(
        len(lengths) == 1,
        "update lengths",
        lengths,
        "the same for all members",
        "pass each whole model as one flat array",
    )
    stacked = np.stack(flat)
    require(bool(np.isfinite(stacked).all()), "updates", "NaN or infinite", "finite", "leave the broken update out")
    return stacked


def among_members(named: Collection[ClientId], members: Collection[ClientId], argument: str) -> BoolArray:
    """Return which of the members are named; a stranger is refused."""
    if isinstance(named, str):
        raise InvalidValueError(
            f"{argument} is {shown(named)}, but must be a list of client ids; pass [{shown(named)}]"
        )
    _check_members(named, members)
    return np.array([client in named for client in members], dtype=np.bool_)


def _check_members(reported: Collection[ClientId], members: Collection[ClientId]) -> None:
    invited = set(members)
    for client in reported:
        if client not in invited:
            raise InvalidValueError(
                f"client id is {shown(client)}, but must be one of the {len(invited)} selected in this round; report "
                "only these"
            )


def _seconds(client: ClientId, value: Seconds | None) -> float:
    if value is None:
        return math.nan
    if not is_finite(value) or value < 1e-9:
        raise InvalidValueError(
            f"latency of client {shown(client)} is {shown(value)}, but must be a finite number of seconds above 0 (at "
            "least 1e-9); report None for no answer"
        )
    return float(value)
