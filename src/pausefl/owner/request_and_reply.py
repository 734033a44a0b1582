"""What a server may ask of an owner, and the two kinds of answer: a reply, or a refusal for a fixed reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pausefl.errors import PauseError, is_finite, require
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.privacy.mechanisms.tensor_rules import Tensor

WEIGHT = "num-examples"
"""The number by which a server weighs updates; the owner's file says it, and never the data."""
SECONDS = "seconds"
"""The name under which a simulation allows the training time to be told."""

Reason: TypeAlias = Literal["exhausted", "not-allowed", "bad-request", "repeated", "failed", "unready", "unreviewed"]

# Fixed sentences: whatever else an error says could have been computed from private data.
SENTENCES: Mapping[Reason, str] = {
    "exhausted": "the privacy budget of this data is gone",
    "not-allowed": "the data owner does not allow messages of this kind",
    "bad-request": "this request cannot be served",
    "repeated": "this release was charged before, and the client no longer has the reply to this request",
    "failed": "the client could not keep its reply, so it sends none; its log says why",
    "unreviewed": "the data owner has not reviewed this app",
    "unready": "the owner's file or ledger cannot be used; the client's log says why",
}

_RUN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SMALLEST = 1e-30
"""Of a wish.  The smallest floats of all may count as 0 after training, if the app made the processor round so."""
_LONGEST = 900
"""Letters of an action: with run and round before it, no name is longer than a ledger's names may be."""


class Refused(PauseError):  # noqa: N818 - an answer, not a defect
    """The owner does not serve this request.

    Args:
        reason: One of the fixed reasons.  It may leave.
        detail: The message for the owner's own log.  It never leaves.
        releases: How many releases of this data there are in all, where that is told.  It may leave.

    >>> why = Refused("exhausted", "'clinic-7' has spent its budget of 40", releases=25)
    >>> why.reason, why.releases, str(why)
    ('exhausted', 25, "'clinic-7' has spent its budget of 40")
    """

    def __init__(self, reason: Reason, detail: str, releases: int | None = None) -> None:
        super().__init__(detail)
        self.reason, self.releases = reason, releases


@contextmanager
def refusing(reason: Reason, *errors: type[BaseException], releases: int | None = None) -> Iterator[None]:
    """Turn these errors, raised inside, into a refusal for this reason."""
    try:
        yield
    except errors as error:
        raise Refused(reason, str(error), releases) from error


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a server asks for: one release, under this name, with at most this epsilon and this clip.

    Args:
        run: The name of the run, 1 to 64 letters, digits, ``.``, ``_`` or ``-``.
        round: The number of the round.
        action: A text that distinguishes several releases of one round.
        epsilon: The largest epsilon that the server wants; None leaves it to the owner.
        clip: The largest clip that the server wants; None leaves it to the owner.

    >>> TrainingRequest(run="trial", round=3).release
    'trial/3'
    """

    run: str
    round: int
    action: str = ""
    epsilon: float | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.run, str) and _RUN.fullmatch(self.run) is not None
        require(named, "run", self.run, "1 to 64 letters, digits, '.', '_' or '-'", "give the run another name")
        whole = isinstance(self.round, int) and not isinstance(self.round, bool) and 0 <= self.round < 2**31
        require(whole, "round", self.round, "a whole number from 0", "count rounds from 1")
        told = isinstance(self.action, str) and len(self.action) <= _LONGEST and self.action.isprintable()
        require(
            told, "action", f"{self.action!s:.50}", f"printable text of at most {_LONGEST} letters", "use a shorter one"
        )
        for name in ("epsilon", "clip"):
            value = getattr(self, name)
            fine = value is None or (is_finite(value) and value >= _SMALLEST)
            require(fine, name, value, f"a finite number from {_SMALLEST:g}", "raise it, or leave it out")

    @property
    def release(self) -> str:
        """The name under which the release is charged."""
        return f"{self.run}/{self.round}" + (f"/{self.action}" if self.action else "")


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """Everything that leaves in answer to one request.

    Attributes:
        arrays: The noised tensors.
        numbers: The owner's own numbers, from the owner's file.
        releases: How many releases of this data there are in all.
        seconds: How long training took.  Only simulations tell it.
        replayed: Whether the arrays left once before.
        level: How loud the arrays are.  This follows from the owner's mechanism, the epsilon and the model's dimension,
            and not from the data.
        left: The share of the budget that is left after this reply.
        next_level: How loud the next reply will be.

    :meth:`~pausefl.owner.gate.Gate.train` returns it, and :class:`~pausefl.owner.gate.Gate` has an example.
    """

    arrays: Mapping[str, Tensor]
    numbers: Mapping[str, int | float]
    releases: int
    seconds: float | None = None
    replayed: bool = False
    level: NoiseLevel | None = None
    left: float | None = None
    next_level: NoiseLevel | None = None
