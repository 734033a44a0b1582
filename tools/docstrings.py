"""Docstrings as Markdown, for the reference: examples become blocks, and roles become links."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

_ROLE = re.compile(r":(?:class|func|meth|mod|data):`(~?)([^`]+)`")
_DOTTED = re.compile(r"``([^`]+)``")


class Markdown(Extension):  # type: ignore[misc,unused-ignore]
    """Rewrites every docstring once, when it has been read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Take over one object's docstring."""
        if obj.docstring is not None:
            obj.docstring = Docstring(
                as_markdown(obj.docstring.value),
                lineno=obj.docstring.lineno,
                endlineno=obj.docstring.endlineno,
                parent=obj,
                parser=obj.docstring.parser,
                parser_options=obj.docstring.parser_options,
            )


def as_markdown(text: str) -> str:
    """Return the docstring with fenced doctests, single backticks, and names instead of roles."""
    text = _ROLE.sub(lambda found: f"`{found[2].rpartition('.')[2] if found[1] else found[2]}`", text)
    text = _DOTTED.sub(r"`\1`", text)
    lines, inside = [], False
    for line in text.splitlines():
        if line.lstrip().startswith(">>>") and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line.strip() if inside and line.lstrip().startswith((">>>", "...")) else line)
    return "\n".join([*lines, "```"] if inside else lines)
