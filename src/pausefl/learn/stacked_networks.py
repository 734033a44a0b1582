"""Small dense networks of all picked clients trained at once: stacked parameters, batched matrix products.

Forward and backward passes are written out for linear layers and ReLU: no graph is built, nothing is allocated twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pausefl.learn.torch_import import functional, nn, torch


@dataclass(frozen=True, slots=True)
class DenseShape:
    """A chain of linear layers with ReLU between them, by its widths."""

    widths: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return sum(inside * outside + outside for inside, outside in pairwise(self.widths))

    def layers(self, flat: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return weight (rows x out x in) and bias (rows x out) of each layer, as views of flat parameters."""
        views, start, rows = [], 0, flat.shape[0]
        for inside, outside in pairwise(self.widths):
            weight = flat[:, start : start + inside * outside].view(rows, outside, inside)
            start += inside * outside
            views.append((weight, flat[:, start : start + outside]))
            start += outside
        return views


def dense_shape(net: nn.Module) -> DenseShape | None:
    """Return the widths of a plain dense network, or None for any other."""
    if not isinstance(net, nn.Sequential):
        return None
    parts = [part for part in net if not isinstance(part, nn.Flatten)]
    kinds = [nn.Linear if i % 2 == 0 else nn.ReLU for i in range(len(parts))]
    if len(parts) % 2 == 0 or not all(type(part) is kind for part, kind in zip(parts, kinds, strict=True)):
        return None
    linear = [part for part in parts if isinstance(part, nn.Linear)]
    if any(part.bias is None for part in linear) or not all(p.requires_grad for p in net.parameters()):
        return None
    shape = DenseShape((linear[0].in_features, *(part.out_features for part in linear)))
    # Fewer parameters than that: layers share them.
    return shape if shape.dimension == sum(p.numel() for p in net.parameters()) else None


class Stack:
    """Stacked networks (a row each) and the place of their gradients; the views of their layers are made once."""

    def __init__(self, shape: DenseShape, parameters: torch.Tensor, grad: torch.Tensor) -> None:
        self.layers, self.grads = shape.layers(parameters), shape.layers(grad)

    def write_gradient(self, images: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> None:
        """Write the gradient of each row's weighted cross-entropy.

        images: rows x batch x pixels; labels, weight: rows x batch (a sample with weight 0 is padding).
        """
        inputs, error = self.forward(images, labels)
        error.mul_(weight.unsqueeze(2))
        for (w, _), (gw, gb) in zip(reversed(self.layers), reversed(self.grads), strict=True):
            h = inputs.pop()
            torch.bmm(error.transpose(1, 2), h, out=gw)
            torch.sum(error, dim=1, out=gb)
            if inputs:
                error = torch.bmm(error, w).mul_(h.sign_())  # 0 or 1, in a quarter of the time of h > 0

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return each layer's input, and the derivative of each sample's cross-entropy by the last layer's outputs."""
        inputs = [images]
        for number, (w, b) in enumerate(self.layers):
            z = torch.baddbmm(b.unsqueeze(1), inputs[-1], w.transpose(1, 2))
            inputs.append(z if number == len(self.layers) - 1 else z.relu_())
        error = functional.softmax(inputs.pop(), dim=2)
        minus = torch.full_like(labels, -1, dtype=error.dtype)
        error.scatter_add_(2, labels.unsqueeze(2), minus.unsqueeze(2))
        return inputs, error


def packed(images: torch.Tensor) -> torch.Tensor:
    """Return images (n x pixels) as ``logits`` reads them fastest: in oneDNN's form where the processor has it."""
    fits = images.device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return images.to_mkldnn() if fits else images


def logits(shape: DenseShape, parameters: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return the outputs of one network (flat parameters) for images (n x pixels), packed or not."""
    layers = shape.layers(parameters.unsqueeze(0))
    h = images
    for number, (w, b) in enumerate(layers):
        h = functional.linear(h, w[0], b[0])
        h = h.to_dense() if h.is_mkldnn else h
        if number < len(layers) - 1:
            h.relu_()
    return h
