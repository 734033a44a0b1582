import pytest
import torch
from torch import nn

from pausefl.errors import InvalidValueError
from pausefl.learn.models import build_model


@pytest.mark.parametrize(
    ("name", "shape", "parameters", "batch_norm"),
    [
        ("linear", (1, 28, 28), 7850, 0),
        ("mlp", (1, 28, 28), 25_818, 0),
        ("cnn3", (3, 32, 32), 170_474, 896),
        ("cnn5", (3, 32, 32), 207_754, 320),
    ],
)
def test_published_sizes(name: str, shape: tuple[int, int, int], parameters: int, batch_norm: int) -> None:
    net = build_model(name, shape, 10, seed=0)
    assert sum(p.numel() for p in net.parameters()) == parameters
    norms = [m for m in net.modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
    assert sum(p.numel() for m in norms for p in m.parameters()) == batch_norm
    assert net(torch.zeros(2, *shape)).shape == (2, 10)


def test_the_seed_decides_and_leaves_the_global_state_alone() -> None:
    before = torch.random.get_rng_state()
    a, b, c = (next(build_model("mlp", (1, 8, 8), 10, seed=s).parameters()) for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", ["mpl", "no.such:thing", "pausefl.rng:stream", "os:nothing"])
def test_bad_models_are_named(name: str) -> None:
    with pytest.raises(InvalidValueError, match="model"):
        build_model(name, (1, 8, 8), 10, seed=0)


def test_a_model_that_does_not_fit() -> None:
    with pytest.raises(InvalidValueError, match="does not work on images"):
        build_model("cnn3", (1, 8, 8), 10, seed=0)
