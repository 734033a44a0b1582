"""Constructor arguments of a selector, as stored in a state file: written, compared, and read back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from pausefl.errors import StateFileError, shown
from pausefl.selection import POLICIES, Policy, policy_by_name
from pausefl.selection.policy_contract import described
from pausefl.selector.client_schedules import Schedules, first_difference, loaded_schedules
from pausefl.selector.decision import Phi

WEIGHTS = ("alpha", "beta", "gamma", "zeta", "rho", "tau_min")
_SHOWN = 80
_REMEDIES = {
    "schedule": "pass the schedule of the state, because a budget is for life",
    "ids": "pass the clients of the state, in the same order",
    "clusters": "pass the clusters of the state, with the changes that join has made",
    "prior": "pass the prior of the state, and call expect with what is new",
}
_REMEDY = "pass the value of the state, or start without this state"


def stored_phi(phi: Phi | None) -> str | None:
    """Return by what a set function is known: a function by its name, a dataclass also by its values."""
    if phi is None or not is_dataclass(phi):
        return None if phi is None else str(getattr(phi, "__qualname__", type(phi).__qualname__))
    values = described(phi).encode(errors="replace")
    return f"{type(phi).__qualname__} {blake2b(values, digest_size=8).hexdigest()}"


def check_same(
    mine: tuple[Mapping[str, Any], Mapping[str, Any]],
    stored: tuple[Mapping[str, Any], Mapping[str, Any]],
    policy: Policy,
) -> None:
    """Refuse the state of a selector that was made with other arguments, whichever of them differs.

    Data sizes are not compared: ``join`` may have changed them, so the stored ones win.
    """
    for name, here, there in _pairs(mine, stored):
        as_before = repr(policy) if is_dataclass(policy) else policy.name  # as earlier files have it
        if here != there and not (name == "policy" and there == as_before):
            shown = _from_difference(str(there), str(here))
            raise StateFileError(
                f"the state belongs to another selector: its {name} is {shown[0]}, but here it is {shown[1]}; "
                f"{_REMEDIES.get(name.partition(' of client')[0], _REMEDY)}"
            )


def stored_arguments(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, Any],
    policy: str | Policy | None, schedule: Schedules | None, phi: Phi | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments with which the saved selector was made; those that are passed again come as they are."""
    ids = range(len(arrays["sizes"])) if header["ids"] is None else header["ids"]
    sizes = arrays["sizes"] if header["ids"] is None else dict(zip(ids, arrays["sizes"], strict=True))
    if schedule is None:
        schedule = loaded_schedules(path, header, arrays, ids)
    return {
        "sizes": sizes, "per_round": header["per_round"], "policy": policy or _policy(path, header), **header["reward"],
        "schedule": schedule, "clusters": arrays.get("clusters"), "phi": phi,
        "prior": arrays.get("prior"), "memory": header.get("memory"), "warm_up": header.get("warm_up", 0),
        "seed": header["seed"],
    }  # fmt: skip


def _pairs(
    mine: tuple[Mapping[str, Any], Mapping[str, Any]], stored: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each argument with its value here and in the state."""
    (here, columns), (there, kept) = mine, stored
    yield "number of clients", len(columns["sizes"]), len(kept["sizes"])
    for name in ("ids", "per_round", "policy", "class", "settings", "seed"):
        yield {"class": "policy's class", "settings": "policy"}.get(name, name), here[name], there[name]
    yield "memory", here["memory"], there.get("memory")  # older files have neither
    yield "warm_up", here["warm_up"], there.get("warm_up", 0)
    for name in WEIGHTS:
        yield name, here["reward"][name], there["reward"][name]
    if "schedules" in here or "schedules" in there:
        differs = first_difference(mine, stored)
        if differs is not None:
            row, one, other = differs
            yield f"schedule of client {shown(row if here['ids'] is None else here['ids'][row])}", one, other
    elif there["schedule"] is not None or "own" not in here["schedule"]:  # older files keep None for the user's own
        yield "schedule", here["schedule"], there["schedule"] or "one of your own"
    older = isinstance(there["phi"], bool)  # older files only say whether there is one
    yield "phi", here["phi"] is not None if older else here["phi"], there["phi"]
    for name in ("clusters", "prior"):
        yield name, *_columns(columns.get(name), kept.get(name))


def _columns(here: Any, there: Any) -> tuple[str, str]:
    """Return the two columns in words: equal words if they are equal, else the first client in which they differ."""
    if here is None or there is None:
        return "None" if here is None else "set", "None" if there is None else "set"
    other = np.flatnonzero((here != there) & ((here == here) | (there == there)))  # NaN, the unknown, is NaN
    if not len(other):
        return "set", "set"
    return f"{here[other[0]]} for client number {other[0]}", f"{there[other[0]]} for client number {other[0]}"


def _from_difference(one: str, other: str) -> tuple[str, str]:
    """Return two texts short enough for a message, cut so that it shows where they begin to differ."""
    if max(len(one), len(other)) <= _SHOWN:
        return one, other
    alike = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, alike - _SHOWN // 2)
    before = "…" if start else ""
    return before + one[start : start + _SHOWN], before + other[start : start + _SHOWN]


def _policy(path: str | os.PathLike[str], header: dict[str, Any]) -> Policy:
    """Return the policy that was saved, if its name and default settings tell all there is to it."""
    name = header["policy"]
    default = policy_by_name(name) if name in POLICIES else None
    if default is None or type(default).__qualname__ != header["class"] or default.settings() != header["settings"]:
        raise StateFileError(f"{path} was saved with your own policy {shown(name)}; pass it again as policy=…")
    return default
