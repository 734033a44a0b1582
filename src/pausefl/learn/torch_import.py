"""torch, or the line that says how to get it; every module here that computes takes it from this one."""

from __future__ import annotations

from pausefl.errors import MissingExtraError

try:
    import torch
    from torch import multiprocessing, nn
    from torch.nn import functional
except ImportError:
    raise MissingExtraError("training needs the 'learn' extra; run: pip install 'pausefl[learn]'") from None

__all__ = ["functional", "multiprocessing", "nn", "torch"]
