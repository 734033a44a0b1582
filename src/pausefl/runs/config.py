"""A run as one validated file: every key has a default, unknown keys are refused with the nearest known one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from pausefl.errors import ConfigError, did_you_mean
from pausefl.learn.datasets import DATASETS
from pausefl.learn.features import FEATURES
from pausefl.privacy import MECHANISMS, SCHEDULES, Mechanism, Schedule
from pausefl.privacy.signals import Signals
from pausefl.sim.availability import most_swing
from pausefl.sim.closing import Closing
from pausefl.system.printable_text import printable
from pausefl.system.toml_sections import Section, read_toml, toml_text, validated, value_of

if TYPE_CHECKING:
    ScheduleName: TypeAlias = str
    MechanismName: TypeAlias = str
else:  # for pydantic, which then names the choices in its errors
    ScheduleName = Literal[tuple(SCHEDULES)]
    MechanismName = Literal[tuple(MECHANISMS)]

_SHOWN = 40
"""How much of an option's value stands in a title."""

ONE_RUN = frozenset({"run.rounds", "run.checkpoint_every"})
"""How far a run goes and how often it is saved does not make it another one."""

ONE_POLICY = ONE_RUN | {"run.seed"}
"""In what the seeds of one policy may differ."""

ONE_STUDY = ONE_POLICY | {
    "selection.policy", "selection.steps", "selection.kappa", "selection.options", "privacy.enabled",
    "server.aggregation", "server.step", "server.average", "run.evaluate_every", "network.rehearsal", "signals.kind",
}  # fmt: skip
"""In what the policies of a study may differ."""


def known_name(key: str, name: str, known: Sequence[str]) -> str:
    """Return a name that is known or an import path; refuse any other, with the nearest one."""
    if name not in known and ":" not in name:
        hint = did_you_mean(name, known)
        raise ValueError(f"{key} is {name!r}, but must be {', '.join(known)} or 'package.module:function'; {hint}")
    return name


class Data(Section):
    """Which data is learned, and which client holds which part of it."""

    name: str = "digits"
    train_size: int | None = Field(default=None, ge=1)
    partition: Literal["iid", "sizes", "labels", "natural"] = "iid"
    concentration: float = Field(default=3.0, gt=0)
    dominant: float = Field(default=0.25, ge=0, le=1)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_name("data.name", name, DATASETS)


