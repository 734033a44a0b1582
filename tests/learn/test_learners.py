"""Stacked training, one-by-one training and PyTorch's own must agree."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pausefl.learn.client_data import ClientData
from pausefl.learn.learners import DenseLearner, ModuleLearner, learner_for
from pausefl.learn.models import build_model, cnn3
from pausefl.learn.optimizer import LocalPlan, Optimizer
from pausefl.learn.stacked_networks import dense_shape

MEMBERS = np.array([4, 0, 2])


def client_data(side: int = 6, channels: int = 1, sizes: tuple[int, ...] = (21, 40, 7, 33, 64)) -> ClientData:
    torch.manual_seed(0)
    total = sum(sizes)
    cuts = np.cumsum((0, *sizes))
    return ClientData(
        torch.randn(total, channels, side, side),
        torch.randint(0, 5, (total,)),
        torch.randn(130, channels, side, side),
        torch.randint(0, 5, (130,)),
        [np.arange(a, b) for a, b in pairwise(cuts)],
    )


def net(side: int = 6) -> nn.Module:
    return build_model("mlp", (1, side, side), 5, seed=1)


def dense(plan: LocalPlan) -> DenseLearner:
    model = net()
    shape = dense_shape(model)
    assert shape is not None
    return DenseLearner(model, shape, client_data(), plan, seed=9)


PLANS = {
    "adam, kept": LocalPlan(batch=8, epochs=2),
    "adam, fresh": LocalPlan(batch=8, optimizer_state="fresh", max_steps=3),
    "sgd": LocalPlan(Optimizer("sgd", lr=0.1), batch=5),
    "momentum": LocalPlan(Optimizer("sgd", lr=0.1, momentum=0.9), batch=64, max_steps=None),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_training_equals_pytorchs(plan: LocalPlan) -> None:
    data, learner = client_data(), dense(plan)
    one_by_one = ModuleLearner(net(), data, plan, seed=9, most=5)
    model = learner.initial()
    reference: dict[int, torch.optim.Optimizer] = {}
    nets: dict[int, nn.Module] = {}
    for number in (1, 2):
        stacked, single = learner.train(model, MEMBERS, number), one_by_one.train(model, MEMBERS, number)
        for row, client in enumerate(MEMBERS.tolist()):
            if client not in nets or plan.optimizer_state == "fresh":
                nets[client] = net()
                reference[client] = (
                    torch.optim.Adam(nets[client].parameters(), lr=plan.optimizer.lr)
                    if plan.optimizer.kind == "adam"
                    else torch.optim.SGD(nets[client].parameters(), plan.optimizer.lr, plan.optimizer.momentum)
                )
            nn.utils.vector_to_parameters(torch.from_numpy(model.copy()), nets[client].parameters())
            part = data.parts[client]
            for batch in plan.batches(len(part), 9, number, client):
                chosen = torch.from_numpy(part[batch[batch >= 0]])
                reference[client].zero_grad()
                outputs = nets[client](data.train_images[chosen])
                functional.cross_entropy(outputs, data.train_labels[chosen]).backward()
                reference[client].step()
            wanted = nn.utils.parameters_to_vector(nets[client].parameters()).detach().numpy() - model
            assert np.abs(wanted).max() > 1e-3
            np.testing.assert_allclose(stacked[row], wanted, atol=2e-5)
            np.testing.assert_allclose(single[row], wanted, atol=2e-5)
        model = model + stacked.mean(axis=0)


def test_batches_use_every_example_once_per_epoch() -> None:
    plan = LocalPlan(batch=8, epochs=3, max_steps=None)
    table = plan.batches(21, seed=0, number=1, client=5)
    assert table.shape == (9, 8)
    for epoch in table.reshape(3, 24):
        assert sorted(epoch[epoch >= 0].tolist()) == list(range(21))
    assert plan.steps(21) == 9
    assert LocalPlan(batch=8, epochs=3, max_steps=4).batches(21, 0, 1, 5).tolist() == table[:4].tolist()
    assert not (plan.batches(21, seed=0, number=2, client=5) == table).all()


def test_order_and_company_do_not_matter() -> None:
    learner = dense(LocalPlan(batch=8))
    model = learner.initial()
    together = learner.train(model, MEMBERS, 3)
    alone = np.vstack([dense(LocalPlan(batch=8)).train(model, np.array([k]), 3) for k in MEMBERS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    turned = dense(LocalPlan(batch=8)).train(model, MEMBERS[::-1], 3)[::-1]
    assert (together == turned).all()


@pytest.mark.parametrize("kind", ["dense", "module"])
def test_memory_survives_a_checkpoint_to_the_bit(kind: str) -> None:
    def fresh() -> DenseLearner | ModuleLearner:
        plan = LocalPlan(batch=8)
        return dense(plan) if kind == "dense" else ModuleLearner(net(), client_data(), plan, seed=9, most=5)

    straight, stopped = fresh(), fresh()
    model = straight.initial()
    for number in (1, 2):
        model = model + straight.train(model, MEMBERS, number).mean(axis=0)
    stopped.train(stopped.initial(), MEMBERS, 1)
    resumed = fresh()
    resumed.restore({name: np.array(array) for name, array in stopped.state().items()})
    again = stopped.initial() + fresh().train(stopped.initial(), MEMBERS, 1).mean(axis=0)
    assert (again + resumed.train(again, MEMBERS, 2).mean(axis=0) == model).all()


@pytest.mark.parametrize("seed", [9, 10])
def test_what_is_asked_for_reaches_the_learner_of_either_kind(seed: int) -> None:
    """A network whose dropout drops nothing trains alike, but is not stacked."""
    plan, data, model = LocalPlan(Optimizer("sgd", lr=0.1), batch=5, max_steps=3), client_data(), net()
    other = nn.Sequential(*net(), nn.Dropout(0.0))
    kinds = DenseLearner, ModuleLearner
    for found, kind in zip((learner_for(n, data, plan, seed=seed, most=3) for n in (model, other)), kinds, strict=True):
        assert type(found) is kind
        direct = ModuleLearner(net(), data, plan, seed, most=3).train(found.initial(), MEMBERS, 1)
        np.testing.assert_allclose(found.train(found.initial(), MEMBERS, 1), direct, atol=1e-6)
        found.close()


def test_one_process_and_two_give_the_same_numbers() -> None:
    results = []
    for jobs in (1, 2):
        learner = ModuleLearner(
            build_model("cnn3", (3, 32, 32), 5, seed=1), client_data(32, 3, (9, 5, 8)), LocalPlan(batch=4), 9, 3, jobs
        )
        try:
            model = learner.initial()
            model = model + learner.train(model, np.array([2, 0]), 1).mean(axis=0)
            update = learner.train(model, np.array([0, 1]), 2)
            results.append((update.tobytes(), learner.evaluate(model), learner.client_accuracies(model).tolist()))
        finally:
            learner.close()
    assert results[0] == results[1]


def test_scores_match_pytorchs() -> None:
    learner, data = dense(LocalPlan()), client_data()
    model = learner.initial()
    scores = learner.evaluate(model)
    with torch.no_grad():
        outputs = net()(data.test_images)
    assert scores.accuracy == pytest.approx(100 * float((outputs.argmax(1) == data.test_labels).float().mean()))
    assert scores.loss == pytest.approx(float(functional.cross_entropy(outputs, data.test_labels)), rel=1e-5)
    single = ModuleLearner(net(), data, LocalPlan(), 9, 5)
    assert single.evaluate(model).accuracy == pytest.approx(scores.accuracy)
    np.testing.assert_allclose(single.client_accuracies(model), learner.client_accuracies(model))


def test_which_networks_are_stacked() -> None:
    assert dense_shape(net()) is not None
    assert dense_shape(cnn3((3, 32, 32), 10)) is None
    assert dense_shape(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))) is None
    assert dense_shape(nn.Sequential(nn.Linear(4, 3, bias=False))) is None
    assert dense_shape(nn.Linear(4, 3)) is None


class Gathering(nn.Module):
    """Remembers the mean of what it has seen, as a layer of somebody's own might."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(36, 5)
        self.register_buffer("seen", torch.zeros(36))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1)
        if self.training:
            self.seen.mul_(0.5).add_(flat.mean(0), alpha=0.5)
        return self.inner(flat - self.seen)


