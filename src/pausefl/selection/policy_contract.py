"""The contract of a policy: what it sees of a round, and what it returns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from inspect import signature
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pausefl.selection.objective import Objective, Tickets
from pausefl.types import BoolArray, ClientId, FloatArray, IntArray, Seconds

Positions: TypeAlias = IntArray | Sequence[int]
"""Which candidates are chosen: an array or a list of whole numbers from 0 to len(candidates) - 1."""

Choice: TypeAlias = Positions | tuple[Positions, FloatArray | Sequence[float]]
"""What ``Policy.pick`` returns: positions, or a pair of positions and weights."""

Need: TypeAlias = Literal["latency", "sizes", "loss", "accuracy", "forecast"]
"""What a policy must know of clients: how long they take, how many examples they have, how well the model does on their
data (its loss, its accuracy), and how likely they are to be there."""

SIGNALS: tuple[Need, ...] = ("loss", "accuracy")
"""Those needs that are worked out from a client's data: to tell one is a release, which has to be noised and paid."""

_Array = TypeVar("_Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """What a policy sees of a round: the clients it may choose from, as numpy columns of length ``len(candidates)``.

    Candidates are the clients that are there and have budget left.  The columns are ``ucb``, ``score``,
    ``generalization``, ``mean_speed``, ``speed_bonus``, ``mean_seconds``, ``timings``, ``budget_left``,
    ``next_release``, ``picks``, ``last_round``, ``releases``, ``noise_level``, ``sizes``, ``forecast``, and the signals
    ``loss`` and ``accuracy``.  They are read-only, and they are computed when a policy first asks for them.  They
    belong to this round, so copy what you want to keep.  ``available`` is a mask over all clients.  ``objective`` is
    what PAUSE maximises; a policy need not look at it.

    Attributes:
        round_number: The number of the round to decide, from 1.
        tickets: A function of positions.  It returns a lottery number for each, which belongs to the client in this
            round.  Use it to break ties: the smallest number wins.
        stream: A function of a name.  It returns a random generator for this round, the same one for the same name.
        set_range: How far apart the weights let two sets lie in everything but speed: PAUSE, eq. (setting C).
        rows: The row of each candidate, in order of arrival.  Rows are what ``Policy.learn`` is given.
        slowest_seen: The longest answer of any client so far, in seconds; 0 before the first.
        latency_spread: How far a latency is from what is usual for its client, as a standard deviation of logarithms:
            0.1 is about 10 %.  It is measured over all clients, and 1 as long as nothing is known.
    """

    objective: Objective
    rows: IntArray
    all_ids: Sequence[ClientId] = field(repr=False)
    set_range: float
    round_number: int
    slowest_seen: Seconds = 0.0
    latency_spread: float = 1.0
    columns: Mapping[str, Callable[[], npt.NDArray[Any]]] = field(repr=False)  # of all clients, by name
    tickets: Tickets = field(repr=False)
    stream: Callable[[str], np.random.Generator] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def m(self) -> int:
        """How many are to be chosen."""
        return self.objective.m

    @property
    def ids(self) -> list[ClientId]:
        """Their ids."""
        return [self.all_ids[row] for row in self.rows.tolist()]

    @cached_property
    def ucb(self) -> FloatArray:
        """Upper confidence bound on the speed: zeta·mean_speed + speed_bonus; infinite for a client never timed."""
        return read_only(self.objective.ucb)

    @cached_property
    def score(self) -> FloatArray:
        """What the client adds to the reward besides speed: generalization + gamma·budget_left / m."""
        return read_only(self.objective.score)

    @cached_property
    def generalization(self) -> FloatArray:
        """The part of ``score`` that comes from data that was used too little: alpha·g / m, without privacy."""
        return self._column("generalization")

    @cached_property
    def mean_speed(self) -> FloatArray:
        """Mean of tau_min / latency over the picks, and what was known before, from 0 to 1; 0 if nothing is known."""
        return self._column("mean_speed")

    @cached_property
    def speed_bonus(self) -> FloatArray:
        """How much faster than its mean the client may be; infinite for a client never timed."""
        return self._column("speed_bonus")

    @cached_property
    def mean_seconds(self) -> FloatArray:
        """Mean of the latencies, in seconds; silence counts as the slowest answer seen; NaN if nothing is known."""
        return self._column("mean_seconds")

    @cached_property
    def timings(self) -> IntArray:
        """How often the client was timed, as far as the selector still trusts it; 0 if nothing is known."""
        return self._column("timings")

    @cached_property
    def budget_left(self) -> FloatArray:
        """Share of the privacy budget that is left, from 1 (nothing released) to 0; what the client said, if it did."""
        return self._column("budget_left")

    @cached_property
    def next_release(self) -> FloatArray:
        """The epsilon of the client's next release, as a share of that of its first, by its schedule."""
        return self._column("next_release")

    @cached_property
    def picks(self) -> IntArray:
        """In how many rounds the client took part."""
        return self._column("picks")

    @cached_property
    def last_round(self) -> IntArray:
        """The number of the round in which the client last took part; 0 if it never did."""
        return self._column("last_round")

    @cached_property
    def releases(self) -> IntArray:
        """How many noised updates the client has released; its own count, where it reports one."""
        return self._column("releases")

    @cached_property
    def noise_level(self) -> FloatArray:
        """How loud the client says its next release will be: the squared L2 norm of the noise; NaN if unknown."""
        return self._column("noise_level")

    @cached_property
    def sizes(self) -> FloatArray:
        """How many examples the client has."""
        return self._column("sizes")

    @cached_property
    def forecast(self) -> FloatArray:
        """How likely the client is to be there in a round, by how often it was; kept for policies that need it."""
        return self._column("forecast")

    @cached_property
    def loss(self) -> FloatArray:
        """The loss of the model on the client's data, as the client last told it; NaN if it told none."""
        return self._column("loss")

    @cached_property
    def accuracy(self) -> FloatArray:
        """The accuracy of the model on the client's data, from 0 to 1, as the client last told it."""
        return self._column("accuracy")

    @cached_property
    def available(self) -> BoolArray:
        """Whether each of *all* clients, in order of arrival, is a candidate in this round."""
        mask = np.zeros(len(self.all_ids), dtype=np.bool_)
        mask[self.rows] = True
        return read_only(mask)

    def everyone(self, name: str) -> npt.NDArray[Any]:
        """Return a column of *all* clients, in order of arrival, and not only of the candidates."""
        return read_only(self.columns[name]())

    def _column(self, name: str) -> npt.NDArray[Any]:
        everyone = self.columns[name]()
        return read_only(everyone if len(self.rows) == len(everyone) else everyone[self.rows])


class Policy(ABC):
    """Decides who takes part in a round.

    Contract: ``pick`` returns distinct positions 0 … len(candidates)-1, ``candidates.m`` of them unless the class says
    otherwise in ``size``.  A policy that draws with replacement returns a pair: the positions, and for each a weight
    above 0; the weights sum to 1 and replace the usual aggregation weights.  ``pick`` must take all randomness from
    ``candidates.tickets`` and ``candidates.stream`` (so that the same seed gives the same choice, in any process), and
    must not depend on the order of the candidates (so that permuting the clients permutes the choice).  ``pick`` and
    ``ask`` must change nothing, because they may be called again for the same round.  If a policy must remember
    something between rounds, it does so in ``played`` or ``learn``, and saves it with ``state`` and ``restore``.  Keep
    each option in an attribute with the name of its argument, and do not change it, because ``settings`` describes it.

    ``needs`` names what the policy must know of clients.  It may depend on options: set ``self.needs`` then.  A need
    that is a signal (``loss``, ``accuracy``) is told by the members of a round together with their updates; or, if the
    policy has a method ``ask``, by those that it asks before it picks.  Either way clients pay for what they tell.
    ``minibatch`` says that a client may work out its signal on one minibatch, which is cheaper.

    Attributes:
        name: What configurations call the policy.
        size: How many clients it returns: ``exactly m``, ``at most m`` or ``all``.
        any_reward: Whether it honours a set function phi, or does not look at the reward at all.
        needs: What it must know of clients.
        minibatch: Whether a client may work out its signal on one minibatch.

    >>> from pausefl import Selector
    >>> class LeastUsed(Policy):
    ...     name = "least-used"
    ...
    ...     def pick(self, candidates):
    ...         luck = candidates.tickets(np.arange(len(candidates)))  # breaks ties
    ...         return np.lexsort((luck, candidates.picks))[: candidates.m]
    >>> sel = Selector({"a": 120, "b": 300, "c": 90, "d": 200}, per_round=2, policy=LeastUsed())
    >>> first = set(sel.select())
    >>> sel.observe({client: 0.3 for client in first})
    >>> first.isdisjoint(sel.select())
    True
    """

    __slots__ = ()
    name: ClassVar[str]
    size: ClassVar[str] = "exactly m"  # or "at most m", "all"
    any_reward: ClassVar[bool] = True  # whether it honours a set function phi, or does not look at the reward at all
    needs: frozenset[Need] = frozenset()
    minibatch: ClassVar[bool] = False

    @abstractmethod
    def pick(self, candidates: Candidates) -> Choice:
        """Return the positions of the clients chosen for this round."""

    def ask(self, candidates: Candidates) -> Positions:
        """Return the positions of the clients that must tell their signals before ``pick`` is called."""
        return []

    def maximises(self, candidates: Candidates) -> Objective | None:
        """Return the objective whose exact optimum ``pick`` returns, so that a choice can be explained by it.

        Return None if the policy maximises nothing, or not exactly.
        """
        return None

    def inclusion(self, candidates: Candidates) -> FloatArray | None:
        """Return how likely each candidate was to be chosen in this round, for off-policy evaluation.

        The probability is over this round's draws, given all that was known before them.  It is exact.  Return None if
        the policy does not draw, or if no exact value is known.
        """
        return None

    @property
    def asks(self) -> bool:
        """Whether it wants to hear signals before it picks."""
        return type(self).ask is not Policy.ask

    @property
    def tells_chances(self) -> bool:
        """Whether it may say how likely its choices are."""
        return type(self).inclusion is not Policy.inclusion

    @property
    def signals(self) -> tuple[Need, ...]:
        """The needs that are computed from clients' data."""
        return tuple(need for need in SIGNALS if need in self.needs)

    @property
    def learns(self) -> bool:
        """Whether it wants to see the members' model updates."""
        return type(self).learn is not Policy.learn

    @property
    def remembers(self) -> bool:
        """Whether it wants to see who took part in a round."""
        return type(self).played is not Policy.played

    def settings(self) -> str:
        """Describe the options, so that a saved state cannot continue with other options.

        The options are the fields of a dataclass, or else the attributes with the names of the class's arguments.
        Other attributes may be what the policy remembers.
        """
        if is_dataclass(self):
            return described(self)
        options = {name: getattr(self, name) for name in _arguments(type(self)) if hasattr(self, name)}
        return f"{self.name} {described(options)}" if options else self.name

    def learn(self, rows: IntArray, updates: FloatArray) -> None:  # noqa: B027 - most policies do not care
        """Learn from the model updates that these clients sent, one row each."""

    def played(self, candidates: Candidates, members: IntArray) -> None:  # noqa: B027 - most policies do not care
        """Learn from a round that is over: its candidates, and the positions of its members.

        It is called once for each observed round, before the round is counted: picks, latencies and ``round_number``
        are those that ``pick`` saw.  Signals are those told so far, so call ``Selector.hear`` with the signals of the
        members before you call ``Selector.observe``.
        """

    def state(self) -> Mapping[str, Any]:
        """Return the arrays that ``restore`` needs to continue."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most policies have no state
        """Continue from what ``state`` returned."""


def read_only(array: _Array) -> _Array:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def described(value: object) -> str:
    """Return a value as text that is the same for equal values, in any process: settings are compared by it.

    >>> described({"b": np.int64(3), "a": described}) == described({"a": described, "b": 3.0})
    True
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, (int, float)):
        small = isinstance(value, float) or (abs(value) < 1e300 and float(value) == value)
        return repr(float(value) + 0.0 if small else value)  # + 0.0: -0.0 is 0.0
    if isinstance(value, np.ndarray):
        return f"array({value.shape}, {blake2b(_content(value), digest_size=8).hexdigest()})"
    if is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(f"{one.name}={described(getattr(value, one.name))}" for one in fields(value) if one.repr)
        return f"{type(value).__qualname__}({inside})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{described(key)}: {described(one)}' for key, one in value.items()))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(described, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(described, value))})"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _content(array: npt.NDArray[Any]) -> bytes:
    """Return the bytes of an array as fractions, if they can hold its values; else those of its description."""
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64) + 0.0
        if array.dtype.kind in "bf" or np.abs(numbers).max(initial=0.0) < 2**53:
            return numbers.tobytes()
    return described(array.tolist()).encode(errors="replace")


@lru_cache(maxsize=64)
def _arguments(kind: type) -> tuple[str, ...]:
    return tuple(signature(kind).parameters)
