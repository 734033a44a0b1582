"""Sums of clipped record gradients of any network: each record's own gradient, by ``torch.func``.

Measured on a small convolutional network (batches of 20 and 200, one thread), as multiples of the time of a plain
gradient: 2.3 to 2.7 here, 1.9 to 2.7 with the hooks of Opacus 1.6, 2.4 to 3.4 with its ghost clipping, and 4.7 to 7.2
with a loop over records.  Opacus does not win clearly, and it trusts a network to keep its records apart.
"""

from __future__ import annotations

from copy import deepcopy

from pausefl.errors import InvalidValueError
from pausefl.learn.models import Shape
from pausefl.learn.record_clipping import TOO_LARGE, clip_factors, squared_norms
from pausefl.learn.torch_import import functional, nn, torch
from pausefl.system.import_path import reason

_RECORDS, _NUMBERS = 64, 2**25
"""Gradients that are formed at once: so many records, and fewer where they would take more than 128 MiB."""

_MIXING = (nn.modules.batchnorm._BatchNorm,)


class RecordGradients:
    """Clips and sums the gradients of single records.

    The network sees each record alone, whatever it does with a batch, so a record cannot reach the gradient of another.
    """

    def __init__(self, net: nn.Module) -> None:
        refuse_batch_norm(net)
        self._trained = {name: p for name, p in net.named_parameters() if p.requires_grad}
        dimension = sum(p.numel() for p in self._trained.values())
        self._at_once = min(_RECORDS, max(1, _NUMBERS // max(1, dimension)))

        def loss(parameters: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            outputs = torch.func.functional_call(net, parameters, (image.unsqueeze(0),))
            return functional.cross_entropy(outputs, label.unsqueeze(0))

        self._gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="different")

    def add_clipped(self, images: torch.Tensor, labels: torch.Tensor, clip: float, weight: float) -> None:
        """Add ``weight`` times the gradient of each record to the parameters' ``grad``.

        Before that, it is clipped to the L2 norm ``clip``.  A record whose gradient is not finite adds nothing.
        """
        parameters = {name: p.detach() for name, p in self._trained.items()}
        for start in range(0, len(labels), self._at_once):
            part = slice(start, start + self._at_once)
            grads = [grad.flatten(1) for grad in self._gradients(parameters, images[part], labels[part]).values()]
            norms = torch.stack([squared_norms(grad) for grad in grads]).sum(dim=0).sqrt_()
            broken = ~(norms <= TOO_LARGE)
            factors = clip_factors(norms, clip).mul_(weight)
            for grad, p in zip(grads, self._trained.values(), strict=True):
                if bool(broken.any()):  # 0 times something that is not finite would not be 0
                    grad.masked_fill_(broken.unsqueeze(1), 0.0)
                _grad(p).add_((factors.to(p.dtype) @ grad).view(p.shape))


def refuse_batch_norm(net: nn.Module) -> None:
    """Refuse a network that cannot protect single records, because its batch norms mix the records of a batch."""
    if any(isinstance(module, _MIXING) for module in net.modules()):
        raise InvalidValueError(
            "the model has batch norms, but statistics of a batch mix its records and none of them could be protected; "
            "choose a model without batch norm, or with group norm"
        )


def try_record_gradients(net: nn.Module, shape: Shape) -> None:
    """Refuse a network whose records' gradients cannot be found one by one; ``shape`` is that of an image.

    One that mixes the records of a batch is refused, too: losses are told of batches.  The trial needs no data, so call
    it before a run.  The network itself is not touched.
    """
    refuse_batch_norm(net)
    trial = deepcopy(net).cpu().train()
    try:
        with torch.random.fork_rng(devices=[]):
            RecordGradients(trial).add_clipped(torch.zeros(2, *shape), torch.zeros(2, dtype=torch.int64), 1.0, 1.0)
            mixes = any(_mixes(deepcopy(net).cpu().train(training), shape) for training in (True, False))
    except Exception as error:  # whatever a network of somebody's own may raise
        raise InvalidValueError(
            f"the gradients of single records of this model cannot be computed ({reason(error)}); choose a model that "
            "keeps nothing of the records it sees"
        ) from error
    if mixes:
        raise InvalidValueError(
            "the model's outputs for one record change with the other records of its batch, but none of them could be "
            "protected then; choose a model that looks at each record alone"
        )


def _mixes(net: nn.Module, shape: Shape) -> bool:
    """Whether what a network says of one record depends on another one; tried with made-up images and weights.

    The weights are changed, because those that begin as zeros would hide it.
    """
    torch.manual_seed(0)
    images = torch.randn(3, *shape)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        outputs = []
        for other in (images[1], 100.0 * images[2]):
            torch.manual_seed(1)  # the same numbers are dropped out
            outputs.append(deepcopy(net)(torch.stack([images[0], other]))[0])
    one, two = outputs
    return not torch.allclose(one, two, rtol=1e-3, atol=1e-5, equal_nan=True)


def _grad(parameter: torch.Tensor) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
