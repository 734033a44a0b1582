"""torch, or the line that says how to get it; every module here that computes takes it from this one.  Its devices."""

from __future__ import annotations

from pausefl.errors import InvalidValueError, MissingExtraError

try:
    import torch
    from torch import multiprocessing, nn
    from torch.nn import functional
    from torch.optim.adam import adam
except ImportError:
    raise MissingExtraError("training needs the 'learn' extra; run: pip install 'pausefl[learn]'") from None

__all__ = ["adam", "functional", "multiprocessing", "nn", "torch", "usable_device"]


def usable_device(name: str) -> torch.device:
    """Return a device by its name in a configuration, once it has been tried."""
    if name.partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise InvalidValueError(f"learning.device is {name!r}, but must be cpu, cuda or mps; use 'cpu'")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidValueError(
            f"learning.device is {name!r}, but cannot be used ({str(error).splitlines()[0]}); use 'cpu'"
        ) from None
    return device
