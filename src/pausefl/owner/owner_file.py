"""The data owner's own file: what may leave, how noisy, and how often; no server has a say in it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from pausefl.errors import ConfigError, PauseError
from pausefl.privacy import MECHANISMS, SCHEDULES, Mechanism, Schedule
from pausefl.privacy.mechanisms.layers import BatchNorm
from pausefl.system.toml import read_toml

VARIABLE = "PAUSEFL_OWNER"
NODE_KEY = "pausefl-owner"

_TOP = ("name", "ledger", "schedule", "mechanism", "replies")
_REPLIES = ("allow", "messages", "keep")
_KINDS = ("evaluate", "query")
_CLIPS = ("width", "l1", "l2")


@dataclass(frozen=True, slots=True)
class Owner:
    """One data owner's terms.

    ``name`` is how the server knows the node, and the subject of its ledger.  ``allow`` names the numbers of the app's
    that may leave in the clear; ``messages`` the kinds served beside training; ``keep`` how many replies are kept to
    be sent again.
    """

    name: str
    ledger: Path
    schedule: Schedule
    mechanism: Mechanism
    batch_norm: BatchNorm = "refuse"
    allow: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    keep: int = 2
    many: bool = False
    """Whether the name has a place for the node's number, so that one ledger may hold several subjects."""

    def stricter(self, clip: float | None) -> Mechanism:
        """Return the mechanism, with the server's clip where that is the smaller one."""
        values: Any = self.mechanism
        field = next(name for name in _CLIPS if getattr(values, name, None) is not None)
        if clip is None or clip >= getattr(values, field):
            return self.mechanism
        return cast(Mechanism, replace(values, **{field: clip}))


def find_owner(node_config: Mapping[str, Any], default: str | os.PathLike[str] | None) -> Path:
    """Return the file's path: from the SuperNode's configuration, else the environment, else the app."""
    path = node_config.get(NODE_KEY) or os.environ.get(VARIABLE) or default
    if not path:
        raise ConfigError(
            f"no owner's file is named; start the SuperNode with --node-config '{NODE_KEY}=\"FILE\"', or set {VARIABLE}"
        )
    return Path(str(path)).expanduser().absolute()


def read_owner(path: Path, node_config: Mapping[str, Any]) -> Owner:
    """Read and validate the file; ``{key}`` in its name stands for a value of the SuperNode's configuration."""
    content = read_toml(path, "write the owner's file")
    try:
        return _owner(content, path.parent, node_config)
    except (PauseError, TypeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _owner(content: Mapping[str, Any], folder: Path, node_config: Mapping[str, Any]) -> Owner:
    _known(content, _TOP, "")
    name = re.sub(r"\{([^{}]*)\}", lambda found: _filled(found[1], node_config), _text(content, "name"))
    mechanism = dict(_table(content, "mechanism"))
    batch_norm = mechanism.pop("batch_norm", "refuse")
    if batch_norm not in ("refuse", "keep-local", "noise"):
        raise ConfigError(f"mechanism.batch_norm is {batch_norm!r}, but must be 'refuse', 'keep-local' or 'noise'")
    replies = _table(content, "replies") if "replies" in content else {}
    _known(replies, _REPLIES, "replies.")
    keep = replies.get("keep", 2)
    if isinstance(keep, bool) or not isinstance(keep, int) or not 0 <= keep <= 1000:
        raise ConfigError(f"replies.keep is {keep!r}, but must be a whole number from 0 to 1000; 2 is the default")
    return Owner(
        name,
        folder / _text(content, "ledger", "ledger.db"),
        _built(SCHEDULES, _table(content, "schedule"), "schedule"),
        _built(MECHANISMS, mechanism, "mechanism", ("batch_norm",)),
        cast(BatchNorm, batch_norm),
        _listed(replies, "allow", None),
        _listed(replies, "messages", _KINDS),
        keep,
        "{" in _text(content, "name"),
    )


def _built(kinds: Mapping[str, type[Any]], values: Mapping[str, Any], where: str, more: tuple[str, ...] = ()) -> Any:
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ConfigError(f"{where}.kind is {kind!r}, but must be one of {', '.join(kinds)}; choose one")
    fields = {field.name: field for field in dataclasses.fields(kinds[kind])}
    _known(values, tuple(dict.fromkeys(("kind", *fields, *more))), f"{where}.")
    for key, field in fields.items():
        if key not in values and field.default is dataclasses.MISSING:
            raise ConfigError(f"{where}.{key} is missing; {kind} needs it")
    for key, value in values.items():
        number = key in fields and re.search(r"\b(float|int|Epsilon)\b", str(fields[key].type)) is not None
        fine = isinstance(value, (int, float) if number else str) and not isinstance(value, bool)
        if key != "kind" and not fine and key not in more:
            raise ConfigError(f"{where}.{key} is {value!r}, but must be a {'number' if number else 'text'}; change it")
    return kinds[kind](**{key: value for key, value in values.items() if key != "kind"})


def _known(values: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in values:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {where + close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigError(f"{where}{key} is not a known key; {hint}")


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key)
    if not isinstance(value, dict):
        raise ConfigError(f"{key} is {value!r}, but must be a section; write [{key}]")
    return value


def _text(content: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or not value or not value.isprintable() or len(value) > 200:
        raise ConfigError(f"{key} is {value!r}, but must be a text of 1 to 200 printable characters; set it")
    return value


def _listed(replies: Mapping[str, Any], key: str, known: tuple[str, ...] | None) -> frozenset[str]:
    values = replies.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ConfigError(f"replies.{key} is {values!r}, but must be a list of names; e.g. []")
    stray = [value for value in values if known is not None and value not in known]
    if stray:
        raise ConfigError(f"replies.{key} holds {stray[0]!r}, but must be of {', '.join(known or ())}; drop it")
    return frozenset(values)


def _filled(key: str, node_config: Mapping[str, Any]) -> str:
    if key not in node_config:
        raise ConfigError(f"name asks for {key!r}, but the SuperNode's configuration has no such key; add it")
    return str(node_config[key])
