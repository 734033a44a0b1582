"""Training that protects single records: what each can add is bounded, and the noise is as stated."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import nn
from torch.nn import functional

from pausefl.errors import InvalidValueError
from pausefl.learn.client_data import ClientData
from pausefl.learn.learners import DenseLearner, ModuleLearner
from pausefl.learn.models import build_model, cnn3
from pausefl.learn.optimizer import LocalPlan, Optimizer
from pausefl.learn.record_clipping import clipped_sums, squared_norms
from pausefl.learn.record_gradients import RecordGradients, refuse_batch_norm, try_record_gradients
from pausefl.learn.record_noise import BatchNoise, ClientNoise
from pausefl.learn.stacked_networks import DenseShape, Stack, dense_shape
from pausefl.sim.learner import RecordNoise

MEMBERS = np.array([4, 0, 2])
PIXELS, LABELS = 36, 5
HIDDEN = {"one layer": (), "two layers": (7,), "three layers": (8, 6)}
STEP = LocalPlan(Optimizer("sgd", lr=1.0), batch=0, optimizer_state="fresh")
"""One step with all of a client's data: the update is the gradient, turned round."""


def client_data(side: int = 6, sizes: tuple[int, ...] = (21, 40, 7, 33, 64)) -> ClientData:
    torch.manual_seed(0)
    images, labels = torch.randn(sum(sizes), 1, side, side), torch.randint(0, LABELS, (sum(sizes),))
    parts = [np.arange(a, b) for a, b in pairwise(np.cumsum((0, *sizes)))]
    return ClientData(images, labels, images[:130], labels[:130], parts)


def dense_net(hidden: tuple[int, ...] = (8, 6)) -> nn.Sequential:
    widths = (PIXELS, *hidden, LABELS)
    torch.manual_seed(3)
    layers: list[nn.Module] = [nn.Flatten()]
    for inside, outside in pairwise(widths):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv_net(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(1, 3), nn.Flatten(), nn.Dropout(dropout),
        nn.Linear(12, LABELS),
    )  # fmt: skip


def flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def reference_sum(net: nn.Module, images: torch.Tensor, labels: torch.Tensor, clip: float) -> torch.Tensor:
    """One record after the other, by autograd."""
    parameters, total = list(net.parameters()), torch.zeros(sum(p.numel() for p in net.parameters()))
    for image, label in zip(images, labels, strict=True):
        loss = functional.cross_entropy(net(image[None]), label[None])
        found = flat(list(torch.autograd.grad(loss, parameters)))
        if found.isfinite().all():
            total += found * min(1.0, clip / float(found.double().norm().clamp(min=1e-300)))
    return total


def dense_sum(net: nn.Module, images: torch.Tensor, labels: torch.Tensor, clip: float) -> torch.Tensor:
    shape = dense_shape(net)
    assert shape is not None
    rows, parameters = images.flatten(1), flat([p.detach() for p in net.parameters()])[None]
    out = torch.full_like(parameters, torch.nan)
    weight = torch.ones(1, len(labels))
    clipped_sums(Stack(shape, parameters, out), rows[None], squared_norms(rows)[None], labels[None], weight, clip)
    return out[0]


def module_sum(net: nn.Module, images: torch.Tensor, labels: torch.Tensor, clip: float) -> torch.Tensor:
    for parameter in net.parameters():
        parameter.grad = None
    RecordGradients(net).add_clipped(images, labels, clip, 1.0)
    return flat([p.grad for p in net.parameters() if p.grad is not None])


def examples(count: int = 70) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(4)
    return torch.randn(count, 1, 6, 6), torch.randint(0, LABELS, (count,))


Sum = Callable[[nn.Module, torch.Tensor, torch.Tensor, float], torch.Tensor]
CASES: dict[str, tuple[nn.Module, Sum]] = {
    **{f"dense, {name}": (dense_net(hidden), dense_sum) for name, hidden in HIDDEN.items()},
    **{f"module, {name}": (dense_net(hidden), module_sum) for name, hidden in HIDDEN.items()},
    "module, convolution": (conv_net(), module_sum),
}
every_way = pytest.mark.parametrize(("net", "clipped"), CASES.values(), ids=CASES)


