"""How a process uses torch: on one thread, with memory that it keeps."""

from __future__ import annotations

from pausefl.learn.torch_import import torch

_LARGE = 31 * 2**20
"""Bytes.  glibc takes no notice of a block of more than 32 MiB."""


def set_up_torch() -> None:
    """Use one thread, whose number can change the last bits: more processes help on small machines, threads do not.

    Keep freed memory, too.  glibc gives what is freed back to the system beyond twice the largest block that it has
    seen come back, and getting it anew, page by page, took up to a fifth of a short round.
    """
    torch.set_num_threads(1)
    torch.empty(_LARGE, dtype=torch.uint8)  # and freed at once, never written to
