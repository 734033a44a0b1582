"""From what is known of the clients to what a policy decides on, and from its solution back to ids and reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pausefl.errors import InvalidValueError, NotEnoughClientsError, require, shown
from pausefl.rewards import Reward, Terms, collisions, speed_bonus
from pausefl.rng import stream, tickets
from pausefl.selection import Candidates, Objective, Solution
from pausefl.selection.policy_contract import read_only
from pausefl.selector.cohort import Cohort
from pausefl.types import BoolArray, ClientId, IntArray

Phi: TypeAlias = Callable[[Sequence[ClientId]], float]
"""A function of your own, of a set of client ids, that is added to the reward."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Who takes part in a round, and why.

    ``terms`` says what each part of the reward contributed (their sum is ``value``); ``weights`` is set only by
    policies that draw with replacement, and then replaces the usual aggregation weights.
    """

    round: int
    members: tuple[ClientId, ...]
    value: float
    terms: Mapping[str, float]
    weights: Mapping[ClientId, float] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.members)

    def __contains__(self, client: object) -> bool:
        return client in self.members


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

    def terms(self) -> Terms:
        """Return what each client would bring."""
        cohort = self.cohort
        speed = self.reward.mean_speed(cohort.rate, cohort.fastest_seen)
        return self.reward.terms(
            speed, cohort.shares, cohort.picks, cohort.releases, cohort.timings,
            rounds=self.number - 1, m=self.per_round,
        )  # fmt: skip

    def solvent(self) -> BoolArray:
        """Return which clients are present and have budget left."""
        present, solvent = self.cohort.present, self.reward.budgets.solvent(self.cohort.releases)
        return present if solvent is None else present & solvent

    def rows(self, available: Iterable[ClientId] | BoolArray | None, need: int) -> IntArray:
        """Return the rows of the clients that are present, available and have budget left; at least ``need``."""
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
        return rows

    def candidates(self, terms: Terms, rows: IntArray) -> Candidates:
        """Return what the policy sees."""
        cohort, reward = self.cohort, self.reward
        return Candidates(
            objective=self.objective(terms, rows),
            rows=read_only(rows),
            all_ids=cohort.ids,
            columns={
                "mean_speed": lambda: reward.mean_speed(cohort.rate, cohort.fastest_seen),
                "speed_bonus": lambda: speed_bonus(cohort.timings, self.number - 1, self.per_round),
                "budget_left": lambda: terms.privacy,
                "picks": lambda: cohort.picks,
                "releases": lambda: cohort.releases,
                "noise_level": lambda: cohort.noise,
                "sizes": lambda: cohort.sizes,
            },
            set_range=reward.set_range(self.per_round),
            round_number=self.number,
            tickets=lambda at: tickets(self.seed, "tickets", self.number, cohort.keys[rows[at]]),
            stream=lambda purpose: stream(self.seed, purpose, self.number),
        )

    def objective(self, terms: Terms, rows: IntArray) -> Objective:
        """Return what is maximised, over positions in ``rows``."""
        part: IntArray | slice = slice(None) if len(rows) == len(self.cohort) else rows
        clusters = None if self.clusters is None else read_only(self.clusters[part])
        m = min(self.per_round, len(rows))
        phi = None if self.phi is None else self._phi_of(rows, self.phi)
        ucb, score = read_only(terms.ucb[part]), read_only(terms.score[part])
        return Objective(ucb, score, m, clusters, self.reward.collision, phi)

    def selection(self, terms: Terms, rows: IntArray, solution: Solution) -> Selection:
        """Return a solution as ids and reasons."""
        chosen = rows[solution.members]
        members = tuple(self.cohort.ids[row] for row in chosen.tolist())
        parts = {
            "speed": solution.minimum,
            "generalization": self.reward.alpha * float(terms.generalization[chosen].sum()) / self.per_round,
            "privacy": self.reward.gamma * float(terms.privacy[chosen].sum()) / self.per_round,
        }
        if self.clusters is not None:
            parts["clusters"] = 0.0 - self.reward.collision * collisions(self.clusters[chosen])
        if self.phi is not None:
            parts["phi"] = float(self.phi(members))
        weights = None if solution.weights is None else dict(zip(members, solution.weights.tolist(), strict=True))
        return Selection(self.number, members, solution.value, parts, weights)

    def _mask(self, available: Iterable[ClientId] | BoolArray) -> BoolArray:
        if isinstance(available, (str, Mapping)):
            raise InvalidValueError(
                f"available is a {type(available).__name__}, but must be a list of client ids or a mask; list the ids"
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
                "or pass ids",
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
        require(missing is None, "clusters", f"silent on client {shown(missing)}", "named for every client", "add it")
        clusters = [clusters[i] for i in ids]
    labels = np.asarray(clusters)
    found = labels.shape[0] if labels.ndim == 1 else repr(clusters)[:60]
    require(found == len(ids), "clusters length", found, str(len(ids)), "name one cluster per client")
    require(np.issubdtype(labels.dtype, np.integer), "clusters", labels.dtype.name, "whole numbers", "number them")
    return labels.astype(np.int64)
