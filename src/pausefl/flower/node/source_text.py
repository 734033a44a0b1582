"""Whether a reader of an app's source sees what Python runs: hidden letters, other encodings, and what to look at."""

from __future__ import annotations

import tokenize
from io import BytesIO
from itertools import groupby

from pausefl.errors import ConfigError

_LONGEST, _GAP, _EMPTY = 120, 40, 50
"""Columns of a line, blanks in a line and empty lines: what stands beyond them is out of sight on many screens."""
_BLANK = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
)  # fmt: skip
"""Letters that Unicode lets a screen leave out (Default_Ignorable_Code_Point), and the empty Braille pattern, where
Python takes them for printable."""


def is_source(name: str) -> bool:
    """Whether Python can load a file of this name as source."""
    return name.lower().endswith((".py", ".pyw"))


def check_source(name: str, content: bytes) -> None:
    """Refuse source in which something is not shown, or shown in another place or as another letter than it is.

    Python takes a single return for the end of a line, which a terminal does not, and after a form feed it counts
    indentation anew.  Marks of direction show code as a part of a comment (Boucher and Anderson, 2021).
    """
    if not is_source(name):
        return
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n"), 1):
        text = line.decode(errors="replace").replace("\t", " ")
        odd = next((letter for letter in text if letter == "\ufffd" or not _is_shown(letter)), None)
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
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ["WARNING: it is no text, so nobody can read it"]
    if not is_source(name):
        hidden = next((one for one in text if one not in "\n\r\t" and not _is_shown(one)), None)
        return [] if hidden is None else [f"WARNING: it has a letter that a screen does not show ({hidden!a})"]
    marks = [] if content.removeprefix(b"\xef\xbb\xbf").isascii() else ["WARNING: it has letters that are not ASCII"]
    lines = [line.expandtabs(8).rstrip() for line in text.split("\n")]
    longest = max(map(len, lines))
    marks += [f"WARNING: it has a line of {longest} columns"] * (longest > _LONGEST)
    marks += [f"WARNING: it has code behind {_GAP} blanks"] * any(" " * _GAP in line for line in lines)
    empty = max((len(list(run)) for some, run in groupby(lines, key=bool) if not some), default=0)
    return marks + [f"WARNING: it has {empty} empty lines in a row"] * (empty >= _EMPTY)


def _is_shown(letter: str) -> bool:
    """Whether a screen shows a letter: some are printable by name, and leave no mark."""
    return letter.isprintable() and not any(first <= ord(letter) <= last for first, last in _BLANK)
