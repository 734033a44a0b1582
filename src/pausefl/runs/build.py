"""The only place that puts the parts of a run together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pausefl.errors import InvalidValueError, MissingExtraError, require
from pausefl.privacy import MECHANISMS, SCHEDULES, Mechanism, Schedule
from pausefl.rng import stream
from pausefl.runs.config import Config, NetworkSection, Privacy
from pausefl.selection import PUBLISHED_KAPPA, Annealer, Fastest, Policy, SaPause, SaPauseAsPublished, policy_by_name
from pausefl.selection.annealing import DEFAULT_KAPPA
from pausefl.selector import Selector
from pausefl.sim.availability import Availability, AvailabilityTrace, Bernoulli, OnOff
from pausefl.sim.engine import PrivacyPlan, Simulation
from pausefl.sim.latency import FlooredNormal, LatencyModel, Quantile, Trace, two_groups
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
    schedule = build_schedule(config.privacy)
    private = config.privacy.enabled and learner is not None
    plan = PrivacyPlan(_mechanism(config.privacy), schedule) if private else None
    selection = config.selection
    selector = Selector(
        sizes, selection.per_round, policy, alpha=selection.alpha, beta=selection.beta,
        gamma=selection.gamma, zeta=selection.zeta, schedule=schedule, tau_min=config.network.tau_min,
        clusters=labels, rho=selection.rho, seed=seed,
    )  # fmt: skip
    network = Network(
        latency, seed, _availability(config), config.network.dropout, config.network.deadline, labels,
        config.network.congestion,
    )  # fmt: skip
    return Simulation(
        selector, network, learner=learner, privacy=plan, seed=seed, evaluate_every=config.run.evaluate_every
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


def build_schedule(privacy: Privacy) -> Schedule:
    """Return how a budget is spread over releases."""
    return SCHEDULES[privacy.schedule].from_settings(privacy.model_dump())


def _mechanism(privacy: Privacy) -> Mechanism:
    return MECHANISMS[privacy.mechanism].from_settings(privacy.model_dump())


def build_latency(network: NetworkSection) -> LatencyModel:
    """Return how long clients take."""
    if network.latency == "two-groups":
        return two_groups(network.clients, network.tau_min)
    if network.latency == "trace":
        return Trace(_table(network.trace, "network.trace"))
    means = np.linspace(network.mean, network.slowest or network.mean, network.clients)
    if network.latency == "normal":
        return FlooredNormal(means, network.spread, network.tau_min)
    return Quantile(network.latency, means, network.spread, network.tau_min)


def _availability(config: Config) -> Availability | None:
    network = config.network
    if network.availability == "bernoulli":
        return Bernoulli(network.probability)
    if network.availability == "on-off":
        return OnOff(network.leave, network.back)
    if network.availability == "trace":
        return AvailabilityTrace(_table(network.availability_trace, "network.availability_trace") > 0.5)
    return None


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


def _table(path: str | None, name: str) -> FloatArray:
    if path is None:
        raise InvalidValueError(f"{name} is missing, but a trace is asked for; name a CSV file")
    try:
        table: FloatArray = np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise InvalidValueError(
            f"{name} is {path!r}, but cannot be read ({error}); a row per round, numbers only"
        ) from None
    return table
