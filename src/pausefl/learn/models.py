"""The networks of the published runs, and how to bring your own.

Reference: PAUSE, Section V-A; layer sizes from the values behind its published runs.  ReLU, default initialisation,
valid convolutions of stride 1, 2x2 max pooling, logits out.  Pooling stands before ReLU: the numbers are the same
bit for bit, and ReLU then has a quarter of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from pausefl.errors import InvalidValueError
from pausefl.learn.torch_import import nn, torch
from pausefl.system.import_path import imported, reason

Shape = tuple[int, int, int]


def linear(shape: Shape, classes: int) -> nn.Module:
    """One linear layer on the pixels."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))


def softmax(shape: Shape, classes: int) -> nn.Module:
    """One linear layer that starts at zero: with fixed features, the model that bears noise best."""
    net = linear(shape, classes)
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    return net


def mlp(shape: Shape, classes: int) -> nn.Module:
    """Pixels-32-16-classes: 25,818 parameters on MNIST."""
    pixels = shape[0] * shape[1] * shape[2]
    return nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, classes)
    )


def cnn3(shape: Shape, classes: int) -> nn.Module:
    """Three convolutions with batch norm, then three hidden layers: 170,474 parameters on CIFAR-10."""
    widths, hidden = (shape[0], 32, 64, 128), (128, 64, 32)
    layers: list[nn.Module] = []
    side = shape[1]
    for inside, outside in pairwise(widths):
        layers += [nn.Conv2d(inside, outside, 3), nn.MaxPool2d(2), nn.ReLU(), nn.BatchNorm2d(outside)]
        side = (side - 2) // 2
    layers.append(nn.Flatten())
    inside = widths[-1] * side * side
    for outside in hidden:
        layers += [nn.Linear(inside, outside), nn.ReLU(), nn.BatchNorm1d(outside)]
        inside = outside
    return nn.Sequential(*layers, nn.Linear(inside, classes))


def cnn5(shape: Shape, classes: int) -> nn.Module:
    """Five convolutions, dropout, two hidden layers: 207,754 parameters on CIFAR-10."""
    side = ((((shape[1] - 2) - 2) // 2 - 2 - 2) // 2 - 3) // 2
    return nn.Sequential(
        nn.Conv2d(shape[0], 32, 3), nn.ReLU(), nn.BatchNorm2d(32),
        nn.Conv2d(32, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.BatchNorm2d(64),
        nn.Conv2d(64, 64, 3), nn.MaxPool2d(2), nn.ReLU(), nn.BatchNorm2d(64),
        nn.Conv2d(64, 128, 4), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(128 * side * side, 64), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(32, classes),
    )  # fmt: skip


BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

MODELS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "linear": linear, "softmax": softmax, "mlp": mlp, "cnn3": cnn3, "cnn5": cnn5,
}  # fmt: skip


def build_model(name: str, shape: Shape, classes: int, seed: int) -> nn.Module:
    """Return a fresh network; ``package.module:factory`` names one of your own, called with (shape, classes)."""
    factory = MODELS.get(name) or _own(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            net = factory(shape, classes)
            with torch.no_grad():
                given = tuple(net(torch.zeros(2, *shape)).shape)
        except Exception as error:  # whatever a factory of somebody's own may raise
            raise InvalidValueError(
                f"model {name!r} does not work on images of shape {shape} ({reason(error)}); it must "
                "accept factory(shape, classes)"
            ) from error
        torch.manual_seed(seed)
        net = factory(shape, classes)  # anew: the trial may have moved running statistics
    if not isinstance(net, nn.Module) or given != (2, classes):
        raise InvalidValueError(
            f"model {name!r} gives outputs of shape {given} for 2 images, but must be a torch.nn.Module that gives "
            f"(2, {classes}); return one number per label"
        )
    return net


def has_batch_norm(net: nn.Module) -> bool:
    """Whether a network normalises by running statistics, which are private data."""
    return any(isinstance(module, BATCH_NORMS) for module in net.modules())


def _own(name: str) -> Callable[[Shape, int], nn.Module]:
    if ":" not in name:
        raise InvalidValueError(
            f"model is {name!r}, but must be one of {', '.join(MODELS)} or 'package.module:factory'; use one of these"
        )
    found: Callable[[Shape, int], nn.Module] = imported(name, "model")
    return found
