"""Draws the map of the house: docs/images/architecture.svg, and the tree of files in docs/architecture.md.

python tools/house.py docs
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

Box = tuple[str, str, int, int, int, str]

_ROOMS: tuple[Box, ...] = (  # name, what it does, column, row, columns wide, colour
    ("cli", "commands, one file each", 0, 0, 6, "#0f766e"),
    ("studies", "comparisons, claims, results", 0, 1, 6, "#0f766e"),
    ("report", "charts and pages", 0, 2, 6, "#0f766e"),
    ("runs", "one run: configuration, folder, numbers", 0, 3, 6, "#b45309"),
    ("learn", "data, models, training", 0, 4, 3, "#b45309"),
    ("flower", "server and client of a Flower app", 3, 4, 3, "#b45309"),
    ("sim", "rounds under a virtual clock", 0, 5, 3, "#1d4ed8"),
    ("owner", "the data owner's gate", 3, 5, 3, "#1d4ed8"),
    ("selector", "select, observe, save, load", 0, 6, 6, "#1d4ed8"),
    ("rewards", "what a choice is worth", 0, 7, 2, "#6d28d9"),
    ("selection", "policies and solvers", 2, 7, 2, "#6d28d9"),
    ("privacy", "noise, budget, ledger", 4, 7, 2, "#6d28d9"),
    ("system, rng, types, errors", "what everything stands on", 0, 8, 6, "#475569"),
)
_ROUND = (
    ("available", "who is there"),
    ("score", "rewards"),
    ("select", "policy"),
    ("reserve", "ledger, durable"),
    ("train", "on the client"),
    ("bound + noise", "mechanism"),
    ("aggregate", "on the server"),
    ("observe", "latencies"),
)
_CELL, _HIGH, _GAP, _LEFT, _TOP = 118, 46, 10, 20, 58
_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" '
    'aria-label="The rooms of pausefl from the command line down to the errors, and the eight steps of a round">\n'
    "<style>text{{font-family:system-ui,'Segoe UI','Liberation Sans',Arial,sans-serif}} .h{{font-size:15px;"
    "font-weight:600;fill:#0f172a}} .n{{font-size:13px;font-weight:600;fill:#0f172a}} "
    ".w{{font-size:11px;fill:#475569}}</style>\n"
    '<rect width="{wide}" height="{high}" rx="10" fill="#ffffff"/>\n{parts}\n</svg>\n'
)


def picture() -> str:
    """Return the drawing as SVG."""
    rows = 1 + max(room[3] for room in _ROOMS)
    parts = [_text(_LEFT, 34, "h", "Who may import whom: from the top down, never up")]
    parts += [_room(room) for room in _ROOMS]
    bottom = _TOP + rows * (_HIGH + _GAP)
    right = _LEFT + 6 * (_CELL + _GAP) + 40
    parts.append(_text(right, 34, "h", "One round"))
    step = (bottom - _TOP - _GAP) / len(_ROUND)
    for i, (name, who) in enumerate(_ROUND):
        y = _TOP + i * step
        inside = step - 8
        parts.append(_box(right, y, 216, inside, "#0f766e" if name != "reserve" else "#b91c1c"))
        parts.append(_text(right + 14, y + inside / 2 + 5, "n", name))
        parts.append(f'<text x="{right + 206:g}" y="{y + inside / 2 + 4:g}" class="w" text-anchor="end">{who}</text>')
        if i:
            x = right + 108
            parts.append(f'<path d="M{x - 4:g} {y - 7:g} h8 l-4 6 z" fill="#94a3b8"/>')
    return _PICTURE.format(wide=right + 216 + _LEFT, high=bottom + 14, parts="\n".join(parts))


def _room(room: Box) -> str:
    name, what, column, row, width, colour = room
    x, y = _LEFT + column * (_CELL + _GAP), _TOP + row * (_HIGH + _GAP)
    wide = width * (_CELL + _GAP) - _GAP
    middle = x + wide / 2
    return (
        f"{_box(x, y, wide, _HIGH, colour)}\n"
        f'<text x="{middle:g}" y="{y + 20}" class="n" text-anchor="middle">{name}</text>\n'
        f'<text x="{middle:g}" y="{y + 36}" class="w" text-anchor="middle">{what}</text>'
    )


def _box(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="7" fill="{colour}" fill-opacity="0.09" '
        f'stroke="{colour}" stroke-opacity="0.65"/>'
    )


def _text(x: float, y: float, kind: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{text}</text>'


def layers() -> list[str]:
    """Return who may import whom, from the top down, as import-linter checks it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    found: list[str] = next(one["layers"] for one in contracts if one["type"] == "layers")
    return [layer.replace("(", "").replace(")", "") for layer in found]


def tree() -> str:
    """Return every file of the package with the first line of its docstring, the rooms from the top down."""
    package = ROOT / "src" / "pausefl"
    rooms = [name for layer in layers() for name in layer.split(" | ")]
    lines = ["src/pausefl/"]
    for name in rooms:
        lines += _files(package / name, 1) if (package / name).is_dir() else [_file(package / f"{name}.py", 1)]
    return "\n".join(lines)


def _files(folder: Path, depth: int) -> list[str]:
    lines = [_line(f"{folder.name}/", _about(folder / "__init__.py"), depth)]
    lines += [_file(path, depth + 1) for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    lines += [_line(path.name, "", depth + 1) for path in sorted(folder.glob("*.*")) if path.suffix != ".py"]
    for inner in sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"):
        lines += _files(inner, depth + 1)
    return lines


def _file(path: Path, depth: int) -> str:
    return _line(path.name, _about(path), depth)


def _line(name: str, about: str, depth: int) -> str:
    return (f"{'  ' * depth}{name}".ljust(25) + f"   {about}").rstrip()


def _about(path: Path) -> str:
    if not path.exists():
        return ""
    first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return first.rstrip(".").replace("``", "")  # the tree is a block of text, in which they would be shown


def page(text: str) -> str:
    """Return docs/architecture.md with its tree and its order of imports as they are now."""
    begin, end = "```\nsrc/pausefl/", "\n```\n"
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    head, start, tail = after.partition("from the top down): `")
    return f"{before}```\n{tree()}{end}{head}{start}{' → '.join(layers())}`{tail.partition('`')[2]}"


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    (docs / "images" / "architecture.svg").write_text(picture(), encoding="utf-8")
    (docs / "architecture.md").write_text(
        page((docs / "architecture.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
