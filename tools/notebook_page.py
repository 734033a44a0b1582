"""A notebook as a page of the site: its texts, its code, and what each cell printed or drew."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any


def notebook_page(text: str) -> str:
    """Return the Markdown of a notebook; pictures are inside the page."""
    cells = json.loads(text)["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield _fenced("python", source)
    for output in cell.get("outputs", []):
        yield _shown(output)


def _shown(output: dict[str, Any]) -> str:
    """Return an output: a picture, or the text in its place."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f"<div class='drawn'>{''.join(data['image/svg+xml'])}</div>"
    if "image/png" in data:
        said = html.escape("".join(data.get("text/plain", "a picture")), quote=True)
        return f'<img alt="{said}" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    return _fenced("text", "".join(output.get("text") or data.get("text/plain") or "").rstrip())


def _fenced(language: str, text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
