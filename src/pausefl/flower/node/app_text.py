"""Whether a reader of an app's files sees what runs: other letters, hidden ones, encodings, and what to look at."""

from __future__ import annotations

import json
import math
import re
import sysconfig
import tokenize
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from itertools import groupby
from pathlib import Path

from pausefl.errors import ConfigError

_LONGEST, _GAP, _EMPTY = 120, 40, 50
"""Columns of a line, blanks in a line and lines without code: what stands beyond is out of sight on many screens."""
_BLANK = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFFC, 0xFFFC), (0xE0100, 0xE01EF),
)  # fmt: skip
"""Letters that Unicode lets a screen leave out (Default_Ignorable_Code_Point), and others without a picture, where
Python takes them for printable."""
_FROM_THE_RIGHT = frozenset({"R", "AL", "AN"})
_MARK = b"\xef\xbb\xbf"
"""The first bytes of some files in UTF-8."""


def is_source(name: str) -> bool:
    """Whether Python can load a file of this name as source."""
    return name.lower().endswith((".py", ".pyw"))


def is_prose(name: str) -> bool:
    """Whether a file is for people: code can read it, but not without naming it."""
    return name.lower().endswith(".md") or name.rpartition("/")[2] == "LICENSE"


_TELLING = frozenset(
    (
        "eval", "exec", "compile", "__import__", "importlib", "pickle", "marshal", "shelve", "dill", "joblib",
        "allow_pickle", "unsafe_load", "load_module", "time", "datetime", "perf_counter", "monotonic", "sleep",
        "ctypes", "cffi", "mmap", "gc", "inspect", "__code__", "_getframe", "modules", "resource",
        "runpy", "sympify", "stat", "lstat", "fstat", "times", "now", "today", "uuid1", "created", "created_at",
        "alarm", "setitimer", "Timer", "timeit", "psutil", "getrusage", "getloadavg", "cProfile", "profile",
        "relativeCreated", "gzip", "zipfile", "tarfile", "writestr", "strftime", "gmtime", "asctime", "M8", "Period",
        "arrow", "pendulum", "timeout", "default_timer", "full_load", "load_all",
    )
)  # fmt: skip
_TELLING_PARTS = (
    "pickle", "datetime", "timestamp", "mtime", "atime", "ctime", "localtime", "dateutil", "dateparser", "date_parser",
    "parse_dates", "date_format", "formatdate",
)  # fmt: skip
_TELLING_CALLS = (".load(",)
"""Words in the code of an app by which a server's code could run, or by which one record could tell another something,
parts of such words, and calls: an honest app needs few of them."""
_WORD = re.compile(r"\w+")


def check_text(name: str, content: bytes) -> None:
    """Refuse a file in which something is not shown, or shown in another place or as another letter than it is.

    Prose may have any letter that a screen shows.  All other files are ASCII, but for comments of Python code, because
    letters of other alphabets can look like ASCII ones.  They have no tab, which can look like any number of blanks, no
    blank at the end of a line, and no return.  Files of settings decide what code does, so JSON must be strict: of two
    equal keys the second one counts.  Python takes a single return for the end of a line, which a terminal does not,
    and after a form feed it counts indentation anew.  Marks of direction show code as a part of a comment (Boucher and
    Anderson, 2021).
    """
    if not name.isascii():
        raise ConfigError(f"bundle has a file called {name!a:.200}, which is not ASCII; let its author rename it")
    prose = is_prose(name)
    for number, line in enumerate(_lines(content, prose=prose), 1):
        odd = next((letter for letter in line if letter == "\ufffd" or not _is_shown(letter)), None)
        if odd is None and not prose:
            odd = next(filter(_moves_others, line), " " if line.endswith(" ") else None)
        if odd is not None:
            raise ConfigError(
                f"bundle has {name!r:.200}, whose line {number} has a letter that a screen does not show as it is "
                f"({odd!a}); let its author write it as an escape, or take it out"
            )
    for number, letter in () if prose else _foreign_letters(name, content):
        raise ConfigError(
            f"bundle has {name!r:.200}, whose line {number} has the letter {letter!a}, which can look like another; "
            "let its author use ASCII letters there"
        )
    if name.lower().endswith((".json", ".jsonl")):
        _check_json(name, content.decode())


