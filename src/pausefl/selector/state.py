"""What a state file says of a selector's making, and how it comes back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pausefl.errors import StateFileError
from pausefl.privacy.schedule import describe_schedule, described_schedule
from pausefl.selection import POLICIES, Policy, policy_by_name
from pausefl.selector.round import Phi
from pausefl.types import BudgetSchedule


def plain(value: Any) -> Any:
    """Return a numpy number as a Python one, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def check_same(mine: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Refuse a state of a selector that was made with other arguments."""
    for name in ("ids", "per_round", "policy", "settings"):
        if mine[name] != header[name]:
            raise StateFileError(
                f"the state is of another selector: its {name} is {str(header[name])[:80]}, not "
                f"{str(mine[name])[:80]}; pass the same"
            )


def stored_arguments(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, Any],
    policy: str | Policy | None, schedule: BudgetSchedule | None, phi: Phi | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments with which the saved selector was made; what is passed again must be the same."""
    chosen = policy_by_name(policy) if isinstance(policy, str) else policy or _policy(path, header)
    if (chosen.name, chosen.settings()) != (header["policy"], header["settings"]):
        raise StateFileError(
            f"{path} was saved with policy {header['policy']!r} ({header['settings'][:80]}), not with "
            f"{chosen.name!r} ({chosen.settings()[:80]}); pass the same"
        )
    if header["phi"] != (phi is not None):
        raise StateFileError(f"{path} was saved with{'' if header['phi'] else 'out'} a set function phi; pass the same")
    sizes = arrays["sizes"] if header["ids"] is None else dict(zip(header["ids"], arrays["sizes"], strict=True))
    return {
        "sizes": sizes, "per_round": header["per_round"], "policy": chosen, **header["reward"],
        "schedule": _schedule(path, header, schedule), "clusters": arrays.get("clusters"), "phi": phi,
        "seed": header["seed"],
    }  # fmt: skip


def _schedule(path: str | os.PathLike[str], header: dict[str, Any], given: BudgetSchedule | None) -> BudgetSchedule:
    """Return the schedule that was saved; one that is passed again must be the same."""
    stored = header["schedule"]
    if given is not None:
        if stored is not None and describe_schedule(given) != stored:
            raise StateFileError(
                f"{path} was saved with schedule {stored}, and a budget is for life; pass the same or none"
            )
        return given
    if stored is None:
        raise StateFileError(f"{path} was saved with a schedule of your own; pass it again as schedule=…")
    return described_schedule(stored)


def _policy(path: str | os.PathLike[str], header: dict[str, Any]) -> Policy:
    """Return the policy that was saved, if its name and default settings tell all there is to it."""
    name = header["policy"]
    default = policy_by_name(name) if name in POLICIES else None
    if default is None or type(default).__qualname__ != header["class"] or default.settings() != header["settings"]:
        raise StateFileError(f"{path} was saved with a policy {name!r} of your own making; pass it again as policy=…")
    return default