@every_way
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["all clipped", "half clipped", "none clipped"])
def test_the_clipped_sum_is_that_of_single_gradients(net: nn.Module, clipped: Sum, share: float) -> None:
    images, labels = examples()
    norms = [float(reference_sum(net, images[i : i + 1], labels[i : i + 1], 1e6).norm()) for i in range(len(labels))]
    clip = float(np.quantile(norms, share)) * (0.1 + share)
    wanted = reference_sum(net, images, labels, clip)
    torch.testing.assert_close(clipped(net, images, labels, clip), wanted, rtol=1e-4, atol=1e-5)


def test_rows_have_their_own_parameters_and_padding_adds_nothing() -> None:
    shape = DenseShape((PIXELS, 7, LABELS))
    torch.manual_seed(0)
    parameters, out = torch.randn(2, shape.dimension), torch.empty(2, shape.dimension)
    images, labels = torch.randn(2, 9, PIXELS), torch.randint(0, LABELS, (2, 9))
    images[1, 4:] = torch.nan
    weight = torch.full((2, 9), 0.25)
    weight[1, 4:] = 0.0
    clipped_sums(Stack(shape, parameters, out), images, squared_norms(images), labels, weight, 0.5)
    for row, count in enumerate((9, 4)):
        net = dense_net((7,))
        nn.utils.vector_to_parameters(parameters[row], net.parameters())
        wanted = 0.25 * reference_sum(net, images[row, :count], labels[row, :count], 0.5)
        torch.testing.assert_close(out[row], wanted, rtol=1e-4, atol=1e-6)


number = st.one_of(
    st.floats(width=32),
    st.sampled_from([0.0, 1e-45, 1e-30, -1e-8, 1e10, 1e18, -1e20, 3e29, 2e30, 3e38, float("nan"), float("inf")]),
)


@every_way
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_replacing_a_record_moves_the_sum_by_at_most_twice_the_clip(
    net: nn.Module, clipped: Sum, data: st.DataObject
) -> None:
    clip = data.draw(st.sampled_from([1e-3, 1.0, 300.0]))
    images, labels = examples(6)
    place = data.draw(st.integers(0, 5))
    sums = []
    for _ in range(2):
        base = data.draw(st.sampled_from([0.0, 1.0, 1e9])) * images[place]
        for at in data.draw(st.lists(st.integers(0, PIXELS - 1), max_size=4)):
            base.view(-1)[at] = data.draw(number)
        changed, answers = images.clone(), labels.clone()
        changed[place], answers[place] = base, data.draw(st.integers(0, LABELS - 1))
        sums.append(clipped(net, changed, answers, clip).double())
    assert all(total.isfinite().all() for total in sums)
    assert float((sums[0] - sums[1]).norm()) <= 2.0 * clip * (1.0 + 1e-4)
    assert all(float(total.norm()) <= 6.0 * clip * (1.0 + 1e-4) for total in sums)


@every_way
@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=str)
def test_a_record_without_a_finite_gradient_adds_nothing(net: nn.Module, clipped: Sum, value: float) -> None:
    images, labels = examples(6)
    kept = torch.tensor([0, 1, 3, 4, 5])
    wanted = clipped(net, images[kept], labels[kept], 1.0)
    images[2] = value
    torch.testing.assert_close(clipped(net, images, labels, 1.0), wanted)


@pytest.mark.parametrize("clipped", [dense_sum, module_sum])
def test_a_record_with_gradient_zero_adds_zero(clipped: Sum) -> None:
    net = dense_net(())
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].bias.copy_(torch.tensor([500.0, 0.0, 0.0, 0.0, 0.0]))
    images, _ = examples(4)
    assert (clipped(net, images, torch.zeros(4, dtype=torch.int64), 1.0) == 0.0).all()


def test_without_records_the_gradient_is_what_it_was_to_the_bit() -> None:
    shape = DenseShape((PIXELS, 8, 6, LABELS))
    torch.manual_seed(0)
    parameters, images = torch.randn(3, shape.dimension), torch.randn(3, 9, PIXELS)
    labels, weight = torch.randint(0, LABELS, (3, 9)), torch.rand(3, 9)
    out, wanted = torch.empty_like(parameters), torch.empty_like(parameters)
    Stack(shape, parameters, out).write_gradient(images, labels, weight)
    layers, grads = shape.layers(parameters), shape.layers(wanted)
    inputs = [images]
    for place, (w, b) in enumerate(layers):
        z = torch.baddbmm(b.unsqueeze(1), inputs[-1], w.transpose(1, 2))
        inputs.append(z if place == len(layers) - 1 else z.relu())
    error = functional.softmax(inputs.pop(), dim=2) - functional.one_hot(labels, LABELS)
    error = error * weight.unsqueeze(2)
    for (w, _), (gw, gb) in zip(reversed(layers), reversed(grads), strict=True):
        h = inputs.pop()
        torch.bmm(error.transpose(1, 2), h, out=gw)
        torch.sum(error, dim=1, out=gb)
        error = torch.bmm(error, w) * (h > 0)
    assert torch.equal(out, wanted)


