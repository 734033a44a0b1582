"""Things of the user's own, by import path: only where a configuration asks for them, and announced before."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pausefl.errors import InvalidValueError


def imported(path: str, key: str) -> Any:
    """Return what ``package.module:name`` names; ``key`` is the setting that named it.

    >>> imported("math:sqrt", "learning.model")(9.0)
    3.0
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever somebody's own module may raise
        raise InvalidValueError(
            f"{key} is {path!r}, but cannot be imported ({reason(error)}); it is looked up beside the configuration, "
            "in the current folder and on PYTHONPATH"
        ) from error


def reason(error: Exception) -> str:
    """Return an exception of somebody's own code in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
