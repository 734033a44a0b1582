"""The data owner's own file: what may leave, how noisy, and how often; no server has a say in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field, ValidationInfo, create_model, field_validator

from pausefl.errors import ConfigError, PauseError
from pausefl.privacy import MECHANISMS, SCHEDULES, Mechanism, Schedule
from pausefl.privacy.mechanisms.tensor_rules import BatchNorm
from pausefl.system.toml_sections import Section, read_toml, validated

_REMEDY = "change it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One data owner's terms.

    ``name`` is how the server knows the node, and the subject of its ledger.  ``many`` says that the name has a place
    for a value of the node, so that one ledger may hold several subjects.  ``allow`` names the numbers that may leave
    in the clear; ``messages`` names the kinds of message that are served beside training; ``keep`` says how many
    replies are kept to be sent again.
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


class _Replies(Section):
    allow: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    messages: list[Literal["evaluate", "query"]] = Field(default_factory=list)
    keep: int = Field(default=2, ge=0, le=1000)


class _File(Section):
    name: str
    ledger: str = "ledger.db"
    schedule: dict[str, Any]
    mechanism: dict[str, Any]
    replies: _Replies = _Replies()

    @field_validator("name", "ledger")
    @classmethod
    def _printable(cls, value: str, info: ValidationInfo) -> str:
        if not 0 < len(value) <= 200 or not value.isprintable():
            raise ValueError(
                f"{info.field_name} is {value!r:.250}, but must be a text of 1 to 200 printable characters; change it"
            )
        return value


def read_owner(path: Path, node: Mapping[str, Any]) -> Owner:
    """Read and validate the file; ``{key}`` in its name stands for a value of the ``node``'s configuration."""
    content = read_toml(path, "write the owner's file")
    try:
        return _owner(content, path.parent, node)
    except PauseError as error:
        raise ConfigError(f"{path}: {error}") from None


def _owner(content: Mapping[str, Any], folder: Path, node: Mapping[str, Any]) -> Owner:
    file = validated(_File, content, remedy=_REMEDY)
    schedule = _section(file.schedule, "schedule", SCHEDULES)
    mechanism = _section(file.mechanism, "mechanism", MECHANISMS, batch_norm=(BatchNorm, "refuse"))
    return Owner(
        name=re.sub(r"\{([^{}]*)\}", lambda found: _value(found[1], node), file.name),
        ledger=folder / file.ledger,
        batch_norm=mechanism.pop("batch_norm"),
        schedule=SCHEDULES[schedule.pop("kind")](**schedule),
        mechanism=MECHANISMS[mechanism.pop("kind")](**mechanism),
        allow=frozenset(file.replies.allow),
        messages=frozenset(file.replies.messages),
        keep=file.replies.keep,
        many="{" in file.name,
    )


def _section(values: Mapping[str, Any], where: str, kinds: Mapping[str, type[Any]], **more: Any) -> dict[str, Any]:
    """Return a section whose keys are its ``kind``, the fields of the class of that kind, and ``more``."""
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ConfigError(f"{where}.kind is {kind!r:.100}, but must be one of {', '.join(kinds)}; choose one")
    types = get_type_hints(kinds[kind])
    keys: dict[str, Any] = {
        field.name: (types[field.name], ... if field.default is MISSING else field.default)
        for field in fields(kinds[kind])
    }
    keys |= {**more, "kind": (str, ...)}
    return validated(create_model(where, __base__=Section, **keys), values, where, remedy=_REMEDY).model_dump()


def _value(key: str, node: Mapping[str, Any]) -> str:
    if key not in node:
        raise ConfigError(f"name asks for {key!r}, but the node's configuration has no such key; add it")
    return str(node[key])
