"""What a module of the user's own is made of: a hash of its file, and of the files beside it that it imports."""

from __future__ import annotations

import ast
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path


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