def test_buffers_carry_nothing_from_one_client_to_another_or_to_the_server() -> None:
    plan = LocalPlan(batch=8)
    learner = ModuleLearner(Gathering(), client_data(), plan, seed=9, most=5)
    model = learner.initial()
    before = learner.evaluate(model)
    learner.train(model, MEMBERS, 1)
    assert learner.evaluate(model) == before
    torch.manual_seed(0)
    alone = ModuleLearner(Gathering(), client_data(), plan, seed=9, most=5)
    first = alone.train(model, np.array([0]), 2)
    assert (
        ModuleLearner(Gathering(), client_data(), plan, 9, 5).train(model, np.array([4, 0]), 2)[1] == first[0]
    ).all()


def test_a_single_example_can_be_scored_under_batch_norm() -> None:
    net = build_model("cnn3", (3, 32, 32), 5, seed=1)
    learner = ModuleLearner(net, client_data(32, 3, (1, 6)), LocalPlan(batch=4), 9, 2)
    assert learner.client_accuracies(learner.initial()).shape == (2,)


def test_frozen_and_shared_layers_are_not_stacked_and_stay_frozen() -> None:
    frozen = nn.Sequential(nn.Flatten(), nn.Linear(36, 6), nn.ReLU(), nn.Linear(6, 5))
    frozen[1].requires_grad_(False)
    assert dense_shape(frozen) is None
    before = frozen[1].weight.clone()
    learner = ModuleLearner(frozen, client_data(), LocalPlan(batch=8), 9, 5)
    assert learner.train(learner.initial(), MEMBERS, 1).shape == (3, 6 * 5 + 5)
    assert torch.equal(frozen[1].weight, before)
    square = nn.Linear(6, 6)
    assert dense_shape(nn.Sequential(square, nn.ReLU(), square)) is None


