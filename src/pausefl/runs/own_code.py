"""Code of the user's own that a run names (policy, model, data): a part of what the run is, so it may not change."""

from __future__ import annotations

import json
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.runs.config import Config
from pausefl.system.source_hashes import source_hashes
from pausefl.system.state_file import write_whole

CODE_FILE = "code.json"
"""In a run's folder: for every ``package.module:name`` the files it is made of, and the hash of each."""


def own_code(config: Config) -> list[str]:
    """Return the import paths that a run looks up: its policy and, if it trains, its model and its data."""
    named = [config.selection.policy]
    if config.learning.enabled:
        named += [config.learning.model, config.data.name]
    return [path for path in named if ":" in path]


def write_code(config: Config, out: Path) -> None:
    """Note in the folder of a run that begins what its code is; without code of one's own there is no such file."""
    found = _hashes(config)
    if found:
        write_whole(out / CODE_FILE, json.dumps(found, indent=1) + "\n")
    else:
        (out / CODE_FILE).unlink(missing_ok=True)


def require_same_code(config: Config, out: Path) -> None:
    """Refuse to go on with a run whose code has changed; older runs have no hashes and are taken as they are."""
    if not (out / CODE_FILE).exists():
        return
    try:
        noted = json.loads((out / CODE_FILE).read_text(encoding="utf-8"))
        changed = [
            (path, file)
            for path, hashes in _hashes(config).items()
            for file, digest in noted.get(path, {}).items()
            if hashes.get(file) != digest
        ]
    except (AttributeError, ValueError):
        raise ConfigError(f"{out / CODE_FILE} is damaged; name another folder with --out, or delete {out}") from None
    for path, file in changed:
        raise ConfigError(
            f"{file} ({path}) has changed since {out} was played with it; name another folder with --out, or delete "
            "this one"
        )


def _hashes(config: Config) -> dict[str, dict[str, str]]:
    # What comes with pausefl is told by the version in the summary.
    return {path: source_hashes(path) for path in own_code(config) if not path.startswith("pausefl.")}