def text_marks(name: str, content: bytes) -> list[str]:
    """Return what a reader should look at in a file that is not refused."""
    marks = [] if content.removeprefix(_MARK).isascii() else ["WARNING: it has letters that are not ASCII"]
    if is_prose(name):
        return marks
    lines = content.decode().split("\n")
    longest = max(map(len, lines))
    marks += [f"WARNING: it has a line of {longest} columns"] * (longest > _LONGEST)
    marks += [f"WARNING: it has code behind {_GAP} blanks"] * any(" " * _GAP in line for line in lines)
    bare = groupby(line.lstrip()[:1] in ("", "#") for line in lines)
    empty = max((len(list(run)) for without, run in bare if without), default=0)
    marks += [f"WARNING: it has {empty} lines without code in a row"] * (empty >= _EMPTY)
    found = _telling_words(content.decode()) if is_source(name) else []
    return marks + [f"look why it says {', '.join(found)}"] * bool(found)


def _telling_words(code: str) -> list[str]:
    words = set(_WORD.findall(code))
    telling = {word for word in words if any(part in word.lower() for part in _TELLING_PARTS)} | (words & _TELLING)
    return sorted(telling.union(call for call in _TELLING_CALLS if call in code))


@lru_cache
def importer_of(module: str) -> str:
    """Return an installed file that imports a module of this name, which is not installed; "" if there is none."""
    name = re.escape(module).encode()
    form = rb"^\s*(?:import|from)\s+%b\b|(?:import\w*|find_spec)\(\s*['\"]%b['\"]"
    wanted = re.compile(form % (name, name), re.MULTILINE)
    for place in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")):
        for path in sorted(Path(place).rglob("*.py")):
            with suppress(OSError):
                content = path.read_bytes()
                if name in content and wanted.search(content):
                    return path.relative_to(place).as_posix()
    return ""


def _lines(content: bytes, *, prose: bool = False) -> list[str]:
    text = content.removeprefix(_MARK).replace(b"\r\n", b"\n").replace(b"\t", b" ") if prose else content
    return text.decode(errors="replace").split("\n")


def _foreign_letters(name: str, content: bytes) -> Iterator[tuple[int, str]]:
    """Yield the letters that are not ASCII, with their lines, but for those in comments of Python code."""
    if not is_source(name):
        texts = list(enumerate(_lines(content), 1))
    else:
        try:
            encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
        except SyntaxError:
            encoding = "unknown"
        if encoding != "utf-8":
            raise ConfigError(
                f"bundle has {name!r:.200}, which Python reads as {encoding}, but must be UTF-8; do not run this app"
            )
        try:
            tokens = [] if content.isascii() else list(tokenize.tokenize(BytesIO(content).readline))
        except (tokenize.TokenError, SyntaxError) as error:
            raise ConfigError(f"bundle has {name!r:.200}, which is not Python ({error}); do not run it") from None
        kinds = (tokenize.COMMENT, tokenize.ENCODING)
        texts = [(token.start[0], token.string) for token in tokens if token.type not in kinds]
    yield from ((number, letter) for number, text in texts for letter in text if not letter.isascii())


def _check_json(name: str, text: str) -> None:
    """Refuse JSON that is not strict: readers of other formats take it for something, and a key may stand twice."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        twice = [key for key, count in Counter(key for key, _ in found).items() if count > 1]
        if twice:
            raise ValueError(f"the key {twice[0]!a:.80} stands twice")
        return dict(found)

    def number(written: str) -> float:
        if not math.isfinite(value := float(written)):
            raise ValueError(f"{written:.40} is not finite")
        return value

    for part in filter(None, text.split("\n")) if name.lower().endswith("l") else [text]:
        try:
            json.loads(part, object_pairs_hook=pairs, parse_constant=number, parse_float=number)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"bundle has {name!r:.200}, which is not strict JSON ({error}); let its author mend it"
            ) from None


def _moves_others(letter: str) -> bool:
    """Whether a letter may show others in another order, as those from right to left do, or stand over them."""
    return unicodedata.bidirectional(letter) in _FROM_THE_RIGHT or unicodedata.combining(letter) > 0


def _is_shown(letter: str) -> bool:
    """Whether a screen shows a letter: some are printable by name, and leave no mark."""
    return letter.isprintable() and not any(first <= ord(letter) <= last for first, last in _BLANK)
