"""One run: its configuration, how it is built and played, its folder, and its numbers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pausefl.runs.round_table import read_runs

__all__ = ["read_runs"]


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that importing a part of a run does not read how all of it is read.
    if name != "read_runs":
        raise AttributeError(f"module 'pausefl.runs' has no attribute {name!r}")
    from pausefl.runs.round_table import read_runs

    return read_runs
