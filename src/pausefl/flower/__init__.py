"""PAUSE in a Flower app: one strategy wrapper on the server, one mod on the client.

Reference: Flower 1.41, Message API.
"""

from typing import TYPE_CHECKING, Any

from pausefl.errors import MissingExtraError

if TYPE_CHECKING:
    from pausefl.flower.client import PrivateUpdate
    from pausefl.flower.client_audit import audit_client
    from pausefl.flower.protocol import record_in
    from pausefl.flower.server.checkpoint import Checkpoint
    from pausefl.flower.server.connected_nodes import connected
    from pausefl.flower.server.strategy import PauseStrategy

__all__ = ["Checkpoint", "PauseStrategy", "PrivateUpdate", "audit_client", "connected", "record_in"]

_HOMES = {
    "Checkpoint": "pausefl.flower.server.checkpoint",
    "PauseStrategy": "pausefl.flower.server.strategy",
    "PrivateUpdate": "pausefl.flower.client",
    "audit_client": "pausefl.flower.client_audit",
    "connected": "pausefl.flower.server.connected_nodes",
    "record_in": "pausefl.flower.protocol",
}


def __getattr__(name: str) -> Any:
    # A client loads nothing of the server's, and the other way round.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "flwr":
            raise
        raise MissingExtraError("Flower apps need the 'flower' extra; run: pip install 'pausefl[flower]'") from None


def __dir__() -> list[str]:
    return __all__
