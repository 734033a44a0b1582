"""Writes src/pausefl/sim/device_speeds.csv, from the npm package detect-gpu: how many devices reach which frame rate.

    npm pack detect-gpu@5.0.70 && tar xzf detect-gpu-5.0.70.tgz
    python tools/device_speeds.py package src/pausefl/sim/device_speeds.csv

The package has a file of benchmarks for each family of graphics chips.  The names of those for mobile devices begin
with ``m-``.  An entry is a chip with the screens it was measured with: width, height, frames per second, device.  If a
device was measured more than once, its highest rate counts.  Rates below one frame per second are left out: work
divided by zero takes for ever.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

_ABOUT = """\
Frame rates of mobile devices: frames per second, and the number of device models that were measured with it.
Derived by tools/device_speeds.py from dist/benchmarks/m-*.json of the npm package {name} {version},
https://github.com/pmndrs/detect-gpu, whose scores are from https://gfxbench.com.  The package has this licence:
"""


def rates(package: Path) -> dict[str, int]:
    """Return the frames per second of each mobile device."""
    found: dict[str, int] = {}
    for file in sorted((package / "dist" / "benchmarks").glob("m-*.json")):
        _, *chips = json.loads(file.read_text(encoding="utf-8"))
        for _, _, _, _, screens in chips:
            for _, _, rate, device in screens:
                found[device] = max(rate, found.get(device, 0))
    return {device: rate for device, rate in found.items() if rate >= 1}


def table(package: Path) -> str:
    """Return the file: a head with the licence, and a line per frame rate."""
    about = json.loads((package / "package.json").read_text(encoding="utf-8"))
    head = _ABOUT.format(name=about["name"], version=about["version"]).splitlines()
    licence = (package / "LICENSE").read_text(encoding="utf-8").splitlines()
    lines = [f"# {line}".rstrip() for line in [*head, "", *licence, "", "frames per second,devices"]]
    lines += [f"{rate},{devices}" for rate, devices in sorted(Counter(rates(package).values()).items())]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(table(Path(sys.argv[1])), encoding="utf-8")
