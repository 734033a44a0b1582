"""Things of the user's own, by import path: only where a configuration asks for them, and announced before."""

from __future__ import annotations

import os
import sys
import sysconfig
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from inspect import getsourcefile, getsourcelines
from pathlib import Path
from traceback import extract_tb
from typing import Any

from pausefl.errors import InvalidValueError

_OURS = f"{Path(__file__).parents[1]}{os.sep}"


def imported(path: str, key: str) -> Any:
    """Return what ``package.module:name`` names; ``key`` is the setting that named it.

    >>> imported("math:sqrt", "learning.model")(9.0)
    3.0
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # whatever somebody's own module may raise, sys.exit() too
        raise InvalidValueError(
            f"{key} is {path!r}, but cannot be imported ({reason(error)}); {_remedy(module, name, error)}"
        ) from error


def _remedy(module: str, name: str, error: BaseException) -> str:
    """Say what to do about a module, or a name in it, that cannot be imported."""
    if module.endswith(".py"):
        return f"leave out '.py': {module.removesuffix('.py')}:{name}"
    loaded = sys.modules.get(module)
    if isinstance(error, AttributeError) and loaded is not None:
        near = get_close_matches(name, dir(loaded), n=1)
        return f"did you mean '{module}:{near[0]}'?" if near else f"define {name[:40]!r} in {module}"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == module.partition(".")[0]:
        return "put it beside the configuration, into the current folder, or on PYTHONPATH"
    return "change its code so that it can be imported"


def module_file(module: str) -> Path | None:
    """Return the file that an import of a module would run; to find it, nothing is run, not even its packages.

    >>> module_file("json.decoder").name, module_file("json.nothing"), module_file("nowhere.at_all")
    ('decoder.py', None, None)
    """
    places: list[str] | None = None
    spec, parts = None, module.split(".")
    for number, part in enumerate(parts, 1):
        try:
            spec = find_spec(part) if places is None else PathFinder.find_spec(part, places)
        except (ImportError, ValueError):  # a name that is none, or a module that does not tell where it is from
            return None
        if spec is None:
            return None
        loaded = getattr(sys.modules.get(".".join(parts[:number])), "__dict__", {})  # a package may change its path
        places = list(loaded.get("__path__") or spec.submodule_search_locations or ())
    file = Path(spec.origin or "") if spec is not None and spec.has_location else Path()
    return file if file.is_file() else None


def reason(error: BaseException, called: object = None) -> str:
    """Return an exception of somebody's own code in one line, with the file and the line that it comes from.

    Where no line of theirs was running, it is the line that begins what was ``called``.
    """
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    first = said.splitlines()[0] if said else ""
    place = _place(error) or defined_at(called)
    return type(error).__name__ + (f": {first}" if first else "") + (f", at {place}" if place else "")


def defined_at(thing: object) -> str | None:
    """Return file:line of the class or function, if it can be found and is not ours."""
    try:
        file, line = getsourcefile(thing), getsourcelines(thing)[1]  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    return None if file is None or file.startswith(_OURS) else _shown(file, line)


def _place(error: BaseException) -> str | None:
    """Return file:line of the innermost frame that is the user's, neither ours nor of a library."""
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno or 1)
    frames = [(frame.filename, frame.lineno or 1) for frame in extract_tb(error.__traceback__)]
    installed = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    theirs = [f for f in frames if not f[0].startswith((_OURS, "<frozen"))]
    own = [f for f in theirs if not f[0].startswith(installed)]
    if own:
        return _shown(*own[-1])
    package = [f for f in theirs if not f[0].startswith(installed[:2])]  # installed, and called by us
    return _shown(*package[0]) if package else None


def _shown(filename: str, line: int) -> str:
    path, here = Path(filename), Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"
