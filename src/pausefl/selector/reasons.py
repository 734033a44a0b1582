"""Why a round was decided so: the numbers behind each member, and what was missing for the best client left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pausefl.errors import OutOfOrderError
from pausefl.rewards import speed_bonus
from pausefl.selection import Policy
from pausefl.selection.runner_up import runner_up
from pausefl.selector import checks
from pausefl.types import ClientId, FloatArray, IntArray

if TYPE_CHECKING:
    from pausefl.selector.decision import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """What was known of a client when a round was decided; the names are those of the columns of ``Candidates``.

    Attributes:
        mean_speed: The mean of tau_min / latency, from 0 to 1; 0 if nothing is known.
        speed_bonus: How much faster than that it may be; infinite for a client that was never timed.
        ucb: The bound on its speed, zeta·mean_speed + speed_bonus.  The reward contains the smallest bound of all
            members.
        generalization: What it adds to the reward because its data was used too little; negative if too much.
        budget_left: The share of its privacy budget that is left, from 1 to 0.
        score: What it adds to the reward besides speed: generalization, and gamma·budget_left / m.
        picks: In how many rounds it took part before.
    """

    mean_speed: float
    speed_bonus: float
    ucb: float
    generalization: float
    budget_left: float
    score: float
    picks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The client that came closest to being chosen, and what was missing.

    Law: if its score were higher by more than ``short_by``, and all else stayed the same, the client would be chosen.
    If it were higher by less, it would not.

    Attributes:
        client: Who was left out.
        reason: The same numbers as for a member.
        short_by: By how much its score is too small.  0 means that it lost a tie.  It is infinite where members were
            never timed, because these come first whatever the scores are.
        more_budget: How much more of its privacy budget would have to be left, as a share of the budget, to make up for
            ``short_by``.  None if not even a whole budget would be enough.
        replaces: The members that would not be chosen if this client were.
        together_with: Other clients that were left out and would be chosen together with it; mostly nobody.
    """

    client: ClientId
    reason: Reason
    short_by: float
    more_budget: float | None
    replaces: tuple[ClientId, ...]
    together_with: tuple[ClientId, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class OpenRound:
    """A round as it was decided: who could be chosen (None: everybody), and who was, as positions in ``rows``."""

    problem: Problem
    policy: Policy
    rows: IntArray | None
    members: IntArray

    def left_out(self) -> LeftOut | None:
        """Return the best client left out."""
        problem = self.problem
        rows, terms = np.arange(len(problem.cohort)) if self.rows is None else self.rows, problem.terms()
        candidates = problem.candidates(terms, rows)
        objective = checks.maximised(self.policy, candidates)
        if objective is None or objective.m != len(self.members):
            return None
        other = runner_up(objective, self.members, candidates.tickets)
        if other is None:
            return None
        chosen, others = set(self.members.tolist()), set(other.members.tolist())
        # All that come in together fall short by the same; the first of them is the one that brings most.
        entering = sorted(others - chosen, key=lambda at: (-objective.score[at], -objective.ucb[at], at))
        here = objective.solution(self.members)
        first_come = math.isinf(here.minimum)
        if first_come and not math.isinf(other.minimum):
            short_by = math.inf
        else:
            short_by = max(0.0, here.rest - other.rest if first_come else here.value - other.value)
        names: Sequence[ClientId] = [problem.cohort.ids[row] for row in rows[entering].tolist()]
        numbers = problem.numbers(terms, rows[entering[:1]])
        missing = short_by * problem.per_round / problem.reward.gamma if problem.reward.gamma else math.inf
        possible = objective is candidates.objective and missing <= 1.0 - numbers.budget_left[0]
        return LeftOut(
            client=names[0],
            reason=numbers.reason(0),
            short_by=short_by,
            more_budget=missing if possible else None,
            replaces=tuple(problem.cohort.ids[row] for row in rows[sorted(chosen - others)].tolist()),
            together_with=tuple(names[1:]),
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Numbers:
    """What the reasons of several clients are made of: copied when a round is decided, worked out when asked for."""

    mean_speed: FloatArray
    timings: IntArray
    ucb: FloatArray
    generalization: FloatArray
    budget_left: FloatArray
    score: FloatArray
    picks: IntArray
    alpha: float
    rounds: int
    per_round: int

    def reason(self, at: int) -> Reason:
        """Return the numbers of one client."""
        return Reason(
            mean_speed=self.mean_speed[at].item(),
            speed_bonus=speed_bonus(self.timings[at : at + 1], self.rounds, self.per_round).item(),
            ucb=self.ucb[at].item(),
            generalization=self.alpha * self.generalization[at].item() / self.per_round,
            budget_left=self.budget_left[at].item(),
            score=self.score[at].item(),
            picks=self.picks[at].item(),
        )


class Reasons(Mapping[ClientId, Reason]):
    """Why each member was chosen, by id; and ``left_out``, the client that came closest and was not chosen.

    The numbers of the members are at hand at any time.  ``left_out`` is worked out when it is first looked at, from all
    that was known when the round was decided, so look at it before the selector is told anything new.

    A :class:`~pausefl.selector.decision.Selection` holds it.  You need not make one.

    Args:
        members: The ids of the members.
        numbers: What their reasons are made of.
        open_round: The round as it was decided, from which ``left_out`` is worked out; None if it is not known.

    >>> from pausefl import Selector
    >>> known = {"a": 0.1, "b": 0.2, "c": 0.4}  # seconds
    >>> reasons = Selector({"a": 120, "b": 300, "c": 90}, per_round=2, tau_min=0.05, prior=known).select().reasons
    >>> reasons["a"].mean_speed, round(reasons["b"].score, 2)
    (0.5, 71.7)
    >>> reasons.left_out.client, reasons.left_out.replaces, round(reasons.left_out.short_by, 2)
    ('c', ('a',), 4.97)
    """

    def __init__(self, members: Sequence[ClientId], numbers: Numbers, open_round: OpenRound | None) -> None:
        self._members, self._numbers, self._open = members, numbers, open_round
        self._places: dict[ClientId, int] = {}
        self._left_out: LeftOut | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._members)

    def __getitem__(self, client: ClientId) -> Reason:
        if not self._places:
            self._places = {member: at for at, member in enumerate(self._members)}
        return self._numbers.reason(self._places[client])

    def __getstate__(self) -> dict[str, Any]:
        # A copy elsewhere must not bring all that is known of a million clients.
        return {**self.__dict__, "_open": None, "_closed": self._closed or self._open is not None}

    @property
    def left_out(self) -> LeftOut | None:
        """The best client left out.

        It is None if every candidate was chosen, if the policy does not maximise anything exactly, or if the round was
        open when its selector was saved and loaded.
        """
        if self._closed:
            raise OutOfOrderError(
                "left_out is not known any more, because it was not read while the round was open; read it before you "
                "call observe, or pass log=… to the Selector"
            )
        if self._open is not None:
            self._left_out, self._open = self._open.left_out(), None
        return self._left_out

    def close(self) -> None:
        """Take note that the selector is about to be told something new."""
        self._closed, self._open = self._closed or self._open is not None, None


def as_plain(reason: Reason) -> dict[str, float | int | None]:
    """Return the numbers of a client as JSON can hold them: None for infinity."""
    return {name: finite_or_none(value) for name, value in asdict(reason).items()}


def finite_or_none(value: float) -> float | None:
    """Return a number, or None if it is infinite or not a number."""
    return value if math.isfinite(value) else None
