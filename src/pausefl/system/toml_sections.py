"""TOML files: read and written, their sections validated, and wrong keys and values explained in one line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError

from pausefl.errors import ConfigError

_DATABASE = b"SQLite format 3\0"


def read_toml(path: Path | Traversable, remedy: str = "pass the path of a TOML file") -> dict[str, Any]:
    """Return a file's content; ``remedy`` is what to do where there is no such file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; {remedy}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); pass a file that you may read") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if path.read_bytes().startswith(_DATABASE):
            raise ConfigError(f"{path} is a database, not a TOML file; {remedy}") from None
        raise ConfigError(f"{path} is not valid TOML ({error}); change the file at that place") from None


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML that reads back equal; TOML knows no None, so leave out what has no value.

    >>> print(toml_text({"run": {"rounds": 5, "note": "two\\nlines"}}), end="")
    [run]
    rounds = 5
    note = "two\\nlines"
    """
    return tomli_w.dumps(content)


Model = TypeVar("Model", bound=BaseModel)
_REMEDY = "change it in the file or with --set {key}=…"


class Section(BaseModel):
    """Keys with their values; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def validated(model: type[Model], content: Mapping[str, Any], name: str = "", *, remedy: str = _REMEDY) -> Model:
    """Return the settings; the error names the key, the value, the bound and the nearest known key.

    ``name`` is the section that the content stands in.  ``remedy`` says what to do about a wrong value; ``{key}`` in it
    stands for the full key.
    """
    try:
        return model.model_validate(dict(content))
    except ValidationError as error:
        raise ConfigError(_explain(error, model, name, remedy)) from None


def value_of(text: str) -> Any:
    """Return a value as TOML has it; a bare word is a string."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(error: ValidationError, model: type[BaseModel], prefix: str, remedy: str) -> str:
    errors = error.errors()
    # A misspelt key also shows as a missing one.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    where = [str(part) for part in first["loc"]]
    name = ".".join([prefix, *where] if prefix else where)
    if first["type"] == "extra_forbidden":
        known = _known(model, where[:-1])
        close = get_close_matches(where[-1], known, n=1)
        front = name[: len(name) - len(where[-1])]
        hint = f"did you mean {front + close[0]!r}?" if close else f"the known keys are {', '.join(known)}"
        return f"{name} is not a known key; {hint}"
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{name} is missing; add it to the file"
    found = f"{first['input']!r:.100}"
    if first["type"] in ("dict_type", "model_type"):
        return f"{name} is {found}, but must be a section; write [{name}]"
    bound = first["msg"].removeprefix("Input should be ")
    return f"{name} is {found}, but must be {bound}; {remedy.format(key=name)}"


def _known(model: type[BaseModel], where: list[str]) -> list[str]:
    for part in where:
        inner = _model_in(model.model_fields[part].annotation) if part in model.model_fields else None
        model = inner or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a key holds, alone or in a list."""
    for kind in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