class NetworkSection(Section):
    """The clients, how long they take, and when they are there."""

    clients: int = Field(default=30, ge=1)
    latency: Literal["two-groups", "normal", "lognormal", "exponential", "pareto", "devices", "trace"] = "two-groups"
    tau_min: float = Field(default=0.05, gt=0)
    mean: float = Field(default=0.5, gt=0)
    slowest: float | None = Field(default=None, gt=0)
    spread: float = Field(default=0.5, gt=0)
    trace: str | None = None
    availability: Literal["always", "bernoulli", "on-off", "diurnal", "trace"] = "always"
    probability: float = Field(default=0.9, ge=0, le=1)
    swing: float = Field(default=0.1, ge=0, le=0.5)
    period: int = Field(default=24, ge=2)
    leave: float = Field(default=0.1, ge=0, le=1)
    back: float = Field(default=0.5, ge=0, le=1)
    availability_trace: str | None = None
    late: float = Field(default=0.0, ge=0, le=1)
    late_by: int = Field(default=50, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    straggle: float = Field(default=0.0, ge=0, lt=1)
    deadline: float | None = Field(default=None, gt=0)
    clusters: int | None = Field(default=None, ge=1)
    congestion: float = Field(default=0.0, ge=0)
    jams: float = Field(default=0.0, ge=0, le=1)
    jam_factor: float = Field(default=10.0, gt=1)
    jam_rounds: int = Field(default=5, ge=1)
    drift_at: int | None = Field(default=None, ge=1)
    drift_share: float = Field(default=0.1, gt=0, le=1)
    drift_factor: float = Field(default=20.0, gt=1)
    rehearsal: bool = False

    def require_possible(self) -> None:
        """Refuse keys that cannot be met beside the others."""
        floor, room = self.tau_min, most_swing(self.probability)
        if self.deadline is not None and self.deadline <= floor and self.latency != "trace":
            raise ValueError(
                f"network.deadline is {self.deadline:g}, but must be above network.tau_min = {floor:g}; raise it, "
                "because nobody could answer in time"
            )
        if self.straggle > 0 and self.deadline is None:
            raise ValueError(
                f"network.straggle is {self.straggle:g}, but must be 0 without network.deadline; set "
                "network.deadline, or a round would never end"
            )
        if self.availability == "diurnal" and self.swing > room:
            raise ValueError(
                f"network.swing is {self.swing:g}, but must be at most {room:g} with network.probability = "
                f"{self.probability:g}; lower it, so that the probability stays between 0 and 1"
            )

    def idle(self) -> dict[str, str | Literal[False]]:
        """Return, for keys that may be idle beside the others, what they need; False for those that are not idle."""
        changed = {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}
        links = self.clusters is None and "set network.clusters too"
        needs: dict[str, str | Literal[False]] = {
            "congestion": links,
            "jams": links,
            "jam_factor": self.jams == 0 and "set network.jams too",
            "jam_rounds": self.jams == 0 and "set network.jams too",
            "drift_share": self.drift_at is None and "set network.drift_at too",
            "drift_factor": self.drift_at is None and "set network.drift_at too",
            "late_by": self.late == 0 and "set network.late too",
            "swing": self.availability != "diurnal" and "set network.availability = 'diurnal', or remove it",
            "period": self.availability != "diurnal" and "set network.availability = 'diurnal', or remove it",
            "slowest": self.latency == "devices"
            and "remove it, because the table of devices says how slow the slowest are",
            "spread": self.latency not in ("normal", "lognormal", "devices")
            and "remove it, or set network.latency to 'normal', 'lognormal' or 'devices'",
        }
        return {f"network.{name}": name in changed and why for name, why in needs.items()}


class SelectionSection(Section):
    """Which policy picks the clients, and with which weights."""

    policy: str = "pause"
    per_round: int = Field(default=5, ge=1)
    alpha: float = Field(default=100.0, ge=0)
    beta: float = Field(default=2.0, gt=1)
    gamma: float = Field(default=5.0, ge=0)
    zeta: float = Field(default=1.0, ge=0)
    rho: float = Field(default=0.0, ge=0)
    memory: int | None = Field(default=None, ge=1)
    steps: int | None = Field(default=None, ge=0)
    kappa: float | None = Field(default=None, gt=0)
    options: dict[str, Any] = Field(default={})

    @model_validator(mode="before")
    @classmethod
    def _old_spelling(cls, content: Any) -> Any:
        if isinstance(content, Mapping) and "paper_scale" in content:
            raise ValueError(
                "selection.paper_scale is no longer a key; set selection.policy = 'sa-pause-as-published' instead"
            )
        return content

    @field_validator("options")
    @classmethod
    def _storable(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            if not _is_plain(value):
                raise ValueError(
                    f"selection.options.{name} is {_short(value)}, but must be a number, a text, true or false, or "
                    "lists and tables of these; write a date as text"
                )
        return options


class Privacy(Section):
    """How much each client may leak, and by which mechanism."""

    enabled: bool = True
    budget: float = Field(default=40.0, gt=0)
    schedule: ScheduleName = "geometric"
    decay: float = Field(default=0.04, gt=0)
    exponent: float = Field(default=2.0, gt=1)
    releases: int = Field(default=100, ge=1)
    mechanism: MechanismName = "laplace"
    unit: Literal["coordinate", "update", "record"] = "coordinate"
    account: Literal["sum", "zcdp"] | None = None
    width: float = Field(default=0.003, gt=0)
    clip: float = Field(default=1.0, gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    batch_norm: Literal["keep-local", "refuse"] = "keep-local"

    def as_schedule(self) -> Schedule:
        """Return how the budget is spread over releases."""
        return SCHEDULES[self.schedule].from_settings(self.model_dump())

    def as_mechanism(self) -> Mechanism:
        """Return how updates, or records, are bounded and noised."""
        return MECHANISMS[self.mechanism].from_settings(self.model_dump())


class SignalsSection(Section):
    """How clients tell their loss or accuracy; it matters only for policies that use them."""

    kind: Literal["noised", "bit", "bare"] = "bit"
    share: float = Field(default=0.2, gt=0, lt=1)
    releases: int | None = Field(default=None, ge=1, le=2**23)
    bound: float = Field(default=4.6, gt=0)
    threshold: float = Field(default=1.0, gt=0)
    seconds_share: float = Field(default=0.1, ge=0, le=1)

    def as_signals(self) -> Signals:
        """Return how signals are bounded and noised, and which part of the budget pays for them."""
        return Signals(**self.model_dump(exclude={"seconds_share"}))


class Learning(Section):
    """How clients train."""

    enabled: bool = True
    features: str = "none"
    model: str = "mlp"
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = Field(default=0.01, gt=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    batch: int = Field(default=20, ge=0)  # 0: all of a client's data
    epochs: int = Field(default=1, ge=1)
    max_steps: int = Field(default=100, ge=0)  # 0: no limit
    optimizer_state: Literal["keep", "fresh"] = "keep"
    device: str = "cpu"

    @field_validator("features")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_name("learning.features", name, ("none", *FEATURES))


class Server(Section):
    """When the server closes a round, and how it combines the updates."""

    aggregation: Literal["plain", "matched"] = "plain"
    step: float = Field(default=1.0, gt=0)
    average: float = Field(default=0.0, ge=0, lt=1)
    over_select: float = Field(default=1.0, ge=1)
    close_after: int | None = Field(default=None, ge=1)
    deadline_quantile: float | None = Field(default=None, gt=0, le=1)
    deadline_slack: float = Field(default=1.5, ge=1)
    late: Literal["waste", "use"] = "waste"

    def as_closing(self) -> Closing:
        """Return how many clients are asked, and when a round is closed."""
        names = ("over_select", "close_after", "deadline_quantile", "deadline_slack", "late")
        return Closing(**{name: getattr(self, name) for name in names})


class Run(Section):
    """How many rounds a run has, and how often it is scored and saved."""

    rounds: int = Field(default=300, ge=1)
    seed: int = Field(default=0, ge=0)
    evaluate_every: int = Field(default=1, ge=1)
    checkpoint_every: int = Field(default=10, ge=1)


class Config(Section):
    """One run."""

    data: Data = Data()
    network: NetworkSection = NetworkSection()
    selection: SelectionSection = SelectionSection()
    privacy: Privacy = Privacy()
    signals: SignalsSection = SignalsSection()
    learning: Learning = Learning()
    server: Server = Server()
    run: Run = Run()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse keys that cannot be met, or cannot do anything, beside the others."""
        network, learning, server = self.network, self.learning, self.server
        most = network.clients
        if self.selection.per_round > most:
            raise ValueError(
                f"selection.per_round is {self.selection.per_round}, but must be at most network.clients = {most}; "
                "lower it, or raise network.clients"
            )
        network.require_possible()
        asked = server.as_closing().asked(self.selection.per_round)
        if asked > most:
            raise ValueError(
                f"server.over_select is {server.over_select:g}, but then {asked} clients are asked, more than "
                f"network.clients = {most}; lower it, or raise network.clients"
            )
        if self.privacy.unit == "record" and self.privacy.mechanism != "gaussian":
            raise ValueError(
                f"privacy.mechanism is {self.privacy.mechanism!r}, but must be 'gaussian' with privacy.unit = "
                "'record'; set privacy.mechanism = 'gaussian', or privacy.unit = 'update'"
            )
        signals = self.signals
        if signals.kind == "bit" and signals.threshold >= signals.bound:
            raise ValueError(
                f"signals.threshold is {signals.threshold:g}, but must be below signals.bound = {signals.bound:g}; "
                "lower "
                "it, because no client tells a loss above the bound"
            )
        idle: dict[str, str | bool] = {
            **network.idle(),
            "signals.threshold": signals.threshold != SignalsSection.model_fields["threshold"].default
            and signals.kind == "noised"
            and "set signals.kind = 'bit', or remove it",
            "privacy.account": self.privacy.account == "zcdp"
            and self.privacy.mechanism != "gaussian"
            and "remove it, or set privacy.mechanism = 'gaussian'",
            "selection.rho": self.selection.rho > 0 and network.clusters is None and "set network.clusters too",
            "learning.momentum": learning.momentum > 0
            and learning.optimizer == "adam"
            and "set learning.optimizer = 'sgd', or remove it",
            "server.aggregation": server.aggregation == "matched"
            and not (learning.enabled and self.privacy.enabled)
            and "set learning.enabled and privacy.enabled to true, because it weighs updates by their noise",
            "server.deadline_slack": server.deadline_slack != Server.model_fields["deadline_slack"].default
            and server.deadline_quantile is None
            and "set server.deadline_quantile too",
            "server.late": server.late == "use"
            and server.over_select == 1.0
            and server.close_after is None
            and server.deadline_quantile is None
            and "set server.over_select, server.close_after or server.deadline_quantile too, because otherwise nobody "
            "is late",
            "server.step": server.step != 1.0 and not learning.enabled and "set learning.enabled to true",
            "server.average": server.average > 0 and not learning.enabled and "set learning.enabled to true",
        }
        for key, why in idle.items():
            if why:
                raise ValueError(f"{key} has no effect here; {why}")
        return self

    @property
    def title(self) -> str:
        """The run's policy, as tables and charts call it."""
        return self.titled(self.selection.policy)

    def titled(self, policy: str) -> str:
        """Return the title of such a run if its policy is called so: a class of the user's own has a name.

        A run may come from others, and its title goes to terminals and pages: it is one line of printable text.
        """
        options = ", ".join(f"{name}={_short(value)}" for name, value in self.selection.options.items())
        return printable(
            policy
            + (f" ({options})" if options else "")
            + (" (rehearsed)" if self.network.rehearsal else "")
            + ("" if self.privacy.enabled else " (no privacy)")
            + (" (leaks un-noised losses)" if self.leaks_losses else "")
            + (" (matched)" if self.server.aggregation == "matched" else "")
        )

    @property
    def leaks_losses(self) -> bool:
        """Whether updates are protected and signals are not; a policy of the user's own is taken to want signals."""
        if self.signals.kind != "bare" or not (self.privacy.enabled and self.learning.enabled):
            return False
        from pausefl.selection import POLICIES  # heavy, and hardly any reader of a run needs it

        make = POLICIES.get(self.selection.policy)
        if make is None:
            return ":" in self.selection.policy
        try:
            return bool(make(**deepcopy(self.selection.options)).signals)  # options may change what it wants
        except (TypeError, ValueError):
            return True  # the run will refuse these options

    def toml(self) -> str:
        """Return the resolved configuration as TOML; keys without a value are left out."""
        return toml_text(self.model_dump(exclude_none=True))


def load_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """Read a file and apply overrides of the form ``section.key=value``."""
    return make_config(read_toml(path), overrides)


def make_config(content: Mapping[str, Any], overrides: Iterable[str] = ()) -> Config:
    """Validate a configuration; the error names the key, the value, the bound and the nearest known key."""
    merged = deepcopy(dict(content))
    for override in overrides:
        name, found, text = override.partition("=")
        *tables, key = name.strip().split(".")
        table: Any = merged
        for part in tables:
            table = table.setdefault(part, {}) if isinstance(table, dict) else None
        if not found or not tables or not isinstance(table, dict):
            raise ConfigError(
                f"override is {override!r}, but must look like section.key=value; for example run.rounds=50"
            )
        table[key] = value_of(text.strip())
    return validated(Config, merged)


def flat(config: Config, without: Set[str] = frozenset()) -> dict[str, Any]:
    """Return a configuration as one mapping from section.key to value."""
    sections = config.model_dump().items()
    every = {f"{section}.{key}": value for section, values in sections for key, value in values.items()}
    return {name: value for name, value in every.items() if name not in without}


def differences(one: Config, other: Config, allowed: Set[str]) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two configurations differ beyond what is allowed, with both values.

    Values are compared as text, since true is not 1 for the policy that gets it as an option.
    """
    a, b = flat(one, allowed), flat(other, allowed)
    return {key: (a[key], b[key]) for key in a if _text(a[key]) != _text(b[key])}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, dict)):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (str, int)) or (isinstance(value, float) and not math.isnan(value))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
