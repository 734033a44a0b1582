"""The only place that puts the parts of a run together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pausefl.errors import InvalidValueError, MissingExtraError, require
from pausefl.privacy import MECHANISMS, Mechanism
from pausefl.rng import stream
from pausefl.runs.config import Config, Privacy
from pausefl.runs.network import build_availability, build_latency
from pausefl.selection import PUBLISHED_KAPPA, Annealer, Fastest, Policy, SaPause, SaPauseAsPublished, policy_by_name
from pausefl.selection.annealing import DEFAULT_KAPPA
from pausefl.selector import Selector
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import LatencyModel
from pausefl.sim.learner import Learner
from pausefl.sim.network import Network
from pausefl.system.import_path import imported, reason
from pausefl.types import FloatArray, IntArray


def build(config: Config, *, data_dir: Path | None = None, jobs: int = 1) -> Simulation:
    """Return a simulation that is ready for its first round."""
    seed, clients = config.run.seed, config.network.clients
    latency = build_latency(config.network)
    require(len(latency) == clients, "network.clients", clients, f"{len(latency)} as in the trace", "make them agree")
    policy = _policy(config, latency)
    learner: Learner | None = None
    sizes: FloatArray | IntArray = np.ones(clients)
    if config.learning.enabled:
        learner, sizes = _learner(
            config, data_dir, jobs, clients if policy.size == "all" else config.selection.per_round
        )
    labels = None
    if config.network.clusters is not None:
        labels = stream(seed, "clusters").integers(0, config.network.clusters, clients)
    mechanism = _mechanism(config.privacy) if config.privacy.enabled and learner is not None else None
    selection = config.selection
    selector = Selector(
        sizes, selection.per_round, policy, alpha=selection.alpha, beta=selection.beta,
        gamma=selection.gamma, zeta=selection.zeta, schedule=config.privacy.as_schedule(),
        tau_min=config.network.tau_min, clusters=labels, rho=selection.rho, seed=seed,
    )  # fmt: skip
    network = Network(
        latency, seed, build_availability(config.network), config.network.dropout, config.network.deadline, labels,
        config.network.congestion,
    )  # fmt: skip
    return Simulation(
        selector, network, learner=learner, mechanism=mechanism, seed=seed, evaluate_every=config.run.evaluate_every
    )


def _learner(config: Config, data_dir: Path | None, jobs: int, most: int) -> tuple[Learner, IntArray]:
    try:
        from pausefl.learn.build import build_learner
    except ImportError:
        raise MissingExtraError("training needs the 'learn' extra; run: pip install 'pausefl[learn]'") from None

    learning, data = config.learning, config.data
    return build_learner(
        data=data.name, data_dir=data_dir, train_size=data.train_size, partition=data.partition,
        concentration=data.concentration, dominant=data.dominant, clients=config.network.clients, model=learning.model,
        optimizer=learning.optimizer, lr=learning.lr, momentum=learning.momentum, batch=learning.batch,
        epochs=learning.epochs, max_steps=learning.max_steps or None, optimizer_state=learning.optimizer_state,
        device=learning.device, seed=config.run.seed, most=most, jobs=jobs,
        refuse_batch_norm=config.privacy.enabled and config.privacy.batch_norm == "refuse",
    )  # fmt: skip


def _mechanism(privacy: Privacy) -> Mechanism:
    return MECHANISMS[privacy.mechanism].from_settings(privacy.model_dump())


def _policy(config: Config, latency: LatencyModel) -> Policy:
    selection = config.selection
    if selection.policy == "fastest":
        return Fastest(latency.expected())
    if selection.policy == SaPause.name:
        return SaPause(Annealer(steps=selection.steps, kappa=selection.kappa or DEFAULT_KAPPA))
    if selection.policy == SaPauseAsPublished.name:
        return SaPauseAsPublished(selection.steps, selection.kappa or PUBLISHED_KAPPA)
    if ":" in selection.policy:
        return _own_policy(selection.policy)
    return policy_by_name(selection.policy)


def _own_policy(path: str) -> Policy:
    kind = imported(path, "selection.policy")
    try:
        made = kind()
    except Exception as error:  # whatever a class of somebody's own may raise
        raise InvalidValueError(
            f"selection.policy is {path!r}, but cannot be made ({reason(error)}); it is called without arguments"
        ) from error
    if not isinstance(made, Policy):
        raise InvalidValueError(f"selection.policy is {path!r}, but makes no Policy; subclass pausefl.Policy")
    return made
