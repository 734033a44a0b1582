"""Whether a reader of an app's source sees what Python runs: hidden letters, other encodings, and what to look at."""

from __future__ import annotations

import tokenize
from io import BytesIO
from pathlib import PurePosixPath

from pausefl.errors import ConfigError

_LONGEST = 200
"""Letters of a line: what stands beyond them is out of sight on many screens."""


def check_source(name: str, content: bytes) -> None:
    """Refuse source in which something is not shown, or shown in another place or as another letter than it is.

    Python takes a single return for the end of a line, which a terminal does not, and after a form feed it counts
    indentation anew.  Marks of direction show code as a part of a comment (Boucher and Anderson, 2021).
    """
    if PurePosixPath(name).suffix != ".py":
        return
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n"), 1):
        text = line.decode(errors="replace").replace("\t", " ")
        odd = next((letter for letter in text if letter == "\ufffd" or not letter.isprintable()), None)
        if odd is not None:
            raise ConfigError(
                f"bundle has {name!r:.200}, whose line {number} has a letter that a screen does not show as it is "
                f"({odd!a}); "
                "let its author write it as an escape"
            )
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
    except SyntaxError:
        encoding = "unknown"
    if encoding not in ("utf-8", "utf-8-sig"):
        raise ConfigError(
            f"bundle has {name!r:.200}, which Python reads as {encoding}, but must be UTF-8; do not run this app"
        )


def source_marks(name: str, content: bytes) -> list[str]:
    """Return what a reader should look at in a source that is not refused."""
    if PurePosixPath(name).suffix != ".py":
        return []
    marks = [] if content.removeprefix(b"\xef\xbb\xbf").isascii() else ["WARNING: it has letters that are not ASCII"]
    longest = max(len(line) for line in content.decode(errors="replace").split("\n"))
    return marks + ([f"WARNING: it has a line of {longest} letters"] if longest > _LONGEST else [])
