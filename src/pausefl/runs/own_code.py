"""Code of the user's own that a run names (policy, model, data): a part of what the run is, so it may not change."""

from __future__ import annotations

import ast
import json
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.runs.config import Config
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


def source_hashes(path: str) -> dict[str, str]:
    """Return the SHA-256 of the file that ``package.module:name`` lies in, and of the files beside it that it imports.

    Nothing is returned for what cannot be found.  Files further away are not looked at: they are installed, not edited.
    """
    try:
        spec = find_spec(path.partition(":")[0])
    except Exception:  # whatever the package around somebody's own module may raise; the import will tell it
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        return {}
    hashes: dict[str, str] = {}
    waiting = [Path(spec.origin)]
    while waiting:
        file = waiting.pop()
        if file.name not in hashes and file.is_file():
            content = file.read_bytes()
            hashes[file.name] = sha256(content).hexdigest()
            waiting += [file.with_name(f"{name}.py") for name in _beside(content, spec.parent or "")]
    return dict(sorted(hashes.items()))


def _beside(source: bytes, package: str) -> set[str]:
    """Return the modules that a file of this package may import from its own folder."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return set()  # not Python, or not yet
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level < 2:
            whole = ".".join(filter(None, (package if node.level else "", node.module)))
            named |= {whole, *(f"{whole}.{alias.name}" for alias in node.names)}
    inside = f"{package}." if package else ""
    return {name.removeprefix(inside).partition(".")[0] for name in named if name.startswith(inside)}
