"""Tables for the reference, made from the code: configuration keys and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

_MANUAL = Path(__file__).resolve().parent.parent / "docs" / "simulator.md"


def configuration_table() -> str:
    """Return a table per section: key, type, default, bound, and what the manual says of it."""
    from pausefl.runs.config import Config

    said = key_comments(_MANUAL.read_text(encoding="utf-8"))
    lines: list[str] = []
    for section, field in Config.model_fields.items():
        model: Any = field.annotation
        lines += [f"## [{section}]", "", str(model.__doc__), "", "| key | type | default | |", "|---|---|---|---|"]
        for key, inner in model.model_fields.items():
            kind, bound = _kind(inner.annotation), ", ".join(_bounds(inner))
            default = "unset" if inner.default is None else f"`{_toml(inner.default)}`"
            what = "; ".join(text for text in (said.get((section, key), ""), bound) if text)
            lines.append(f"| `{key}` | {kind} | {default} | {what} |".replace("…", "…"))
        lines.append("")
    return "\n".join(lines)


def key_comments(manual: str) -> dict[tuple[str, str], str]:
    """Return the comment beside each key in the manual's configuration."""
    block = re.findall(r"^```toml\n(.*?)^```", manual, re.S | re.M)[0]
    section, found = "", {}
    for line in block.splitlines():
        if heading := re.match(r"\[(\w+)\]", line):
            section = heading[1]
        elif entry := re.match(r"(\w+) = (?:\"[^\"]*\"|[^#]*?)\s*(?:#\s*(.*))?$", line):
            found[section, entry[1]] = re.sub(r"^e\.g\.;?\s*", "", entry[2] or "").replace("|", "\\|")
    return found


def commands_table() -> str:
    """Return every command with its arguments and options, as its ``--help`` has them."""
    import click
    import typer

    from pausefl.cli import app
    from pausefl.cli.options import finished

    lines: list[str] = []

    def add(command: click.Command, name: str) -> None:
        if isinstance(command, click.Group):
            for inner in command.commands:
                add(command.commands[inner], f"{name} {inner}")
            return
        shown = [p for p in command.params if p.name != "help"]
        usage = " ".join(_usage(p) for p in shown if isinstance(p, click.Argument))
        lines.extend([f"## {name}", "", str(command.help), "", f"`{name} {usage}`".replace(" `", "`"), ""])
        if shown:
            lines.extend(["| | | default |", "|---|---|---|"])
            lines.extend(_row(p) for p in shown)
            lines.append("")

    add(finished(typer.main.get_command(app)), "pausefl")
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{n}`" for n in (*parameter.opts, *parameter.secondary_opts) if n.startswith("--"))
    names = names or f"`{_usage(parameter)}`"
    default = "required" if parameter.required else parameter.default
    shown = "" if default in (None, False, ()) or callable(default) else f"{default}"
    return f"| {names} | {(parameter.help or '').replace('|', chr(92) + '|')} | {shown} |"


def _usage(parameter: Any) -> str:
    name = str(parameter.name).upper() + ("…" if parameter.nargs != 1 else "")
    return name if parameter.required else f"[{name}]"


def _kind(annotation: Any) -> str:
    choices = get_args(annotation)
    for inner in choices:
        if get_origin(inner) is Literal:  # one that may be left out
            return _kind(inner)
    if choices and all(isinstance(choice, str) for choice in choices):
        return ", ".join(f"`{choice}`" for choice in choices)
    kinds = [kind for kind in choices or (annotation,) if kind is not type(None)]
    return {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}[kinds[0].__name__]


def _bounds(field: Any) -> list[str]:
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    return [f"{words[k]} {getattr(m, k)}" for m in field.metadata for k in words if hasattr(m, k)]


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else f"{value!r}"
