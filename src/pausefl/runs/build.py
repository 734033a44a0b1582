"""The only place that puts the parts of a run together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pausefl.errors import InvalidValueError, require
from pausefl.privacy import Mechanism, Schedule
from pausefl.privacy.aggregation import Aggregation
from pausefl.privacy.ledger.price import DELTA_LIMIT
from pausefl.rng import stream
from pausefl.runs.config import Config, Privacy
from pausefl.runs.network import build_latency, build_network
from pausefl.runs.policy import build_policy
from pausefl.selection import Policy
from pausefl.selector import Selector
from pausefl.sim.charges import SignalTerms
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import LatencyModel
from pausefl.sim.learner import Learner
from pausefl.types import FloatArray, IntArray


def build(config: Config, *, data_dir: Path | None = None, jobs: int = 1) -> Simulation:
    """Return a simulation that is ready for its first round."""
    clients, latency = config.network.clients, _latency(config)
    policy = build_policy(config, latency)
    learner: Learner | None = None
    sizes: FloatArray | IntArray = np.ones(clients)
    if config.learning.enabled:
        asked = config.server.as_closing().asked(config.selection.per_round)
        learner, sizes = _learner(config, data_dir, jobs, clients if policy.size == "all" else asked)
    return _put_together(config, policy, latency, sizes, learner)


def build_untrained(config: Config, policy: Policy, sizes: FloatArray | IntArray) -> Simulation:
    """Return the simulation of a run without its training, with another policy and with known sizes of data.

    Who is there, how long clients take and what the server knows of them does not depend on the training, except for
    signals and updates that a policy wants to see.
    """
    return _put_together(config, policy, _latency(config), sizes, None)


def _latency(config: Config) -> LatencyModel:
    clients, latency = config.network.clients, build_latency(config.network, config.run.seed)
    require(
        len(latency) == clients,
        "network.clients",
        clients,
        f"{len(latency)} as in the trace",
        f"set it to {len(latency)}",
    )
    return latency


def _put_together(
    config: Config, policy: Policy, latency: LatencyModel, sizes: FloatArray | IntArray, learner: Learner | None
) -> Simulation:
    seed, labels = config.run.seed, None
    if config.network.clusters is not None:
        labels = stream(seed, "clusters").integers(0, config.network.clusters, config.network.clients)
    mechanism = _mechanism(config.privacy) if config.privacy.enabled and learner is not None else None
    selection, schedule, signals = config.selection, config.privacy.as_schedule(), None
    if policy.signals:
        schedule, signals = signal_terms(config)
    selector = Selector(
        sizes, selection.per_round, policy, alpha=selection.alpha, beta=selection.beta,
        gamma=selection.gamma, zeta=selection.zeta, schedule=schedule,
        tau_min=config.network.tau_min, clusters=labels, rho=selection.rho, memory=selection.memory, seed=seed,
    )  # fmt: skip
    server = config.server
    return Simulation(
        selector, build_network(config.network, latency, labels, seed), learner=learner, mechanism=mechanism,
        aggregation=Aggregation(server.aggregation, server.step, server.average),
        seed=seed, evaluate_every=config.run.evaluate_every, rehearsal=config.network.rehearsal,
        signals=signals, closing=config.server.as_closing(),
    )  # fmt: skip


def signal_terms(config: Config) -> tuple[Schedule, SignalTerms]:
    """Return how the budget is spread over updates, and on which terms signals are told, where a policy wants them."""
    whole, settings = config.privacy.as_schedule(), config.signals.as_signals()
    updates, told = settings.parts(whole)
    if settings.kind == "bare" or not config.privacy.enabled:
        bare = replace(settings, kind="bare")
        return whole, SignalTerms(bare, None, whole.budget, config.signals.seconds_share)
    return updates, SignalTerms(settings, told, whole.budget, config.signals.seconds_share)


def _learner(config: Config, data_dir: Path | None, jobs: int, most: int) -> tuple[Learner, IntArray]:
    """Return who trains, and how many examples each client has; ``most`` clients train in one round."""
    from pausefl.learn.client_data import DataSpec, load_client_data  # torch: only where something is trained
    from pausefl.learn.learners import learner_for
    from pausefl.learn.models import build_model, has_batch_norm
    from pausefl.learn.optimizer import LocalPlan, Optimizer
    from pausefl.learn.record_gradients import try_record_gradients

    learning, seed = config.learning, config.run.seed
    spec = DataSpec(**config.data.model_dump(), features=learning.features)
    data = load_client_data(spec, config.network.clients, seed=seed, data_dir=data_dir, device=learning.device)
    net = build_model(learning.model, data.shape, data.classes, int(stream(seed, "model").integers(2**62)))
    if config.privacy.enabled and config.privacy.batch_norm == "refuse" and has_batch_norm(net):
        raise InvalidValueError("privacy.batch_norm is 'refuse', but the model has batch norms; set it to 'keep-local'")
    if config.privacy.enabled and config.privacy.unit == "record":
        try_record_gradients(net, data.shape)
    plan = LocalPlan(
        Optimizer(learning.optimizer, learning.lr, learning.momentum), learning.batch, learning.epochs,
        learning.max_steps or None, learning.optimizer_state,
    )  # fmt: skip
    return learner_for(net, data, plan, seed=seed, most=most, jobs=jobs), data.sizes


def _mechanism(privacy: Privacy) -> Mechanism:
    mechanism = privacy.as_mechanism()
    fine, most = mechanism.guarantee.delta <= DELTA_LIMIT, f"at most {DELTA_LIMIT:g}, the limit of a client's life"
    require(
        fine, "privacy.delta", mechanism.guarantee.delta, most, "lower it, or no client could ever release anything"
    )
    return mechanism