def learner(
    kind: str, plan: LocalPlan = STEP, data: ClientData | None = None, seed: int = 9
) -> DenseLearner | ModuleLearner:
    data = data or client_data()
    net = conv_net(dropout=0.3) if kind == "convolution" else dense_net()
    shape = dense_shape(net)
    if kind == "dense":
        assert shape is not None
        return DenseLearner(net, shape, data, plan, seed)
    return ModuleLearner(net, data, plan, seed, most=5)


def records(clip: float, *deviations: float) -> RecordNoise:
    return RecordNoise(clip, np.array(deviations))


every_learner = pytest.mark.parametrize("kind", ["dense", "module", "convolution"])
PLANS = {
    "adam": LocalPlan(batch=8, epochs=2),
    "momentum": LocalPlan(Optimizer("sgd", lr=0.1, momentum=0.9), batch=5),
    "fresh": LocalPlan(Optimizer("sgd", lr=0.1, momentum=0.9), batch=5, max_steps=3, optimizer_state="fresh"),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_stacked_and_single_training_agree(plan: LocalPlan) -> None:
    stacked, single = learner("dense", plan), learner("module", plan)
    model = stacked.initial()
    for number in (1, 2):
        asked = records(0.7, 0.5, 0.1, 2.0)
        both = [one.train(model, MEMBERS, number, asked) for one in (stacked, single)]
        np.testing.assert_allclose(both[0], both[1], atol=2e-5)
        model = model + both[0].mean(axis=0)


@pytest.mark.parametrize("kind", ["dense", "module"])
def test_one_step_is_the_clipped_mean(kind: str) -> None:
    data, made = client_data(), learner(kind)
    updates = made.train(made.initial(), MEMBERS, 1, records(0.6, 0.0, 0.0, 0.0))
    for update, client in zip(updates, MEMBERS.tolist(), strict=True):
        part = torch.from_numpy(data.parts[client])
        wanted = reference_sum(dense_net(), data.train_images[part], data.train_labels[part], 0.6) / len(part)
        np.testing.assert_allclose(update, -wanted.numpy(), atol=1e-6)


@every_learner
def test_the_noise_has_the_stated_deviation(kind: str) -> None:
    made, deviations = learner(kind), (3.0, 0.2, 50.0)
    model = made.initial()
    # Without noise the same seeds draw the same batches and the same dropout: the difference is the noise.
    quiet = made.train(model, MEMBERS, 1, records(0.5, 0.0, 0.0, 0.0)).astype(np.float64)
    drawn = quiet - made.train(model, MEMBERS, 1, records(0.5, *deviations))
    sizes = [len(client_data().parts[k]) for k in MEMBERS]
    scores = drawn * np.array(sizes)[:, None] / np.array(deviations)[:, None]
    least, most = chi2.ppf([5e-7, 1.0 - 5e-7], scores.shape[1])  # a false alarm once in a million seeds, per member
    for score in scores:
        assert least < (score**2).sum() < most
    worth = np.corrcoef(scores) - np.eye(len(scores))
    assert np.abs(worth).max() < 5.0 / np.sqrt(scores.shape[1])  # five deviations: once in a million seeds
    assert not np.isclose(drawn[0], made.train(model, MEMBERS, 2, records(0.5, *deviations))[0]).any()


def test_every_step_draws_anew_and_the_divisor_is_that_of_the_batch() -> None:
    noise = BatchNoise(ClientNoise(1.0, 2.0), seed=1, number=2, client=3)
    first, second = torch.zeros(2, 20_000)
    noise.add(first, 4)
    noise.add(second, 40)
    # Twenty thousand draws: a hundredth of the deviation is 2 standard errors, five of them once in a million seeds.
    assert float(first.std()) == pytest.approx(0.5, rel=0.025)
    assert float(second.std()) == pytest.approx(0.05, rel=0.025)
    assert abs(float((first * second).mean())) < 0.025 * 5 / np.sqrt(20_000)


@every_learner
def test_order_of_members_does_not_matter(kind: str) -> None:
    plan, deviations = PLANS["adam"], np.array([0.5, 0.1, 2.0])
    made = learner(kind, plan)
    straight = made.train(made.initial(), MEMBERS, 3, RecordNoise(1.0, deviations))
    turned = learner(kind, plan).train(made.initial(), MEMBERS[::-1].copy(), 3, RecordNoise(1.0, deviations[::-1]))
    assert (straight == turned[::-1]).all()


@every_learner
def test_order_does_not_matter_among_clients_of_one_size(kind: str) -> None:
    data, members = client_data(sizes=(21, 21, 21, 21)), np.array([3, 0, 2, 1])
    model, deviations = learner(kind).initial(), np.array([0.5, 0.1, 2.0, 0.0])
    straight = learner(kind, PLANS["adam"], data).train(model, members, 3, RecordNoise(1.0, deviations))
    for places in ([1, 0, 3, 2], [2, 3, 1, 0]):
        asked = RecordNoise(1.0, deviations[places])
        assert (learner(kind, PLANS["adam"], data).train(model, members[places], 3, asked) == straight[places]).all()


@every_learner
def test_training_is_a_function_of_the_seed(kind: str) -> None:
    plan, asked = PLANS["adam"], records(1.0, 0.5, 0.1, 2.0)
    model = learner(kind, plan).initial()
    one, same, other = (learner(kind, plan, seed=seed).train(model, MEMBERS, 3, asked) for seed in (9, 9, 10))
    assert (one == same).all()
    assert not np.isclose(one, other).all(axis=1).any()


@every_learner
def test_what_ran_before_does_not_matter(kind: str) -> None:
    plan = PLANS["fresh"]
    used, fresh = learner(kind, plan), learner(kind, plan)
    model = used.initial()
    used.train(model, MEMBERS, 1, records(1.0, 0.5, 0.1, 2.0))
    assert (used.train(model, MEMBERS, 2) == fresh.train(model, MEMBERS, 2)).all()
    asked = records(1.0, 0.5, 0.1, 2.0)
    assert (used.train(model, MEMBERS, 3, asked) == learner(kind, plan).train(model, MEMBERS, 3, asked)).all()


def test_one_process_and_two_give_the_same_numbers() -> None:
    results = []
    for jobs in (1, 2):
        made = ModuleLearner(conv_net(dropout=0.3), client_data(), LocalPlan(batch=8), 9, 3, jobs)
        try:
            update, scores = made.train_and_score(made.initial(), MEMBERS, 1, records(1.0, 0.5, 0.1, 2.0))
            again = made.train(made.initial(), MEMBERS, 2, records(2.0, 0.1, 0.5, 1.0))
            results.append((update.tobytes(), again.tobytes(), scores.result()))
        finally:
            made.close()
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", ["dense", "module"])
def test_scoring_meanwhile_changes_nothing(kind: str) -> None:
    made, asked = learner(kind), records(1.0, 0.5, 0.1, 2.0)
    model = made.initial()
    update, scores = made.train_and_score(model, MEMBERS, 1, asked)
    assert (update == made.train(model, MEMBERS, 1, asked)).all()
    assert scores.result() == made.evaluate(model)


@every_learner
def test_a_broken_record_spoils_nobodys_training(kind: str) -> None:
    plan, whole, broken = LocalPlan(batch=8, optimizer_state="fresh"), client_data(), client_data()
    broken.train_images[0] = torch.nan  # the first record of client 0, and what fills up short batches
    asked = records(1.0, 0.5, 0.1, 2.0)
    model = learner(kind).initial()
    wanted, found = (learner(kind, plan, data).train(model, MEMBERS, 1, asked) for data in (whole, broken))
    assert np.isfinite(found).all()
    assert (found[[0, 2]] == wanted[[0, 2]]).all()
    assert (found[1] != wanted[1]).any()


def test_dropout_is_drawn_for_each_record() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(PIXELS, LABELS))
    found = module_sum(net, torch.ones(40, 1, 6, 6), torch.zeros(40, dtype=torch.int64), 1.0)
    # A mask for all 40 would leave half of the inputs without gradient; with one each, a false alarm is 36 x 2^-40.
    assert (found[: PIXELS * LABELS] != 0.0).all()


