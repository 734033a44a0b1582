"""Writes docs/licences.md: what pausefl depends on, and under which licence, as the installed packages say themselves.

    python tools/licences.py docs/licences.md

The packages are those that pausefl and its extras ask for, and what these ask for in turn; ``dev`` and ``docs`` are for
work on pausefl and are not listed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
_CLASSIFIER = "License :: OSI Approved :: "
DATA_INSIDE = (
    "",
    "## Data inside pausefl",
    "",
    "| file | made from | licence |",
    "|---|---|---|",
    "| `pausefl/sim/device_speeds.csv` | the npm package detect-gpu 5.0.70, by `tools/device_speeds.py` "
    "| MIT; its text is in the file |",
    "",
)
"""What comes with the package and was made by others."""


def groups() -> dict[str, list[str]]:
    """Return what is asked for: by the package itself, and by each extra that a user may want."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return {"pausefl": project["dependencies"]} | {e: extras[e] for e in extras if e not in ("all", "dev", "docs")}


def needed(wanted: list[str]) -> dict[str, Distribution]:
    """Return the installed packages that these requirements bring in, by name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, key) in seen:
            continue
        seen.add((name, key))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed; run: make licences") from None
        for text in found[name].requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in (*requirement.extras, "")):
                waiting.append(inner)
    return found


def licence(package: Distribution) -> str:
    """Return what the package's metadata says: the expression, the classifiers, or the first line of its text."""
    about = package.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    classified = [c.removeprefix(_CLASSIFIER) for c in about.get_all("Classifier", []) if c.startswith(_CLASSIFIER)]
    if classified:
        return ", ".join(classified)
    first = re.split(r"[\r\n]", "".join(about.get_all("License", [])).strip())[0]
    return first if 0 < len(first) < 60 else "not stated in its metadata"


def page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Licences",
        "",
        "pausefl is under Apache-2.0. Below is what it installs beside itself, as the packages' own metadata say.",
        "Made with `make licences`, on Linux; not typed.",
    ]
    core = needed(groups()["pausefl"])
    for name, wanted in groups().items():
        found = needed(wanted)
        title = "pausefl alone" if name == "pausefl" else f"pausefl[{name}], beside that"
        lines += ["", f"## {title}", "", "| package | licence |", "|---|---|"]
        shown = sorted(found if name == "pausefl" else set(found) - set(core))
        lines += [f"| {found[one].metadata['Name']} | {licence(found[one])} |" for one in shown]
    return "\n".join([*lines, *DATA_INSIDE])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
