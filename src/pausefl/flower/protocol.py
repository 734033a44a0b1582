"""What server and client say to each other beside Flower's own records: a request, a note, a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from flwr.app import ConfigRecord, Error, Message

from pausefl.errors import PauseError, is_finite, require

RECORD = "pausefl"
"""The config record that carries a request to the client, and a note back."""
WEIGHT = "num-examples"
SECONDS = "seconds"
REPLAYED = "replayed"
REFUSED = 6
"""Flower's code for a mod that could not do what was asked."""

Why: TypeAlias = Literal["exhausted", "not-allowed", "bad-request", "repeated", "failed", "unready"]

# Fixed sentences: whatever else an error says could have been computed from private data.
_SENTENCES: Mapping[Why, str] = {
    "exhausted": "the privacy budget of this data is gone",
    "not-allowed": "the data owner does not allow messages of this kind",
    "bad-request": "this request cannot be served",
    "repeated": "this release was charged before, and the reply to this request is not kept",
    "failed": "the client could not keep its reply, so it sends none; its log says why",
    "unready": "the owner's file or ledger cannot be used; the client's log says why",
}
_PATTERN = re.compile(r"pausefl refuses \(([a-z-]+)\): [^\n]*?(?: \[releases: (\d{1,15})\])?")
_RUN = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Refused(PauseError):  # noqa: N818 - an answer, not a defect
    """The client does not serve this message.  ``detail`` is for its own log and never leaves."""

    def __init__(self, why: Why, detail: str, releases: int | None = None) -> None:
        super().__init__(detail)
        self.refusal = Refusal(why, releases)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a client released nothing, and how often it has in all.

    >>> Refusal.of(Refusal("exhausted", 7).error())
    Refusal(why='exhausted', releases=7)
    """

    why: Why
    releases: int | None = None

    def error(self) -> Error:
        """Return it as Flower sends it."""
        count = "" if self.releases is None else f" [releases: {self.releases}]"
        return Error(code=REFUSED, reason=f"pausefl refuses ({self.why}): {_SENTENCES[self.why]}{count}")

    @staticmethod
    def of(error: Error) -> Refusal | None:
        """Return the refusal that an error carries, if it is one of ours."""
        found = _PATTERN.fullmatch(error.reason or "")
        if error.code != REFUSED or found is None or found[1] not in get_args(Why):
            return None
        return Refusal(cast(Why, found[1]), int(found[2]) if found[2] else None)


@dataclass(frozen=True, slots=True)
class Request:
    """What the server asks: a release of this name, at most this epsilon and this clip; or only who is there."""

    run: str
    round: int
    hello: bool = False
    epsilon: float | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.run, str) and _RUN.fullmatch(self.run) is not None
        require(named, "run", self.run, "1 to 64 letters, digits, '.', '_' or '-'", "rename the run")
        whole = isinstance(self.round, int) and not isinstance(self.round, bool) and 0 <= self.round < 2**31
        require(whole, "round", self.round, "a whole number from 0", "count rounds from 1")
        for name in ("epsilon", "clip"):
            value = getattr(self, name)
            fine = value is None or (is_finite(value) and value > 0.0)
            require(fine, name, value, "a finite number above 0", "leave it out")

    def record(self) -> ConfigRecord:
        """Return it as Flower sends it."""
        values: dict[str, Any] = {"run": self.run, "round": self.round, "hello": self.hello}
        values |= {name: v for name in ("epsilon", "clip") if (v := getattr(self, name)) is not None}
        return ConfigRecord(values)

    @staticmethod
    def of(message: Message) -> Request:
        """Read it from a message; a server without this package is understood by Flower's own run and round."""
        configs = message.content.config_records
        asked: Mapping[str, Any] = configs.get(RECORD, {})
        stray = sorted(set(asked) - {"run", "round", "hello", "epsilon", "clip"})
        require(not stray, "request", stray, "of the known keys only", "use the same release on both sides")
        number: Any = next((config["server-round"] for config in configs.values() if "server-round" in config), None)
        return Request(
            cast(str, asked.get("run", f"flwr-{message.metadata.run_id}")),
            cast(int, asked.get("round", number)),
            asked.get("hello") is True,
            cast("float | None", asked.get("epsilon")),
            cast("float | None", asked.get("clip")),
        )


@dataclass(frozen=True, slots=True)
class Note:
    """What a client adds to a reply: its name, how many releases it has made in all, and seconds, if its owner agrees.

    ``replayed``: these are the bytes of an earlier reply, sent again without training.  All of it is the client's
    word, and nothing more.
    """

    name: str
    releases: int
    seconds: float | None = None
    replayed: bool = False

    def record(self) -> ConfigRecord:
        """Return it as Flower sends it."""
        values: dict[str, Any] = {"name": self.name, "releases": self.releases}
        values |= {} if self.seconds is None else {SECONDS: self.seconds}
        values |= {REPLAYED: True} if self.replayed else {}
        return ConfigRecord(values)

    @staticmethod
    def of(message: Message) -> Note | None:
        """Read it from a reply; None if there is none, or none that makes sense."""
        found = message.content.config_records.get(RECORD) if message.has_content() else None
        if found is None:
            return None
        name, releases, seconds = found.get("name"), found.get("releases"), found.get(SECONDS)
        whole = isinstance(releases, int) and not isinstance(releases, bool) and 0 <= releases < 2**53
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or not whole:
            return None
        told = float(cast(float, seconds)) if is_finite(seconds) and cast(float, seconds) > 0.0 else None
        return Note(name, cast(int, releases), told, found.get(REPLAYED) is True)
