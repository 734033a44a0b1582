"""Whether this process plays clients for a simulation: only there an owner's file for simulations may be used."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SIMULATED: ContextVar[bool] = ContextVar("pausefl_simulated", default=False)
_ENGINE = "flwr.simulation.ray_transport.ray_actor"


@contextmanager
def simulated() -> Iterator[None]:
    """Say that messages inside are answered by simulated clients."""
    token = _SIMULATED.set(True)
    try:
        yield
    finally:
        _SIMULATED.reset(token)


def in_simulation() -> bool:
    """Whether the message at hand came from :func:`simulated`, or from an actor of Flower's simulation engine.

    A variable of the environment would not do: it could be left over on a machine with real data.
    """
    return _SIMULATED.get() or called_by_an_actor()


def called_by_an_actor() -> bool:
    """Whether Flower's actor, which runs the app of a simulated client, is among the callers."""
    engine = sys.modules.get(_ENGINE)
    actor = getattr(engine, "VirtualClientEngineActor", None)
    code = getattr(getattr(actor, "run", None), "__code__", None)
    frame = inspect.currentframe()
    while code is not None and frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False
