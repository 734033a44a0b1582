"""What training leaves behind in its process, and how it is undone: timers, limits, rounding, a child of it."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")

_LIMITS = (
    resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE,
)  # fmt: skip
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_TRIES = 100


def run_and_undo(train: Callable[[], Result]) -> Result:
    """Call ``train``, and undo what it changed in this process, whether it returns or raises.

    An alarm that is still to come, or a limit that is too low, would stop what follows if training failed, and so show
    that it did.  A child process that comes back from training would release a second time: it ends here.
    """
    process, deepest = os.getpid(), sys.getrecursionlimit()
    idle = [timer for timer in _TIMERS if signal.getitimer(timer)[0] == 0.0]
    limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    floats, numpy_floats = _float_settings(), np.geterr()

    def undo() -> None:
        if os.getpid() != process:
            os._exit(1)
        _set_floats(floats)
        np.seterr(**numpy_floats)
        faulthandler.cancel_dump_traceback_later()
        for timer in idle:
            signal.setitimer(timer, 0.0)
        for number, handler in handlers.items():
            ours = threading.current_thread() is threading.main_thread() and handler is not None
            if ours and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        for limit, values in limits.items():
            if resource.getrlimit(limit) != values:
                with suppress(ValueError, OSError):  # a hard limit that was lowered stays
                    resource.setrlimit(limit, values)

    try:
        return train()
    finally:
        sys.setrecursionlimit(deepest)  # first of all: under a lower one, no function could be called here
        for _ in range(_TRIES):  # an alarm may go off in here, too
            with suppress(BaseException):
                undo()
                break


def _float_settings() -> ctypes.Array[ctypes.c_char]:
    """Return how this thread rounds, what it takes for zero, and which float errors end the process (fenv(3))."""
    settings = ctypes.create_string_buffer(256)  # more than any machine's fenv_t
    with suppress(AttributeError):
        ctypes.CDLL(None).fegetenv(settings)
    return settings


def _set_floats(settings: ctypes.Array[ctypes.c_char]) -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).fesetenv(settings)
