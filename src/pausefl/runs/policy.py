"""The policy of a run: by name or of the user's own, made with its options, and tried before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pausefl.errors import InvalidValueError, PauseError, UserCodeError
from pausefl.runs.config import Config, SelectionSection
from pausefl.selection import POLICIES, Fastest, Policy, check_options, option_names, policy_by_name
from pausefl.selector import Selector
from pausefl.sim.latency import LatencyModel
from pausefl.system.import_path import imported, reason

_KEYS = ("steps", "kappa")
"""Options of the annealers that are keys of ``[selection]`` itself."""
_TRIAL_CLIENTS, _TRIAL_ROUNDS = 20, 3
_LONGEST_NAME = 60


def build_policy(config: Config, latency: LatencyModel) -> Policy:
    """Return the policy of a run; a class of the user's own has played a few made-up rounds before."""
    selection = config.selection
    if is_own(selection):
        try_policy(config)
        return _own_policy(selection)
    check_options(selection.policy, known_options(selection), selection.options)
    if selection.policy == Fastest.name:
        return Fastest(latency.expected())
    kind = POLICIES[selection.policy]
    keys = {name: getattr(selection, name) for name in _KEYS if name in (option_names(kind) or [])}
    given = {name: value for name, value in keys.items() if value is not None}
    return kind(**given, **deepcopy(selection.options))


def is_own(selection: SelectionSection) -> bool:
    """Whether the policy is a class of the user's own, named by its import path."""
    return ":" in selection.policy


def own_name(config: Config, policy: Policy) -> str | None:
    """Return what a class of the user's own calls itself; None if it has no name, or that of one of ours."""
    name = getattr(policy, "name", None)
    if not is_own(config.selection) or not isinstance(name, str) or name in (*POLICIES, Fastest.name):
        return None
    return " ".join(name.split())[:_LONGEST_NAME] or None


def own_options(selection: SelectionSection) -> dict[str, Any]:
    """Return those of the options that this policy takes."""
    known = known_options(selection) if selection.options else None  # without options, no code is imported
    return {name: value for name, value in selection.options.items() if known is None or name in known}


def try_policy(config: Config) -> None:
    """Play some rounds of a small made-up problem with a class of the user's own, and continue from its state."""
    selection = config.selection
    clients = min(config.network.clients, _TRIAL_CLIENTS)
    tried = Selector(
        np.arange(1.0, clients + 1), min(selection.per_round, clients), _own_policy(selection),
        alpha=selection.alpha, beta=selection.beta, gamma=selection.gamma, zeta=selection.zeta, rho=selection.rho,
        clusters=None if config.network.clusters is None else np.arange(clients) % config.network.clusters,
        tau_min=config.network.tau_min,
    )  # fmt: skip
    try:
        for number in range(_TRIAL_ROUNDS):
            there = np.arange(clients) != number  # one is away, if others are left
            present = there if clients > 1 else None
            asked = tried.asked(present, allow_fewer=True)
            tried.hear({name: {client: 0.5 + float(client) for client in asked} for name in tried.policy.signals})
            chosen = tried.select(present, allow_fewer=True)
            tried.hear({name: dict.fromkeys(chosen, 0.5) for name in tried.policy.signals})
            updates = {client: np.full(4, float(client)) for client in chosen} if tried.policy.learns else None
            tried.observe({client: config.network.tau_min * (1.0 + float(client)) for client in chosen}, updates)
        with TemporaryDirectory() as folder:
            tried.save(Path(folder) / "state")
            Selector.load(Path(folder) / "state", policy=_own_policy(selection)).select()
    except (PauseError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # whatever a class of somebody's own may raise, sys.exit() too
        raise UserCodeError(
            f"policy {selection.policy!r} failed in a trial ({reason(error)}); change its code so that the trial passes"
        ) from error


def known_options(selection: SelectionSection) -> list[str] | None:
    """Return what may stand in ``[selection.options]`` for this policy; None if anything may."""
    if is_own(selection):
        try:
            return option_names(imported(selection.policy, "selection.policy"))
        except (TypeError, ValueError):  # nothing that can be called, or nothing that tells its arguments
            return None
    if selection.policy == Fastest.name:
        return []  # the latencies that it takes are the network's
    policy_by_name(selection.policy)  # refuses a name that is not known
    return [option for option in option_names(POLICIES[selection.policy]) or [] if option not in _KEYS]


def _own_policy(selection: SelectionSection) -> Policy:
    path = selection.policy
    kind: Callable[..., Policy] = imported(path, "selection.policy")
    check_options(path, known_options(selection), selection.options)
    try:
        made = kind(**deepcopy(selection.options))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # whatever a class of somebody's own may raise, sys.exit() too
        raise InvalidValueError(
            f"selection.policy is {path!r}, but cannot be made ({reason(error)}); it must accept the arguments in "
            "selection.options"
        ) from error
    if not isinstance(made, Policy):
        raise InvalidValueError(
            f"selection.policy is {path!r}, but does not make a Policy; let it be a subclass of pausefl.Policy"
        )
    return made
