"""A run as one validated file: every key has a default, unknown keys are refused with the nearest known one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pausefl.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(_Section):
    """What is learned, and who holds which part of it."""

    name: Literal["digits", "mnist", "fashion-mnist", "cifar10"] = "digits"
    train_size: int | None = Field(default=None, ge=1)
    partition: Literal["iid", "sizes", "labels"] = "iid"
    concentration: float = Field(default=3.0, gt=0)
    dominant: float = Field(default=0.25, ge=0, le=1)


class NetworkSection(_Section):
    """Clients and how long they take."""

    clients: int = Field(default=30, ge=1)
    latency: Literal["two-groups", "normal", "lognormal", "exponential", "pareto", "trace"] = "two-groups"
    tau_min: float = Field(default=0.05, gt=0)
    mean: float = Field(default=0.5, gt=0)
    slowest: float | None = Field(default=None, gt=0)
    spread: float = Field(default=0.5, gt=0)
    trace: str | None = None
    availability: Literal["always", "bernoulli", "on-off", "trace"] = "always"
    probability: float = Field(default=0.9, ge=0, le=1)
    leave: float = Field(default=0.1, ge=0, le=1)
    back: float = Field(default=0.5, ge=0, le=1)
    availability_trace: str | None = None
    dropout: float = Field(default=0.0, ge=0, lt=1)
    deadline: float | None = Field(default=None, gt=0)
    clusters: int | None = Field(default=None, ge=1)
    congestion: float = Field(default=0.0, ge=0)


class SelectionSection(_Section):
    """Who takes part."""

    policy: str = "pause"
    per_round: int = Field(default=5, ge=1)
    alpha: float = Field(default=100.0, ge=0)
    beta: float = Field(default=2.0, gt=1)
    gamma: float = Field(default=5.0, ge=0)
    zeta: float = Field(default=1.0, ge=0)
    rho: float = Field(default=0.0, ge=0)
    steps: int | None = Field(default=None, ge=0)
    kappa: float | None = Field(default=None, gt=0)
    paper_scale: bool = False


class Privacy(_Section):
    """How much each client may leak, and by which mechanism."""

    enabled: bool = True
    budget: float = Field(default=40.0, gt=0)
    schedule: Literal["geometric", "power-law", "fixed-horizon"] = "geometric"
    decay: float = Field(default=0.04, gt=0)
    exponent: float = Field(default=2.0, gt=1)
    releases: int = Field(default=100, ge=1)
    mechanism: Literal["laplace", "gaussian", "privunit"] = "laplace"
    unit: Literal["coordinate", "update"] = "coordinate"
    width: float = Field(default=0.003, gt=0)
    clip: float = Field(default=1.0, gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    batch_norm: Literal["keep-local", "refuse"] = "keep-local"


class Learning(_Section):
    """How clients train."""

    enabled: bool = True
    model: str = "mlp"
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = Field(default=0.01, gt=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    batch: int = Field(default=20, ge=1)
    epochs: int = Field(default=1, ge=1)
    max_steps: int = Field(default=100, ge=0)  # 0: no limit
    optimizer_state: Literal["keep", "fresh"] = "keep"
    device: str = "cpu"


class Run(_Section):
    """How long, how often."""

    rounds: int = Field(default=300, ge=1)
    seed: int = Field(default=0, ge=0)
    evaluate_every: int = Field(default=1, ge=1)
    checkpoint_every: int = Field(default=10, ge=1)


class Config(_Section):
    """One run."""

    data: Data = Data()
    network: NetworkSection = NetworkSection()
    selection: SelectionSection = SelectionSection()
    privacy: Privacy = Privacy()
    learning: Learning = Learning()
    run: Run = Run()

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> Self:
        """Refuse keys that are set but cannot do anything beside the others."""
        network, learning = self.network, self.learning
        idle = {
            "network.congestion": network.congestion > 0 and network.clusters is None and "set network.clusters",
            "selection.rho": self.selection.rho > 0 and network.clusters is None and "set network.clusters",
            "network.spread": network.spread != NetworkSection.model_fields["spread"].default
            and network.latency not in ("normal", "lognormal")
            and "it belongs to normal and lognormal latency",
            "learning.momentum": learning.momentum > 0 and learning.optimizer == "adam" and "set optimizer = 'sgd'",
            "selection.per_round": self.selection.per_round > network.clients
            and f"there are {network.clients} clients",
        }
        for key, why in idle.items():
            if why:
                raise ValueError(f"{key} has no effect here: {why}")
        return self

    def toml(self) -> str:
        """Return the resolved configuration as TOML; keys without a value are left out."""
        lines = []
        for section, values in self.model_dump().items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
            lines.append("")
        return "\n".join(lines)


SECTIONS: dict[str, type[BaseModel]] = {
    "data": Data,
    "network": NetworkSection,
    "selection": SelectionSection,
    "privacy": Privacy,
    "learning": Learning,
    "run": Run,
}


def load_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """Read a file and apply overrides of the form ``section.key=value``."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; name a TOML file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML file ({error}); mend it") from None
    return make_config(content, overrides)


def make_config(content: Mapping[str, Any], overrides: Iterable[str] = ()) -> Config:
    """Validate a configuration; the error names the key, the value, the bound and the nearest known key."""
    merged = {section: dict(values) if isinstance(values, Mapping) else values for section, values in content.items()}
    for override in overrides:
        name, found, text = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not found or not dot or not isinstance(merged.setdefault(section, {}), dict):
            raise ConfigError(f"override is {override!r}, but must look like section.key=value; e.g. run.rounds=50")
        merged[section][key] = _value(text.strip())
    try:
        return Config.model_validate(_with_floats(merged))
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _with_floats(content: Mapping[str, Any]) -> dict[str, Any]:
    """Whole numbers are welcome where a fraction is meant (budget = 200)."""
    sections: dict[str, Any] = dict(content)
    for section, values in content.items():
        if isinstance(values, dict) and section in SECTIONS:
            fields = SECTIONS[section].model_fields
            fractions = {key for key in values if key in fields and "float" in str(fields[key].annotation)}
            sections[section] = {
                key: float(value) if key in fractions and type(value) is int else value for key, value in values.items()
            }
    return sections


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    name = ".".join(where)
    if first["type"] == "extra_forbidden":
        known = _known(where[:-1])
        close = get_close_matches(where[-1], known, n=1)
        hint = f"did you mean {'.'.join([*where[:-1], close[0]])!r}?" if close else f"known: {', '.join(known)}"
        return f"{name} is not a known key; {hint}"
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    bound = first["msg"].removeprefix("Input should be ")
    return f"{name} is {first['input']!r}, but must be {bound}; change it in the file or with --set {name}=…"


def _known(section: list[str]) -> list[str]:
    return list(SECTIONS[section[0]].model_fields) if section else list(SECTIONS)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
