"""The policy of a run: by name or of the user's own, made with its options, and tried before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
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


def build_policy(config: Config, latency: LatencyModel) -> Policy:
    """Return the policy of a run; a class of the user's own has played a few made-up rounds before."""
    selection = config.selection
    if is_own(selection):
        try_policy(config)
        return _own_policy(selection)
    check_options(selection.policy, _named_options(selection.policy), selection.options)
    if selection.policy == Fastest.name:
        return Fastest(latency.expected())
    kind = POLICIES[selection.policy]
    keys = {name: getattr(selection, name) for name in _KEYS if name in (option_names(kind) or [])}
    given = {name: value for name, value in keys.items() if value is not None}
    return kind(**given, **selection.options)


def is_own(selection: SelectionSection) -> bool:
    """Whether the policy is a class of the user's own, named by its import path."""
    return ":" in selection.policy


def own_options(selection: SelectionSection) -> dict[str, Any]:
    """Return those of the options that are this policy's; a class of the user's own may take any."""
    if is_own(selection):
        return dict(selection.options)
    known = _named_options(selection.policy)
    return {name: value for name, value in selection.options.items() if name in known}


def try_policy(config: Config) -> None:
    """Play some rounds of a small made-up problem with a class of the user's own, and continue from its state."""
    selection = config.selection
    clients = min(config.network.clients, _TRIAL_CLIENTS)

    def fresh() -> Selector:
        return Selector(
            np.arange(1.0, clients + 1), min(selection.per_round, clients), _own_policy(selection),
            alpha=selection.alpha, beta=selection.beta, gamma=selection.gamma, zeta=selection.zeta, rho=selection.rho,
            clusters=None if config.network.clusters is None else np.arange(clients) % config.network.clusters,
            tau_min=config.network.tau_min,
        )  # fmt: skip

    tried = fresh()
    try:
        for number in range(_TRIAL_ROUNDS):
            there = np.arange(clients) != number  # one is away, if others are left
            chosen = tried.select(there if clients > 1 else None, allow_fewer=True)
            updates = {client: np.full(4, float(client)) for client in chosen} if tried.policy.learns else None
            tried.observe({client: config.network.tau_min * (1.0 + float(client)) for client in chosen}, updates)
        fresh().restore(*tried.state())
    except PauseError:
        raise
    except Exception as error:  # whatever a class of somebody's own may raise
        raise UserCodeError(f"policy {selection.policy!r} failed in a trial ({reason(error)}); mend it") from error


def _named_options(name: str) -> list[str]:
    """Return what may stand in ``[selection.options]``."""
    if name == Fastest.name:
        return []  # the latencies that it takes are the network's
    policy_by_name(name)  # refuses a name that is not known
    return [option for option in option_names(POLICIES[name]) or [] if option not in _KEYS]


def _own_policy(selection: SelectionSection) -> Policy:
    path = selection.policy
    kind: Callable[..., Policy] = imported(path, "selection.policy")
    try:
        known = option_names(kind)
    except (TypeError, ValueError):  # nothing that can be called, or nothing that tells its arguments
        known = None
    check_options(path, known, selection.options)
    try:
        made = kind(**selection.options)
    except Exception as error:  # whatever a class of somebody's own may raise
        raise InvalidValueError(
            f"selection.policy is {path!r}, but cannot be made ({reason(error)}); it is called with selection.options"
        ) from error
    if not isinstance(made, Policy):
        raise InvalidValueError(f"selection.policy is {path!r}, but makes no Policy; subclass pausefl.Policy")
    return made
