"""The fastest learner for a network."""

from __future__ import annotations

from pausefl.learn.client_data import ClientData
from pausefl.learn.dense_learner import DenseLearner
from pausefl.learn.dense_network import dense_shape
from pausefl.learn.module_learner import ModuleLearner
from pausefl.learn.optimizer import LocalPlan
from pausefl.learn.torch_import import nn, torch
from pausefl.sim.learner import Learner


def learner_for(net: nn.Module, data: ClientData, plan: LocalPlan, *, seed: int, most: int, jobs: int = 1) -> Learner:
    """Return a learner: all clients at once if the network is dense, else one by one in ``jobs`` processes.

    ``most`` is the largest number of clients that train in one round.
    """
    torch.set_num_threads(1)  # more processes help on small machines, more threads do not
    shape = dense_shape(net)
    if shape is not None:
        return DenseLearner(net, shape, data, plan, seed)
    return ModuleLearner(net, data, plan, seed, most, jobs)
