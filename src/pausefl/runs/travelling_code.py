"""What a worker elsewhere must have for the same numbers: the same packages, and the user's own code, which travels."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.runs.config import Config
from pausefl.runs.own_code_hashes import is_installed, own_code, source_files, source_hashes
from pausefl.runs.versions import versions
from pausefl.system.import_path import imported


@dataclass(frozen=True, slots=True)
class Baggage:
    """What travels with every run: versions to compare, and the user's own code with its hashes.

    ``named`` are the import paths that configurations name.  ``files`` are their sources, as they lie below a folder of
    ``sys.path``; what is installed does not travel, and must be installed there too.
    """

    versions: dict[str, str]
    named: tuple[str, ...]
    hashes: dict[str, str]
    files: dict[str, bytes] = field(repr=False)


def baggage_of(configs: Iterable[Config]) -> Baggage:
    """Return what these runs need; their own code must have been imported here already."""
    named = tuple(sorted({path for config in configs for path in own_code(config)}))
    sources: dict[str, Path] = {}
    for path in named:
        imported(path, "import path")
        sources |= source_files(path.partition(":")[0])
    hashes = {name: sha256(file.read_bytes()).hexdigest() for name, file in sources.items()}
    files = {name: file.read_bytes() for name, file in sources.items() if not is_installed(file)}
    return Baggage(versions(), named, hashes, files)


def unpack(baggage: Baggage, node: str) -> None:
    """Make the code importable in this process, and refuse if anything is another than where the runs come from."""
    here = versions()
    for name, there in baggage.versions.items():
        if here[name] != there:
            raise ConfigError(
                f"node {node} has {name} {here[name]}, but the command was called with {there}, so numbers could "
                "differ; install the same version on every node"
            )
    if not baggage.named:
        return
    _place_code(tuple(sorted(baggage.files.items())))
    found: dict[str, str] = {}
    for path in baggage.named:
        try:
            imported(path, "import path")
        except InvalidValueError as error:
            raise ConfigError(
                f"node {node} cannot import {path!r} ({_inside(error)}); install on every node what it imports, and "
                "what it reads"
            ) from None
        found |= source_hashes(path.partition(":")[0])
    other = next((name for name in sorted(baggage.hashes) if found.get(name) != baggage.hashes[name]), None)
    if other is not None:
        raise ConfigError(
            f"node {node} has another version of {other} than this machine; remove it there, or install the same "
            "version"
        )


@cache
def _place_code(files: tuple[tuple[str, bytes], ...]) -> None:
    """Write the files into a folder that is looked up after everything that is installed; once in a process."""
    folder = Path(tempfile.mkdtemp(prefix="pausefl-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, content in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    sys.path.append(str(folder))


def _inside(error: InvalidValueError) -> str:
    cause = error.__cause__
    return f"{type(cause).__name__}: {cause}".splitlines()[0]
