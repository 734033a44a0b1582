"""Tasks on which policies are compared at equal epsilon: data, who holds what, network, and what is protected."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Strict

from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.runs.run_data import RunData
from pausefl.selection import POLICIES, Fastest
from pausefl.studies.measured.units import UNITS

Split: TypeAlias = Literal["iid", "labels"]
Net: TypeAlias = Literal["stable", "rough", "devices", "large"]
Unit: TypeAlias = Literal["update", "record"]
Setting: TypeAlias = Annotated[tuple[str, Split, Net, Unit], Strict(False)]
"""Data, who holds what, network, and what is protected; TOML has lists for it."""

REFERENCE = "random"
_REFERENCE_SEED = 100
_SHARE = 0.95
"""The target: this share of what the reference policy reaches in the end, with another seed."""

SCALES: dict[Unit, dict[str, Any]] = {
    "update": {"clients": 300, "per_round": 15, "rounds": 40, "budget": 10.0, "releases": 2, "step": 0.2,
               "learning": {"features": "hog", "lr": 0.1, "epochs": 8}, "signals": "bit"},
    "record": {"clients": 30, "per_round": 5, "rounds": 120, "budget": 1.0, "releases": 20, "step": 1.0,
               "learning": {"features": "hog-centred", "lr": 1.5}, "signals": "noised"},
}  # fmt: skip
"""How each unit is played: sizes for which models learn under it."""

_LARGE = {"clients": 1000, "per_round": 30, "rounds": 66}

_WORDS = {"iid": "equal data", "labels": "unequal data", "stable": "stable network", "rough": "rough network",
          "devices": "phones", "large": "1,000 clients", "update": "whole update protected",
          "record": "single records protected"}  # fmt: skip


def task_name(data: str, split: str, network: str, unit: str) -> str:
    """Return a setting in words."""
    return ", ".join([data, *(_WORDS[word] for word in (split, network, unit))])


def task(setting: Setting, policy: str, seed: int, share: float = 1.0, **weights: float) -> Config:
    """Return the run of a policy in a setting, with this share of its rounds; ``weights`` go to the selector.

    The rough network has clients that come and go, answers that never arrive, and a tenth of the clients become 20
    times slower after a third of the run.  ``devices`` are measured speeds of phones.  ``large`` has 1,000 clients and
    log-normal latencies.
    """
    data, split, network, unit = setting
    scale = SCALES[unit] | (_LARGE if network == "large" else {})
    clients, per_round, rounds = scale["clients"], scale["per_round"], max(2, int(scale["rounds"] * share))
    needs = frozenset() if policy == Fastest.name else POLICIES[policy]().needs
    selection: dict[str, Any] = {"policy": policy, "per_round": per_round, **weights}
    links: dict[str, Any] = {"clients": clients, "rehearsal": "latency" in needs}
    if network == "rough":
        selection["memory"] = 20 * clients // per_round
        links |= {
            "availability": "on-off", "leave": 0.1, "back": 0.5, "straggle": 0.05, "deadline": 2.0,
            "drift_at": max(1, rounds // 3), "drift_share": 0.1, "drift_factor": 20.0,
        }  # fmt: skip
    elif network == "devices":
        links["latency"] = "devices"
    elif network == "large":
        links |= {"latency": "lognormal", "mean": 0.2, "slowest": 1.0, "spread": 0.3}
    return make_config({
        "data": {"name": data, "partition": split, **({"concentration": 0.5} if split == "labels" else {})},
        "network": links, "selection": selection,
        "privacy": {"budget": scale["budget"], "releases": scale["releases"], **UNITS[unit]},
        "signals": {"kind": scale["signals"]},
        "learning": {"model": "softmax", "optimizer": "sgd", "optimizer_state": "fresh", "batch": 0,
                     **scale["learning"]},
        "server": {"step": scale["step"], "average": 0.9}, "run": {"rounds": rounds, "seed": seed},
    })  # fmt: skip


def target(setting: Setting, share: float = 1.0) -> float:
    """Return the accuracy to be reached: it depends on the task, and a rough network makes it no easier."""
    data, split, network, unit = setting
    return _target((data, split, "stable" if network == "rough" else network, unit), share)


@cache
def _target(setting: Setting, share: float) -> float:
    run, _ = played(setting, REFERENCE, _REFERENCE_SEED, share)
    return round(_SHARE * (run.final_accuracy() or 0.0), 2)


def played(setting: Setting, policy: str, seed: int, share: float = 1.0, **weights: float) -> tuple[RunData, float]:
    """Return a run, and the mean accuracy of its model on the tenth of the clients that it serves worst."""
    config = task(setting, policy, seed, share, **weights)
    simulation = build(config)
    try:
        records = list(simulation.play(config.run.rounds, pause_every=config.run.rounds))
        each = np.sort(simulation.client_accuracies())
        return RunData(config.title, config, records, None), float(each[: max(1, len(each) // 10)].mean())
    finally:
        simulation.close()


def outcome(run: RunData, target: float) -> dict[str, float]:
    """Return what the studies keep of a run; the seconds are infinite if it never gets to the target."""
    reached = run.time_to(target)
    return {
        "seconds": np.inf if reached is None else reached,
        "all_seconds": float(run.column("seconds")[-1]),
        "accuracy": run.final_accuracy() or 0.0,
        "leakage": float(np.nanmax(run.column("max_leakage"))),
    }
