"""The only place that puts the parts of a run together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pausefl.errors import InvalidValueError, require
from pausefl.privacy import Mechanism
from pausefl.privacy.aggregation import Aggregation
from pausefl.privacy.ledger.price import DELTA_LIMIT
from pausefl.rng import stream
from pausefl.runs.config import Config, Privacy
from pausefl.runs.network import build_availability, build_latency
from pausefl.runs.policy import build_policy
from pausefl.selector import Selector
from pausefl.sim.engine import Simulation
from pausefl.sim.learner import Learner
from pausefl.sim.network import Network
from pausefl.types import FloatArray, IntArray


def build(config: Config, *, data_dir: Path | None = None, jobs: int = 1) -> Simulation:
    """Return a simulation that is ready for its first round."""
    seed, clients = config.run.seed, config.network.clients
    latency = build_latency(config.network)
    require(len(latency) == clients, "network.clients", clients, f"{len(latency)} as in the trace", "make them agree")
    policy = build_policy(config, latency)
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
    server = config.server
    return Simulation(
        selector, network, learner=learner, mechanism=mechanism,
        aggregation=Aggregation(server.aggregation, server.step, server.average),
        seed=seed, evaluate_every=config.run.evaluate_every, rehearsal=config.network.rehearsal,
    )  # fmt: skip


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
        raise InvalidValueError("privacy.batch_norm is 'refuse', but the model has batch norms; choose 'keep-local'")
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
    require(fine, "privacy.delta", mechanism.guarantee.delta, most, "no release could ever be made")
    return mechanism
