"""Refuses a site that fetches anything from elsewhere when it is read.

python tools/offline.py build/site
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
)
_IN_STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")


def fetched(folder: Path) -> list[str]:
    """Return the addresses on other hosts that pages and style sheets load; links that a reader may follow are fine."""
    found = []
    for page in sorted(folder.rglob("*.html")):
        found += [f"{page}: {address}" for address in _FETCHED.findall(page.read_text(encoding="utf-8"))]
    for sheet in sorted(folder.rglob("*.css")):
        found += [f"{sheet}: {address}" for address in _IN_STYLE.findall(sheet.read_text(encoding="utf-8"))]
    return found


if __name__ == "__main__":
    sys.exit("\n".join(fetched(Path(sys.argv[1]))) or None)
