"""What the numbers of a run may depend on beside its configuration: the versions of pausefl, Python and packages."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pausefl

_PACKAGES = ("numpy", "scipy", "numba", "torch", "scikit-learn")


@cache
def versions() -> dict[str, str]:
    """Return the versions by name; that of pausefl has a hash of its sources."""
    return {
        "Python": platform.python_version(),
        "pausefl": f"{pausefl.__version__} ({_own_hash()})",
        **{name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _own_hash() -> str:
    digest = sha256()
    root = Path(pausefl.__file__).parent
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:8]
