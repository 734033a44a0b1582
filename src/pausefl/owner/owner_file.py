"""The data owner's own file: what may leave, how noisy, and how often; no server has a say in it."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_type_hints

from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator

from pausefl.errors import ConfigError, PauseError
from pausefl.privacy import MECHANISMS, SCHEDULES, Mechanism, Schedule
from pausefl.privacy.ledger.price import DELTA_LIMIT
from pausefl.privacy.mechanisms.record_sum import MOST_RECORDS
from pausefl.privacy.mechanisms.tensor_rules import BatchNorm
from pausefl.system.private_file import require_private, require_private_folder, require_readable
from pausefl.system.toml_sections import Section, read_toml, validated

ClippedBy: TypeAlias = Literal["gate", "app"]

_REMEDY = "change this key in the owner's file"
_LEDGER, _SIMULATED = "ledger.db", "simulated"
_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One data owner's terms.

    ``name`` is how the server knows the node, and the subject of its ledger.  ``ledger_id`` is the id of the one
    ledger that these terms may be used with.  ``examples`` is what every reply tells as the number of examples;
    ``clipped_by`` says who clips what each record contributes, where records are protected: the gate, to which the app
    hands a row for each, or the app, which is trusted to, and hands over the changed model.  ``records`` is the file or
    folder that pausefl itself cuts into records; without it the app does that, and is trusted to.
    ``keep`` says how many replies are kept to be sent again.  ``rehearse`` allows rehearsals, in which the app works on
    made-up data and is timed.

    ``simulation`` marks terms for data that needs no protection.  Only there ``allow`` names numbers of the app that
    may leave as they are, ``messages`` names kinds of message that are served beside training, and ``ledger`` is the
    folder in which every run gets a ledger of its own.
    """

    name: str
    ledger: Path
    schedule: Schedule
    mechanism: Mechanism
    ledger_id: str = ""
    batch_norm: BatchNorm = "refuse"
    clipped_by: ClippedBy = "gate"
    records: Path | None = None
    examples: int = 1
    keep: int = 2
    rehearse: bool = False
    simulation: bool = False
    allow: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.simulation and (self.allow or self.messages):
            raise ConfigError("allow and messages are for simulations only; remove them, or set simulation to true")
        if not self.simulation and not self.ledger_id:
            raise ConfigError("ledger_id is missing; pass the id that 'pausefl ledger verify LEDGER --json' prints")
        guarantee = self.mechanism.guarantee
        if guarantee.delta > DELTA_LIMIT:
            raise ConfigError(
                f"mechanism.delta is {guarantee.delta:g}, but must be at most {DELTA_LIMIT:g}, the limit for life; "
                "1e-6 is common"
            )
        if guarantee.unit == "record" and self.batch_norm != "refuse":
            raise ConfigError(
                f"mechanism.batch_norm is {self.batch_norm!r}, but must be 'refuse' where single records are "
                "protected, because batch norms mix them; remove the line"
            )
        if self.clipped_by == "app" and self.mechanism.guarantee.unit != "record":
            raise ConfigError(
                "mechanism.clipped_by is 'app', but only a mechanism with unit = \"record\" clips records; remove the "
                "line"
            )
        if self.records is not None and not self.rows:
            raise ConfigError(
                "records.path is set, but pausefl cuts the data into records only for a mechanism with unit = "
                '"record" and clipped_by = "gate"; change these, or remove records.path'
            )
        if self.records is not None and self.ledger.resolve().is_relative_to(self.records.resolve()):
            raise ConfigError(
                f"records.path is {self.records}, but {self.ledger} is in this folder and is no record; keep the "
                "ledger and the owner's file in another folder"
            )
        if guarantee.unit == "record" and self.examples > MOST_RECORDS:
            raise ConfigError(
                f"replies.examples is {self.examples}, but must be at most {MOST_RECORDS} where records are protected; "
                "set it to the number of your records"
            )

    @property
    def rows(self) -> bool:
        """Whether an app hands over a row for each record, for the gate to clip."""
        return self.mechanism.guarantee.unit == "record" and self.clipped_by == "gate"

    def ledger_of(self, run: str) -> Path:
        """Return the file of the ledger that a run is charged in: the one there is, or a simulated run's own."""
        return self.ledger / f"{run}.db" if self.simulation else self.ledger