@pytest.mark.parametrize("number", [None, 3])
def test_both_learners_score_the_clients_own_data_with_clipped_losses(number: int | None) -> None:
    data, plan, bound = client_data(), LocalPlan(batch=8), 1.7
    stacked, single = dense(plan), ModuleLearner(net(), data, plan, seed=9, most=5)
    model, network = stacked.initial(), net()
    found = [learner.client_scores(model, MEMBERS, bound, number) for learner in (stacked, single)]
    for place, client in enumerate(MEMBERS.tolist()):
        rows = data.parts[client]
        if number is not None:
            first = plan.batches(len(rows), 9, number, client)[0]
            rows = rows[first[first >= 0]]
        with torch.no_grad():
            outputs, labels = network(data.train_images[rows]), data.train_labels[rows]
        losses = functional.cross_entropy(outputs, labels, reduction="none")
        assert (losses > bound).any() and (losses < bound).any()
        for scores in found:
            assert scores.loss[place] == pytest.approx(float(losses.clamp(max=bound).mean()), rel=1e-5)
            assert scores.accuracy[place] == pytest.approx(float((outputs.argmax(1) == labels).float().mean()))
            assert scores.records[place] == len(rows)
    turned = stacked.client_scores(model, MEMBERS[::-1].copy(), bound, number)
    np.testing.assert_array_equal(turned.loss[::-1], found[0].loss)  # to the bit, whatever the order


def test_a_model_that_diverged_has_the_worst_loss() -> None:
    learner = dense(LocalPlan())
    broken = np.full_like(learner.initial(), np.nan)
    assert learner.client_scores(broken, MEMBERS, 2.5).loss.tolist() == [2.5] * 3
