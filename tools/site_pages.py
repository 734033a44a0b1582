"""What the site has beside docs/: README as its front page, files that pages link to, tables, and wrapped lines.

MkDocs calls the functions named ``on_…``.  Links are written so that they work in the repository; here they are led to
the same file inside the site.
"""

from __future__ import annotations

import os
import re
import sys
from html import escape, unescape
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from notebook_page import notebook_page  # noqa: E402 - the folder is known only now
from tables import commands_table, configuration_table  # noqa: E402

HOMES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
"""Pages from the top of the repository, and what they are called in the site."""

TABLES = {"<!-- configuration -->": configuration_table, "<!-- commands -->": commands_table}
"""Marks in a page, and what takes their place."""

_NOTEBOOK = ".ipynb"
_BLOCK = re.compile(r'<div class="language-(console|text|toml|bash|csv|python|pycon) highlight">.*?</div>', re.S)
_PICTURE = re.compile(r'<img [^>]*?src="([^":]+)"[^>]*>')
_TABLE = re.compile(r"<table>.*?</table>", re.S)
_HEAD, _ROW = re.compile(r"<th[^>]*>(.*?)</th>", re.S), re.compile(r"<tr>.*?</tr>", re.S)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.S)
_NAME = re.compile(r"(?<=<code>)[\w./]{20,}(?=</code>)")
"""A name that is too long for its column; it may go on below after an underscore."""

_LONG = 50
"""Letters in a cell, from which on a table is one of sentences rather than of numbers."""

_MANY = 5
"""Columns, from which on a table of numbers is too wide for a phone."""

_TITLE = re.compile(r'(?<=doc-object-name )([^"]*">)([^<]+)')
_CODE, _TEXT = re.compile(r"<code\b.*?</code>", re.S), re.compile(r"(?<=>)[^<]+")
_HYPHENED = re.compile(r"\S*[-\[]\S+")
_WHOLE = 30
"""Letters of the longest word of code that is never cut at a hyphen."""

_LINE = re.compile(r'<span (id="[^"]*__line-[^"]*")>(.*?\n)', re.S)
_BESIDE = re.compile(r"\s*\S.*?(?:\s{3,}|\s{2,}(?=#))(?=\S)")
"""What stands left of a comment, or of a second column."""
_POINT, _OPENED = re.compile(r'(?=<span class="o">\.</span>)'), re.compile(r"(?<=[(\[{]</span>)(?=<span)")
"""Where a line of Python may go on below, before a word is cut."""
_FAR = 40
"""The last column under which a line may go on: right of it there is too little room."""
_START = re.compile(r"(?:>>> |\.\.\. )?\s*")
_DRAWN = re.compile("[┏┃┡│└]")