class _Replies(Section):
    examples: int = Field(default=1, ge=1, le=2**53)
    keep: int = Field(default=2, ge=0, le=1000)
    rehearse: bool | None = None
    allow: list[Annotated[str, Field(min_length=1)]] | None = None
    messages: list[Literal["evaluate", "query"]] | None = None


class _Records(Section):
    path: Annotated[str, Field(min_length=1)] | None = None


class _File(Section):
    name: str
    simulation: bool = False
    ledger: str | None = None
    ledger_id: str | None = None
    schedule: dict[str, Any]
    mechanism: dict[str, Any]
    records: _Records = _Records()
    replies: _Replies = _Replies()

    @field_validator("name", "ledger")
    @classmethod
    def _printable(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and (not 0 < len(value) <= 200 or not value.isprintable()):
            raise ValueError(
                f"{info.field_name} is {value!r:.250}, but must be a text of 1 to 200 printable characters; {_REMEDY}"
            )
        return value

    @field_validator("name")
    @classmethod
    def _plain(cls, value: str) -> str:
        """Refuse a name that looks like another one: nobody could see why the two are not the same data."""
        plain = " ".join(unicodedata.normalize("NFKC", value).split())
        if value != plain:
            raise ValueError(
                f"name is {value!r:.250}, but must have no blanks at its ends, no two blanks in a row, and plain "
                f"letters only; write {plain or 'a word'!r:.250}"
            )
        return value

    @model_validator(mode="after")
    def _for_one_use(self) -> Self:
        """Refuse the keys of a simulation in a deployment, and the other way round."""
        if self.simulation:
            for key in ("ledger", "ledger_id"):
                if getattr(self, key) is not None:
                    raise ValueError(
                        f"{key} is for a deployment, but simulation is true; remove {key}, or remove simulation"
                    )
            if set("{}") & set(_PLACE.sub("", self.name)):
                raise ValueError(
                    f"name is {self.name!r:.250}, but has braces that name no key; write it like "
                    f"client-{{partition-id}}"
                )
            return self
        if "{" in self.name or "}" in self.name:
            raise ValueError(
                f"name is {self.name!r:.250}, but braces are for files with simulation = true; write the full name "
                "without braces"
            )
        if self.replies.allow is not None:
            raise ValueError(
                "replies.allow is for files with simulation = true, because numbers of the app carry no noise; "
                "remove it, and write replies.examples = N for the weight of your updates"
            )
        if self.replies.messages is not None:
            raise ValueError(
                "replies.messages is for files with simulation = true, because such answers carry no noise; "
                "remove it, and let the server evaluate on data of its own"
            )
        if self.ledger_id is None:
            raise ValueError(
                "ledger_id is missing; run 'pausefl owner init' to create the file and the ledger, or copy the id of "
                "your "
                "ledger, which 'pausefl ledger verify LEDGER --json' prints"
            )
        if re.fullmatch(r"[0-9a-f]{32}", self.ledger_id) is None:
            raise ValueError(
                f"ledger_id is {self.ledger_id!r:.100}, but must be 32 hexadecimal digits; copy the id that 'pausefl "
                "ledger verify LEDGER --json' prints"
            )
        return self


def read_owner(path: Path, node: Mapping[str, Any] | None = None) -> Owner:
    """Read and validate the file; links are followed, so that every path to it leads to the same ledger.

    Args:
        path: The owner's file.
        node: The node's configuration.  In a simulation ``{key}`` in the name stands for one of its values; without a
            configuration it stays as it is.

    >>> import tempfile
    >>> terms = '''
    ... name = "clinic-{number}"
    ... simulation = true
    ... schedule = { kind = "geometric", budget = 40.0, decay = 0.04 }
    ... mechanism = { kind = "laplace", unit = "coordinate", width = 0.003 }
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "owner.toml").write_text(terms)
    ...     owner = read_owner(Path(folder, "owner.toml"), {"number": 7})
    >>> owner.name, owner.schedule, owner.mechanism.guarantee.unit
    ('clinic-7', Geometric(budget=40.0, decay=0.04), 'coordinate')
    """
    path = Path(os.path.realpath(path))
    require_readable(path, "owner's file")
    content = read_toml(path, "check the path; use 'pausefl owner init' only for data that never had a ledger")
    try:
        owner = owner_of(content, path.parent, node)
    except PauseError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not owner.simulation:
        require_private(path, "owner's file")
        require_private_folder(path.parent, "folder of the owner's file")
    return owner


def owner_of(content: Mapping[str, Any], folder: Path, node: Mapping[str, Any] | None = None) -> Owner:
    """Return the terms that a file in this folder with this content states."""
    file = validated(_File, content, remedy=_REMEDY)
    schedule = _section(file.schedule, "schedule", SCHEDULES)
    keys = {"batch_norm": (BatchNorm, "refuse"), "clipped_by": (ClippedBy, "gate")}
    mechanism = _section(file.mechanism, "mechanism", MECHANISMS, **keys)
    ledger = folder / (_SIMULATED if file.simulation else file.ledger or _LEDGER)
    records = file.records.path
    return Owner(
        name=_filled(file.name, node),
        ledger=Path(os.path.realpath(ledger)),
        ledger_id=file.ledger_id or "",
        batch_norm=mechanism.pop("batch_norm"),
        clipped_by=mechanism.pop("clipped_by"),
        schedule=SCHEDULES[schedule.pop("kind")](**schedule),
        mechanism=MECHANISMS[mechanism.pop("kind")](**mechanism),
        records=None if records is None else folder / (_filled(records, node) if file.simulation else records),
        examples=file.replies.examples,
        keep=file.replies.keep,
        rehearse=file.simulation if file.replies.rehearse is None else file.replies.rehearse,
        simulation=file.simulation,
        allow=frozenset(file.replies.allow or ()),
        messages=frozenset(file.replies.messages or ()),
    )


def _section(values: Mapping[str, Any], where: str, kinds: Mapping[str, type[Any]], **more: Any) -> dict[str, Any]:
    """Return a section whose keys are its ``kind``, the fields of the class of that kind, and ``more``."""
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ConfigError(f"{where}.kind is {kind!r:.100}, but must be one of {', '.join(kinds)}; {_REMEDY}")
    keys = _keys_of(where, kinds[kind], tuple(more.items()))  # type: ignore[arg-type]  # a class can be hashed
    return validated(keys, values, where, remedy=_REMEDY).model_dump()


@cache
def _keys_of(where: str, made: type[Any], more: tuple[tuple[str, Any], ...]) -> type[Section]:
    """Return the model of a section: made once, because that takes longer than all else that a message needs."""
    types = get_type_hints(made)
    keys: dict[str, Any] = {
        field.name: (types[field.name], ... if field.default is MISSING else field.default) for field in fields(made)
    }
    keys |= {**dict(more), "kind": (str, ...)}
    return create_model(where, __base__=Section, **keys)


def _filled(text: str, node: Mapping[str, Any] | None) -> str:
    return text if node is None else _PLACE.sub(lambda found: _value(found[1], node), text)


def _value(key: str, node: Mapping[str, Any]) -> str:
    if key not in node:
        raise ConfigError(
            f"the file asks for {key!r}, but the node's configuration has no such key; add it to that configuration"
        )
    return str(node[key])
