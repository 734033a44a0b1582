"""Child processes that end with their parent, however it ends, and leave Ctrl-C to it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

_PARENT_DEATH_SIGNAL = 1


def follow_parent() -> None:
    """Call first thing in a child: ignore Ctrl-C (the parent decides), and exit when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def die_with_parent() -> None:
    """Let the kernel kill this process when the parent has ended, also if it is stopped or too busy to look."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL))


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)  # at once: nothing may be written after the parent has died