_LINK = re.compile(r"(?<!`)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the top of the repository, and every file of it that a page links to."""
    for source, place in HOMES.items():
        files.append(_file(config, source, place))
    waiting = [file.src_uri for file in files if file.src_uri.endswith(".md")]
    while waiting:
        origin = _origin(waiting.pop())
        for target in _LINK.findall((ROOT / origin).read_text(encoding="utf-8")):
            found = _in_repository(origin, target[0])
            if found is not None and files.get_file_from_path(_place(found)) is None:
                files.append(_file(config, found, _place(found)))
                if found.endswith(".md"):
                    waiting.append(_place(found))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where the files are in the site, and fill in the tables."""
    here = page.file.src_uri
    if here == "index.md":
        page.meta["hide"] = ["navigation"]  # the tabs lead on from here
    origin = _origin(here)

    def led(found: re.Match[str]) -> str:
        target = _in_repository(origin, found[1])
        if target is None:
            return found[0]
        return f"]({os.path.relpath(_place(target), PurePosixPath(here).parent)}{found[2] or ''})"

    markdown = _LINK.sub(led, markdown)
    for mark, table in TABLES.items():
        if mark in markdown:
            markdown = markdown.replace(mark, f'<div class="lookup" markdown>\n\n{table()}\n\n</div>')
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Make a page readable on a small screen: long lines go on below, pictures open, and cells can be stacked."""
    html = _PICTURE.sub(r'<a href="\1">\g<0></a>', html)
    html = _CELL.sub(lambda cell: _NAME.sub(lambda name: re.sub("(?<=[_/])", "<wbr>", name[0]), cell[0]), html)
    html = _TITLE.sub(lambda found: found[1] + re.sub("(?<=[._])", "<wbr>", found[2]), html)
    html = _TABLE.sub(lambda found: _stacked(found[0]), html)
    html = _BLOCK.sub(lambda found: _hanging(found[0], found[1]), html)
    return _CODE.sub(lambda code: _TEXT.sub(lambda text: _HYPHENED.sub(_unbroken, text[0]), code[0]), html)


def on_post_build(config: Any, **_: Any) -> None:
    """Remove the theme's page for wrong addresses: it needs a server, and the site is read from a folder."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)


def _unbroken(word: re.Match[str]) -> str:
    """Keep an option such as --json on one line; browsers would break it after a hyphen."""
    return f'<span class="whole">{word[0]}</span>' if len(unescape(word[0])) <= _WHOLE else word[0]


def _stacked(table: str) -> str:
    """Let each cell of a wide table know its heading, which stands before it where cells are stacked."""
    heads, cells = [_plain(head) for head in _HEAD.findall(table)], [_plain(cell) for cell in _CELL.findall(table)]
    wide = len(heads) >= _MANY or (len(heads) >= 3 and max(map(len, cells), default=0) > _LONG)
    if not wide or "doc-section-item" in table:
        return table

    def named(row: re.Match[str]) -> str:
        of = iter(heads)
        return _CELL.sub(lambda cell: cell[0].replace("<td", f'<td data-of="{escape(next(of, ""))}"', 1), row[0])

    return _ROW.sub(named, table.replace("<table>", "<table data-stacked>", 1))


def _plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html)).strip("\n")


def _hanging(block: str, language: str) -> str:
    """Say for each line how far in it goes on: under its comment, or behind its start; a drawn table stays whole."""
    drawn = [len(text) for _, line in _LINE.findall(block) if _DRAWN.search(text := _plain(line))]

    def placed(found: re.Match[str]) -> str:
        text = _plain(found[2])
        if _DRAWN.search(text):
            return f'<span {found[1]} class="drawn" style="--columns: {max(drawn)}">{found[2]}'
        beside = _BESIDE.match(text) if language not in ("python", "pycon") else None
        start = _START.match(text)
        inside = start.end() if start else 0
        column = beside.end() if beside and beside.end() <= _FAR else inside + 4
        return f'<span {found[1]} style="--hang: {column}ch; --in: {inside + 2}ch">{found[2]}'

    if language in ("python", "pycon"):
        block = _OPENED.sub("<wbr>", _POINT.sub("<wbr>", block))
    return _LINE.sub(placed, block.replace(' highlight">', ' highlight hanging">', 1))


def _file(config: Any, source: str, place: str) -> File:
    text = (ROOT / source).read_bytes()
    return File.generated(config, place, content=notebook_page(text.decode()) if source.endswith(_NOTEBOOK) else text)


def _origin(place: str) -> str:
    """Return where a file of the site lies in the repository."""
    for source, home in HOMES.items():
        if place == home:
            return source
    if not place.startswith("source/"):
        return f"docs/{place}"
    origin = place.removeprefix("source/")
    notebook = f"{origin.removesuffix('.md')}{_NOTEBOOK}"
    return notebook if (ROOT / notebook).is_file() else origin


def _place(origin: str) -> str:
    """Return where a file of the repository lies in the site."""
    if origin in HOMES:
        return HOMES[origin]
    if origin.startswith("docs/"):
        return origin.removeprefix("docs/")
    return f"source/{origin.removesuffix(_NOTEBOOK)}.md" if origin.endswith(_NOTEBOOK) else f"source/{origin}"


def _in_repository(page: str, target: str) -> str | None:
    """Return the file that a relative link leads to, a folder's README for a folder, or None."""
    found = Path(os.path.normpath(ROOT / Path(page).parent / target))
    if found.is_dir():
        found /= "README.md"
    return found.relative_to(ROOT).as_posix() if found.is_file() and found.is_relative_to(ROOT) else None
