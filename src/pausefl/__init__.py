"""Low-latency, privacy-aware client selection for federated learning: PAUSE (Peleg et al., 2025) made into software.

>>> import pausefl
>>> sel = pausefl.Selector(sizes={"a": 120, "b": 300, "c": 80}, per_round=2, tau_min=0.05)
>>> chosen = sel.select()
>>> sel.observe({client: 0.3 for client in chosen.members})
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pausefl.errors import PauseError
    from pausefl.privacy import FixedHorizon, Geometric, PowerLaw
    from pausefl.selection import Fastest, Policy
    from pausefl.selector import Selection, Selector

__all__ = [
    "Fastest",
    "FixedHorizon",
    "Geometric",
    "PauseError",
    "Policy",
    "PowerLaw",
    "Selection",
    "Selector",
    "__version__",
]

_HOMES = {
    "Fastest": "pausefl.selection",
    "Policy": "pausefl.selection",
    "FixedHorizon": "pausefl.privacy",
    "Geometric": "pausefl.privacy",
    "PauseError": "pausefl.errors",
    "PowerLaw": "pausefl.privacy",
    "Selection": "pausefl.selector",
    "Selector": "pausefl.selector",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: importing the package alone costs milliseconds, and no optional dependency.
    if name not in _HOMES:
        raise AttributeError(f"module 'pausefl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
