"""From what is known of the clients to what a policy decides on, and from its solution back to ids and reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from pausefl.errors import InvalidValueError, NotEnoughClientsError, require, shown
from pausefl.rewards import Reward, Terms, collisions, speed_bonus
from pausefl.rng import stream, tickets
from pausefl.selection import Candidates, Objective, Policy, Solution
from pausefl.selection.policy_contract import SIGNALS, read_only
from pausefl.selector.cohort import Cohort
from pausefl.selector.reasons import Numbers, OpenRound, Reasons
from pausefl.selector.speed_changes import believed_timings
from pausefl.types import BoolArray, ClientId, FloatArray, IntArray, KeyArray

Phi: TypeAlias = Callable[[Sequence[ClientId]], float]
"""A function of your own, of a set of client ids, that is added to the reward."""

_BLOCK = 1 << 15


@dataclass(frozen=True, slots=True)
class Selection:
    """Who takes part in a round, and why.

    Attributes:
        round: The number of the round, from 1.
        members: The ids of the clients that take part.
        value: The reward of the set.
        terms: What each part of the reward contributed.  Their sum is ``value``.
        reasons: The numbers behind each member, by id, and the client that came closest and was left out; see
            :class:`~pausefl.selector.reasons.Reasons`.
        weights: Weights that replace the usual weights of aggregation.  Only policies that draw with replacement set
            them.

    Iterating over it gives the ids.

    >>> from pausefl import Selector
    >>> known = {"a": 0.1, "b": 0.2, "c": 0.4}  # seconds
    >>> chosen = Selector({"a": 120, "b": 300, "c": 90}, per_round=2, tau_min=0.05, prior=known).select()
    >>> chosen.round, chosen.members, "c" in chosen
    (1, ('a', 'b'), False)
    >>> {name: round(value, 2) for name, value in chosen.terms.items()}, round(chosen.value, 2)
    ({'speed': 0.25, 'generalization': 80.28, 'privacy': 5.0}, 85.53)
    """

    round: int
    members: tuple[ClientId, ...]
    value: float
    terms: Mapping[str, float]
    reasons: Reasons = field(repr=False, compare=False)
    weights: Mapping[ClientId, float] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.members)

    def __contains__(self, client: object) -> bool:
        return client in self.members


@dataclass(frozen=True, slots=True, eq=False)
class RoundTerms:
    """What each client would bring to a set.  Only the bound on speed and the score are kept; see ``Terms``."""

    ucb: FloatArray
    score: FloatArray
    _problem: Problem

    @property
    def generalization(self) -> FloatArray:
        """How underused each client's data is, worked out anew."""
        return self._problem.terms_of(slice(0, len(self.ucb))).generalization

    @property
    def privacy(self) -> FloatArray:
        """What is left of each client's budget, worked out anew."""
        cohort = self._problem.cohort
        return self._problem.reward.budgets.left(cohort.releases)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One round to decide: ``number`` rounds from 1, with the terms as of the end of the round before."""

    cohort: Cohort
    reward: Reward
    per_round: int
    clusters: IntArray | None
    phi: Phi | None
    seed: int
    number: int
    memory: int | None = None

    @property
    def timings(self) -> IntArray:
        """How often each client was timed, as far as that is still believed."""
        return believed_timings(self.cohort, self.number, self.memory)

    def terms(self) -> RoundTerms:
        """Return what each client would bring."""
        ucb, score = np.empty(len(self.cohort)), np.empty(len(self.cohort))
        for start in range(0, len(ucb), _BLOCK):  # what lies between stays in the cache, and takes no memory
            part = slice(start, min(start + _BLOCK, len(ucb)))
            terms = self.terms_of(part)
            ucb[part], score[part] = terms.ucb, terms.score
        return RoundTerms(ucb, score, self)

    def terms_of(self, rows: IntArray | slice) -> Terms:
        """Return what some clients would bring."""
        cohort = self.cohort
        return self.reward.terms(
            self.reward.mean_speed(cohort.rate[rows], cohort.fastest_seen), cohort.shares_of(rows), cohort.picks[rows],
            cohort.releases[rows], believed_timings(cohort, self.number, self.memory, rows),
            rounds=self.number - 1, m=self.per_round, rows=rows,
        )  # fmt: skip

    def solvent(self) -> BoolArray:
        """Return which clients are present and have budget left."""
        present, solvent = self.cohort.present, self.reward.budgets.solvent(self.cohort.releases)
        return present if solvent is None else present & solvent

    def rows(self, available: Iterable[ClientId] | BoolArray | None, need: int, want: int | None = None) -> IntArray:
        """Return the rows of the clients that are present, available, have budget left and do not wait after silence.

        If these are fewer than ``want`` (as many as are needed, if it is not given), those whose wait ends first are
        taken in.  Fewer than ``need`` with all who wait is an error.
        """
        mask = self.cohort.present
        if available is not None:
            mask = mask & self._mask(available)
        rows = np.flatnonzero(mask & self.solvent())
        if len(rows) < need:
            broke = int(mask.sum()) - len(rows)
            raise NotEnoughClientsError(
                f"per_round is {self.per_round}, but only {len(rows)} available clients have budget left ({broke} have "
                "spent theirs); wait for more clients, or call select(allow_fewer=True)"
            )
        return self._without_waiting(rows, need if want is None else want)

    def _without_waiting(self, rows: IntArray, want: int) -> IntArray:
        if not (self.cohort.silences > 0).any():
            return rows
        until = self.cohort.waits_until()[rows]
        waiting = until >= self.number
        missing = want - int((~waiting).sum())
        if missing > 0:
            late = np.flatnonzero(waiting)
            order = np.lexsort((self._tickets(rows[late]), until[late]))
            waiting[late[order[:missing]]] = False
        return rows[~waiting]

    def _tickets(self, rows: IntArray) -> KeyArray:
        return tickets(self.seed, "tickets", self.number, self.cohort.keys[rows])

    def candidates(self, terms: RoundTerms, rows: IntArray) -> Candidates:
        """Return what the policy sees."""
        cohort, reward = self.cohort, self.reward
        return Candidates(
            objective=self.objective(terms, rows),
            rows=read_only(rows),
            all_ids=cohort.ids,
            columns={
                "generalization": lambda: reward.alpha * terms.generalization / self.per_round,
                "mean_speed": lambda: reward.mean_speed(cohort.rate, cohort.fastest_seen),
                "speed_bonus": lambda: speed_bonus(self.timings, self.number - 1, self.per_round),
                "mean_seconds": lambda: np.where(cohort.timings > 0, cohort.seconds, np.nan),
                "timings": lambda: self.timings,
                "budget_left": lambda: terms.privacy,
                "next_release": lambda: reward.budgets.next_release(cohort.releases),
                "picks": lambda: cohort.picks,
                "last_round": lambda: cohort.last,
                "releases": lambda: cohort.releases,
                "noise_level": lambda: cohort.noise,
                "sizes": lambda: cohort.sizes,
                # Laplace's rule of succession: nobody is sure to be there, and nobody is written off.
                "forecast": lambda: (cohort.column("there") + 1.0) / (self.number + 1.0),
                **{name: partial(cohort.column, name) for name in SIGNALS},
            },
            set_range=reward.set_range(self.per_round),
            round_number=self.number,
            slowest_seen=cohort.slowest_seen,
            latency_spread=cohort.latency_spread,
            tickets=lambda at: self._tickets(rows[at]),
            stream=lambda purpose: stream(self.seed, purpose, self.number),
        )

    def objective(self, terms: RoundTerms, rows: IntArray) -> Objective:
        """Return what is maximised, over positions in ``rows``."""
        part: IntArray | slice = slice(None) if len(rows) == len(self.cohort) else rows
        clusters = None if self.clusters is None else read_only(self.clusters[part])
        m = min(self.per_round, len(rows))
        phi = None if self.phi is None else self._phi_of(rows, self.phi)
        ucb, score = read_only(terms.ucb[part]), read_only(terms.score[part])
        return Objective(ucb, score, m, clusters, self.reward.collision, phi)

    def numbers(self, terms: RoundTerms, rows: IntArray) -> Numbers:
        """Return what is known of some clients, as reasons for a choice."""
        cohort, parts = self.cohort, self.terms_of(rows)
        return Numbers(
            mean_speed=self.reward.mean_speed(cohort.rate[rows], cohort.fastest_seen),
            timings=believed_timings(cohort, self.number, self.memory, rows),
            ucb=terms.ucb[rows],
            generalization=parts.generalization,
            budget_left=parts.privacy,
            score=terms.score[rows],
            picks=cohort.picks[rows],
            alpha=self.reward.alpha,
            rounds=self.number - 1,
            per_round=self.per_round,
        )

    def selection(
        self, terms: RoundTerms, rows: IntArray, solution: Solution, policy: Policy | None = None
    ) -> Selection:
        """Return a solution as ids and reasons; with its policy, who was left out can be looked at too."""
        chosen = rows[solution.members]
        members = tuple(self.cohort.ids[row] for row in chosen.tolist())
        numbers = self.numbers(terms, chosen)
        parts = {
            "speed": solution.minimum,
            "generalization": self.reward.alpha * float(numbers.generalization.sum()) / self.per_round,
            "privacy": self.reward.gamma * float(numbers.budget_left.sum()) / self.per_round,
        }
        if self.clusters is not None:
            parts["clusters"] = 0.0 - self.reward.collision * collisions(self.clusters[chosen])
        if self.phi is not None:
            parts["phi"] = float(self.phi(members))
        weights = None if solution.weights is None else dict(zip(members, solution.weights.tolist(), strict=True))
        some = None if len(rows) == len(self.cohort) else rows
        decided = None if policy is None else OpenRound(self, policy, some, solution.members)
        return Selection(self.number, members, solution.value, parts, Reasons(members, numbers, decided), weights)

    def _mask(self, available: Iterable[ClientId] | BoolArray) -> BoolArray:
        if isinstance(available, (str, Mapping)):
            raise InvalidValueError(
                f"available is a {type(available).__name__}, but must be a list of client ids or a mask; pass a list "
                "of ids"
            )
        listed = available if isinstance(available, np.ndarray) else list(available)
        if len(listed) and all(isinstance(x, (bool, np.bool_)) for x in listed[:2]):
            mask = np.asarray(listed)
            shape = (len(self.cohort),)
            require(
                mask.shape == shape and mask.dtype == np.bool_,
                "available",
                mask.shape,
                f"a mask of shape {shape}",
                "pass such a mask, or a list of ids",
            )
            return mask
        named = np.zeros(len(self.cohort), dtype=np.bool_)
        named[self.cohort.rows(listed)] = True
        return named

    def _phi_of(self, rows: IntArray, phi: Phi) -> Callable[[IntArray], float]:
        ids = self.cohort.ids
        # In order of arrival, so that a sum inside phi does not depend on the path that led to the set.
        return lambda at: phi(tuple(ids[row] for row in np.sort(rows[at]).tolist()))


def cluster_column(clusters: Mapping[ClientId, int] | Sequence[int] | IntArray, ids: Sequence[ClientId]) -> IntArray:
    """Return the cluster of each of these clients."""
    if isinstance(clusters, Mapping):
        missing = next((i for i in ids if i not in clusters), None)
        if missing is not None:
            raise InvalidValueError(
                f"clusters has none for client {shown(missing)}, but must have one for every client; add it"
            )
        clusters = [clusters[i] for i in ids]
    labels = np.asarray(clusters)
    found = labels.shape[0] if labels.ndim == 1 else repr(clusters)[:60]
    require(found == len(ids), "clusters length", found, str(len(ids)), "pass one cluster number per client")
    require(
        np.issubdtype(labels.dtype, np.integer), "clusters", labels.dtype.name, "whole numbers", "for example [0, 0, 1]"
    )
    return labels.astype(np.int64)
