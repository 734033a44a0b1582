"""TOML files that people write: read, or refused in one line."""

from __future__ import annotations

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError


def read_toml(path: Path | Traversable, remedy: str = "name a TOML file") -> dict[str, Any]:
    """Return a file's content; ``remedy`` is what to do where there is no such file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; {remedy}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML file ({error}); mend it") from None
