"""The three-call façade for any framework: select, observe, save and load.

Reference: PAUSE, Alg. 1, with its updates of g and p, and p_k(0) = 1 as its equation gives.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Self

import numpy as np

from pausefl.cohort import Cohort
from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError, StateFileError, require
from pausefl.privacy import SCHEDULES, Geometric
from pausefl.problem import Phi, Problem, Selection, cluster_column
from pausefl.rewards import Reward
from pausefl.selection import POLICIES, Policy, Solution, policy_by_name
from pausefl.statefile import read_state, write_state
from pausefl.types import BoolArray, BudgetSchedule, ClientId, FloatArray, IntArray, Seconds

_KIND = "selector"
_COLUMNS = ("sizes", "picks", "rate", "present")
_WEIGHTS = ("alpha", "beta", "gamma", "zeta", "rho", "tau_min")


class Selector:
    """Decides who takes part, learns from the latencies, and keeps its state through restarts.

    ``select`` may be asked again before ``observe``: the same round is decided once more, and equally if the same
    clients are available.  A round is counted when it is observed.

    Law: a selector that was saved and loaded continues to the bit; permuting the clients permutes the choices.

    >>> sel = Selector(sizes={"a": 120, "b": 300, "c": 90, "d": 200}, per_round=2, tau_min=0.05)
    >>> first = set(sel.select().members)
    >>> sel.observe({client: 0.3 for client in first})
    >>> first.isdisjoint(sel.select().members)
    True
    """

    def __init__(
        self,
        sizes: Mapping[ClientId, float] | Sequence[float] | FloatArray | IntArray,
        per_round: int,
        policy: str | Policy = "pause",
        *,
        alpha: float = 100.0,
        beta: float = 2.0,
        gamma: float = 5.0,
        zeta: float = 1.0,
        schedule: BudgetSchedule | None = None,
        tau_min: Seconds | None = None,
        clusters: Mapping[ClientId, int] | Sequence[int] | IntArray | None = None,
        rho: float = 0.0,
        phi: Phi | None = None,
        seed: int = 0,
    ) -> None:
        self._reward = Reward(alpha, beta, gamma, zeta, rho, schedule or Geometric(40.0, 0.04), tau_min)
        self._policy = policy_by_name(policy) if isinstance(policy, str) else policy
        if not isinstance(self._policy, Policy):
            raise InvalidValueError(
                f"policy is {policy!r}, but must be a name or a Policy; subclass pausefl.selection.Policy"
            )
        self._phi = phi
        if phi is not None and not self._policy.any_reward:
            raise InvalidValueError(
                f"phi is set, but policy {self._policy.name!r} cannot honour it; use 'sa-pause' or 'brute'"
            )
        self._seed = _whole(seed, "seed", 0)
        self._per_round = _whole(per_round, "per_round", 1)
        self._cohort = Cohort(sizes)
        if self._per_round > len(self._cohort):
            raise NotEnoughClientsError(
                f"per_round is {per_round}, but only {len(self._cohort)} clients joined; pick fewer or let more join"
            )
        self._clusters = None if clusters is None else cluster_column(clusters, self._cohort.ids)
        self._rounds = 0
        self._pending: Selection | None = None

    @property
    def rounds(self) -> int:
        """How many rounds have been observed."""
        return self._rounds

    @property
    def cohort(self) -> Cohort:
        """What is known of each client, in columns; to be read only."""
        return self._cohort

    @property
    def reward(self) -> Reward:
        """The weights of the reward."""
        return self._reward

    def spent(self) -> FloatArray:
        """Return the server's estimate of what each client has leaked, in order of arrival."""
        return self._reward.schedule.spent(self._cohort.picks)

    def select(self, available: Iterable[ClientId] | BoolArray | None = None) -> Selection:
        """Choose the members of the next round among the available clients (ids, or a mask in order of arrival)."""
        problem = self.problem()
        rows = problem.rows(available, need=1 if self._policy.size == "all" else self._per_round)
        terms = problem.terms()
        self._pending = problem.selection(terms, rows, self._policy.pick(problem.candidates(terms, rows)))
        return self._pending

    def observe(
        self,
        latencies: Mapping[ClientId, Seconds | None],
        updates: Mapping[ClientId, FloatArray] | None = None,
    ) -> None:
        """Close the round: seconds per member; None, or a member left out, is no answer.

        ``updates`` (the members' model updates, flattened) matter only to policies that compare them.
        """
        if self._pending is None:
            raise OutOfOrderError("observe was called with no open round; call select first")
        members = self._pending.members
        invited = set(members)
        for client in (*latencies, *(updates or {})):
            if client not in invited:
                raise InvalidValueError(
                    f"client id is {client!r}, but must be one of the {len(members)} selected in round "
                    f"{self._rounds + 1}; report members only"
                )
        seconds = np.array([_seconds(client, latencies.get(client)) for client in members])
        rows = self._cohort.rows(members)
        learned = _stacked(updates)
        self._cohort.observe(rows, seconds, floor=self._reward.tau_min)
        if updates and learned is not None:
            self._policy.learn(self._cohort.rows(updates), learned)
        self._rounds += 1
        self._pending = None

    def join(self, sizes: Mapping[ClientId, float], clusters: Mapping[ClientId, int] | None = None) -> None:
        """Add clients between rounds, or bring back some that left; their history is remembered."""
        known = len(self._cohort)
        column = None
        if self._clusters is not None:
            column = cluster_column(clusters or {}, list(sizes))
        elif clusters is not None:
            raise InvalidValueError("clusters are given, but this selector has none; pass clusters when it is made")
        self._cohort.join(sizes)
        if self._clusters is not None and column is not None:
            grown = np.concatenate([self._clusters, np.zeros(len(self._cohort) - known, dtype=np.int64)])
            grown[self._cohort.rows(sizes)] = column
            self._clusters = grown
        self._pending = None

    def leave(self, ids: Iterable[ClientId]) -> None:
        """Take clients out between rounds."""
        self._cohort.leave(ids)
        self._pending = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to continue, atomically and durably."""
        cohort, pending = self._cohort, self._pending
        header = {
            "reward": {name: getattr(self._reward, name) for name in _WEIGHTS},
            "schedule": _described(self._reward.schedule),
            "policy": self._policy.name,
            "settings": self._policy.settings(),
            "ids": None if isinstance(cohort.ids, range) else [i if isinstance(i, str) else int(i) for i in cohort.ids],
            "fastest_seen": cohort.fastest_seen if math.isfinite(cohort.fastest_seen) else None,
            "per_round": self._per_round,
            "seed": self._seed,
            "rounds": self._rounds,
            "phi": self._phi is not None,
        }
        arrays: dict[str, Any] = {name: getattr(cohort, name) for name in _COLUMNS}
        if self._clusters is not None:
            arrays["clusters"] = self._clusters
        if pending is not None:
            arrays["pending"] = cohort.rows(pending.members)
            if pending.weights is not None:
                arrays["pending_weights"] = np.array([pending.weights[i] for i in pending.members])
        arrays |= {f"policy.{name}": value for name, value in self._policy.state().items()}
        write_state(path, _KIND, header, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: Policy | None = None,
        schedule: BudgetSchedule | None = None,
        phi: Phi | None = None,
    ) -> Self:
        """Continue from a saved state; policies, schedules and functions of your own must be passed again."""
        header, arrays = read_state(path, _KIND)
        chosen = policy or _default_policy(path, header)
        if chosen.name != header["policy"]:
            raise StateFileError(
                f"{path} was saved with policy {header['policy']!r}, not {chosen.name!r}; pass that one"
            )
        if header["phi"] != (phi is not None):
            raise StateFileError(
                f"{path} was saved with{'' if header['phi'] else 'out'} a set function phi; pass the same"
            )
        sizes = arrays["sizes"] if header["ids"] is None else dict(zip(header["ids"], arrays["sizes"], strict=True))
        self = cls(
            sizes,
            header["per_round"],
            chosen,
            **header["reward"],
            schedule=schedule or _stored_schedule(path, header),
            clusters=arrays.get("clusters"),
            phi=phi,
            seed=header["seed"],
        )
        for name in _COLUMNS:
            setattr(self._cohort, name, arrays[name])
        self._cohort.fastest_seen = math.inf if header["fastest_seen"] is None else header["fastest_seen"]
        self._rounds = header["rounds"]
        self._policy.restore({n.removeprefix("policy."): v for n, v in arrays.items() if n.startswith("policy.")})
        if "pending" in arrays:
            self._reopen(arrays["pending"], arrays.get("pending_weights"))
        return self

    def problem(self) -> Problem:
        """Return the round that is to be decided next, for whoever wants to look behind the choice."""
        return Problem(
            self._cohort, self._reward, self._per_round, self._clusters, self._phi, self._seed, self._rounds + 1
        )

    def _reopen(self, members: IntArray, weights: FloatArray | None) -> None:
        problem, everyone = self.problem(), np.arange(len(self._cohort))
        terms = problem.terms()
        solution: Solution = problem.objective(terms, everyone).solution(members, weights)
        self._pending = problem.selection(terms, everyone, solution)


def _whole(value: int, name: str, least: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    require(whole, name, value, f"a whole number from {least}", "round it")
    return int(value)


def _seconds(client: ClientId, value: Seconds | None) -> float:
    if value is None:
        return math.nan
    require(
        math.isfinite(value) and value > 0.0,
        f"latency of client {client!r}",
        value,
        "a finite number of seconds above 0",
        "report None for no answer",
    )
    return float(value)


def _stacked(updates: Mapping[ClientId, FloatArray] | None) -> FloatArray | None:
    if not updates:
        return None
    flat = [np.asarray(u, dtype=np.float64).ravel() for u in updates.values()]
    lengths = sorted({len(u) for u in flat})
    require(len(lengths) == 1, "update lengths", lengths, "the same for all members", "flatten whole models")
    stacked = np.stack(flat)
    require(bool(np.isfinite(stacked).all()), "updates", "NaN or infinite", "finite", "drop the broken update")
    return stacked


def _described(schedule: BudgetSchedule) -> dict[str, Any] | None:
    name = type(schedule).__name__
    if not is_dataclass(schedule) or SCHEDULES.get(name) is not type(schedule):
        return None
    return {"kind": name, **{field.name: getattr(schedule, field.name) for field in fields(schedule)}}


def _stored_schedule(path: str | os.PathLike[str], header: dict[str, Any]) -> BudgetSchedule:
    stored = dict(header["schedule"] or {})
    if stored.get("kind") not in SCHEDULES:
        raise StateFileError(f"{path} was saved with a schedule of your own; pass it again as schedule=…")
    return SCHEDULES[stored.pop("kind")](**stored)


def _default_policy(path: str | os.PathLike[str], header: dict[str, Any]) -> Policy:
    name = header["policy"]
    if name not in POLICIES or (default := policy_by_name(name)).settings() != header["settings"]:
        raise StateFileError(
            f"{path} was saved with settings of your own for policy {name!r}; pass it again as policy=…"
        )
    return default
