"""Sums of clipped record gradients of stacked dense networks, without ever forming the gradient of one record.

Reference: Goodfellow (2015), "Efficient per-example gradient computations"; Li et al. (2022), ghost clipping.  One
record's gradient of a linear layer is error x input, so its norm is the product of theirs.  Deviation: the errors of
all layers are kept until the norms are known and then scaled, so that no second backward pass is needed.
"""

from __future__ import annotations

from pausefl.learn.stacked_networks import Stack
from pausefl.learn.torch_import import torch

TOO_LARGE = 1e30
"""A larger gradient counts as not finite: float32 has no room left for the factor that would scale it down."""


def squared_norms(images: torch.Tensor) -> torch.Tensor:
    """Return the squared length of each record's last axis, in float64: squares of huge and tiny numbers fit there."""
    norms: torch.Tensor = torch.linalg.vector_norm(images, dim=-1, dtype=torch.float64)
    return norms.square_()


def clip_factors(norms: torch.Tensor, clip: float) -> torch.Tensor:
    """Return what each record's gradient is multiplied with; 0 for one that is not finite."""
    return torch.where(norms <= TOO_LARGE, (clip / norms).clamp_(max=1.0), 0.0)


def clipped_sums(
    stack: Stack, images: torch.Tensor, squares: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, clip: float
) -> None:
    """Write the weighted sum of each row's record gradients, each clipped to the L2 norm ``clip``.

    images: rows x batch x pixels; squares (the squared norms of the images), labels, weight: rows x batch (a sample
    with weight 0 is padding).  A record whose gradient is not finite adds nothing.
    """
    inputs, error = stack.forward(images, labels)
    errors = [error]
    for (w, _), h in zip(reversed(stack.layers[1:]), reversed(inputs[1:]), strict=True):
        errors.append(torch.bmm(errors[-1], w).mul_(h.sign()))
    errors.reverse()
    total, largest = torch.zeros_like(squares), torch.ones_like(squares)
    for error, length in zip(errors, [squares, *(squared_norms(h) for h in inputs[1:])], strict=True):
        total.addcmul_(squared_norms(error), length + 1.0)  # the bias has an input of 1
        largest = torch.maximum(largest, length)
    # A huge input times an error next to nothing may look harmless, but float32 rounds such an error by too much.
    norms = torch.maximum(total, largest.mul_(largest > TOO_LARGE**2)).sqrt_()
    if not bool((norms <= TOO_LARGE).all()):  # 0 times something that is not finite would not be 0
        gone = ~(norms <= TOO_LARGE).unsqueeze(2)
        errors, inputs = ([x.masked_fill(gone, 0.0) for x in xs] for xs in (errors, inputs))
    factors = clip_factors(norms, clip).mul_(weight).to(images.dtype).unsqueeze(2)
    for error, h, (gw, gb) in zip(errors, inputs, stack.grads, strict=True):
        error.mul_(factors)
        torch.bmm(error.transpose(1, 2), h, out=gw)
        torch.sum(error, dim=1, out=gb)
