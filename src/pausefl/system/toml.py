"""TOML files: read, or refused in one line; and written, whatever the strings hold."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import tomli_w

from pausefl.errors import ConfigError


def read_toml(path: Path | Traversable, remedy: str = "name a TOML file") -> dict[str, Any]:
    """Return a file's content; ``remedy`` is what to do where there is no such file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; {remedy}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML file ({error}); mend it") from None


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML that reads back equal; TOML knows no None, so leave out what has no value.

    >>> print(toml_text({"run": {"rounds": 5, "note": "two\\nlines"}}), end="")
    [run]
    rounds = 5
    note = "two\\nlines"
    """
    return tomli_w.dumps(content)