def test_a_large_network_is_taken_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = examples()
    wanted = module_sum(conv_net(), images, labels, 1.0)
    monkeypatch.setattr("pausefl.learn.record_gradients._NUMBERS", 1)
    torch.testing.assert_close(module_sum(conv_net(), images, labels, 1.0), wanted)


def test_batch_norm_is_refused() -> None:
    net = cnn3((1, 32, 32), LABELS)
    made = ModuleLearner(net, client_data(32), LocalPlan(), 9, 5)
    for call in (
        lambda: refuse_batch_norm(net),
        lambda: try_record_gradients(net, (1, 32, 32)),
        lambda: made.train(made.initial(), MEMBERS, 1, records(1.0, 1.0, 1.0, 1.0)),
    ):
        with pytest.raises(InvalidValueError, match="batch norms, but statistics of a batch mix its records"):
            call()
    refuse_batch_norm(conv_net())


class Gathering(nn.Module):
    """Remembers the mean of what it has seen, as a layer of somebody's own might."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(PIXELS, LABELS)
        self.register_buffer("seen", torch.ones(PIXELS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1)
        self.seen.mul_(0.5).add_(flat.mean(0), alpha=0.5)
        return self.inner(flat - self.seen)


def test_a_network_that_keeps_what_it_sees_is_refused_and_left_as_it_is() -> None:
    net = Gathering()
    with pytest.raises(InvalidValueError, match="choose a model that keeps nothing of the records it sees"):
        try_record_gradients(net, (1, 6, 6))
    assert (net.seen == 1.0).all()
    for fine in (conv_net(0.5), dense_net()):
        before = torch.random.get_rng_state()
        try_record_gradients(fine, (1, 6, 6))
        assert torch.equal(before, torch.random.get_rng_state())
        assert all(p.grad is None for p in fine.parameters())


class Mixing(nn.Module):
    """Looks at the whole batch, always or in one mode only, and begins with zeros, which hide it."""

    def __init__(self, always: bool, training: bool = False) -> None:
        super().__init__()
        self.inner = nn.Linear(PIXELS, LABELS)
        nn.init.zeros_(self.inner.weight)
        self.always, self.mode = always, training

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1)
        mixes = self.always or self.training == self.mode
        return self.inner(flat - flat.mean(0, keepdim=True) if mixes else flat)


@pytest.mark.parametrize("net", [Mixing(True), Mixing(False), Mixing(False, training=True)])
def test_a_network_that_mixes_the_records_of_a_batch_is_refused(net: Mixing) -> None:
    """Training sees each record alone, but losses are told of batches, with the noise of one record in its own loss."""
    before = torch.random.get_rng_state()
    with pytest.raises(InvalidValueError, match="outputs for one record change with the other records of its batch"):
        try_record_gradients(net, (1, 6, 6))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not net.inner.weight.any()


def test_frozen_layers_stay_frozen() -> None:
    net = dense_net()
    net[1].requires_grad_(False)
    made = ModuleLearner(net, client_data(), LocalPlan(batch=8), 9, 5)
    assert made.train(made.initial(), MEMBERS, 1, records(1.0, 0.5, 0.1, 2.0)).shape == (3, 8 * 6 + 6 + 6 * 5 + 5)


@every_learner
def test_each_member_needs_its_deviation(kind: str) -> None:
    made = learner(kind)
    with pytest.raises(InvalidValueError, match="deviations is '2 numbers', but must be one per member, 3"):
        made.train(made.initial(), MEMBERS, 1, records(1.0, 0.5, 0.1))


@pytest.mark.parametrize(("clip", "deviation"), [(0.0, 1.0), (np.inf, 1.0), (np.nan, 1.0), (1.0, -1.0), (1.0, np.nan)])
def test_impossible_noise_is_refused(clip: float, deviation: float) -> None:
    with pytest.raises(InvalidValueError, match="clip is" if deviation == 1.0 else "deviations is"):
        records(clip, deviation)


def test_how_often_a_record_takes_part() -> None:
    for plan, passes in ((LocalPlan(epochs=3), 3), (LocalPlan(epochs=3, max_steps=2), 2), (LocalPlan(batch=0), 1)):
        assert learner("dense", plan).passes == learner("module", plan).passes == passes
        for size in (1, 7, 64):
            table = plan.batches(size, seed=0, number=1, client=2)
            assert np.bincount(table[table >= 0]).max() <= passes


def test_models_of_the_published_runs() -> None:
    for name in ("linear", "softmax", "mlp"):
        try_record_gradients(build_model(name, (1, 6, 6), LABELS, seed=1), (1, 6, 6))
