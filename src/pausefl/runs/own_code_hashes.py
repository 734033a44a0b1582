"""Code of the user's own that a run names (policy, model, data): a part of what the run is, so it may not change."""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.runs.config import Config
from pausefl.system.import_path import module_file
from pausefl.system.state_file import write_whole

CODE_FILE = "code.json"
"""In a run's folder: the hash of each file that the named code is made of."""
_INSTALLED = (sysconfig.get_path("stdlib"), "site-packages", "dist-packages")


def own_code(config: Config) -> list[str]:
    """Return the import paths that a run looks up: its policy and, if it trains, its model, data and features."""
    named = [config.selection.policy]
    if config.learning.enabled:
        named += [config.learning.model, config.data.name, config.learning.features]
    return [path for path in named if ":" in path]


def write_code(config: Config, out: Path) -> None:
    """Note in the folder of a run that was built what its code is; without code of one's own there is no such file."""
    found: dict[str, str] = {}
    for path in own_code(config):
        found |= source_hashes(path.partition(":")[0])
    if found:
        write_whole(out / CODE_FILE, json.dumps(found, indent=1, sort_keys=True) + "\n")
    else:
        (out / CODE_FILE).unlink(missing_ok=True)


def code_of(out: Path) -> str:
    """Return a short name for the code that the run in a folder was played with; empty without code of one's own."""
    file = out / CODE_FILE
    return sha256(file.read_bytes()).hexdigest()[:8] if file.exists() else ""


def require_same_code(out: Path) -> None:
    """Refuse to go on with a run whose code has changed; older runs have no hashes and are taken as they are."""
    if not (out / CODE_FILE).exists():
        return
    try:
        noted = json.loads((out / CODE_FILE).read_text(encoding="utf-8"))
    except ValueError:
        noted = None
    if not isinstance(noted, dict) or not noted or not all(isinstance(digest, str) for digest in noted.values()):
        raise ConfigError(f"{out / CODE_FILE} is damaged; pass another folder with --out, or delete {out}")
    for file, digest in noted.items():
        found = module_file(file.partition(".")[0].replace("/", ".").removesuffix(".__init__"))
        if found is None or sha256(found.read_bytes()).hexdigest() != digest:
            raise ConfigError(
                f"{file} has changed since {out} was played with it; pass another folder with --out, or delete this one"
            )


def source_hashes(module: str) -> dict[str, str]:
    """Return the SHA-256 of the files of an imported module, of its packages, and of whatever these import."""
    return {name: sha256(file.read_bytes()).hexdigest() for name, file in source_files(module).items()}


def is_installed(file: Path) -> bool:
    """Whether a file belongs to the Python of this machine, and not to a folder of the user's own."""
    return any(place in str(file) for place in _INSTALLED)


def source_files(module: str) -> dict[str, Path]:
    """Return the files of an imported module, of its packages, and of whatever these import.

    Of what is installed, only the module itself counts: the rest is not edited.  A file is told as it lies below its
    folder of ``sys.path``, so that all of it may move.
    """
    found: dict[str, Path] = {}
    waiting, seen = [module], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] == "pausefl":  # what comes with pausefl is told by its version
            continue
        seen.add(name)
        above = name.rpartition(".")[0]
        waiting.append(above)
        file = module_file(name) if not above or above in sys.modules else None  # nothing more is imported for it
        if file is not None and (name == module or not is_installed(file)):
            inside = file.stem == "__init__"
            found["/".join(file.parts[-name.count(".") - 1 - inside :])] = file
            waiting += _imports(file.read_bytes(), name if inside else above)
    return found


def _imports(source: bytes, package: str) -> Iterator[str]:
    """Yield the names that a file of this package imports, at its beginning or later."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return  # not Python
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            whole = ".".join([*above, *filter(None, [node.module])])
            yield from (whole, *(f"{whole}.{alias.name}" for alias in node.names))
