"""The three-call façade for any framework: select, observe, save and load.

Reference: PAUSE, Alg. 1, with its updates of g and p, and p_k(0) = 1 as its equation gives.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError, require, shown
from pausefl.rewards import Reward
from pausefl.rewards.budgets import Budgets
from pausefl.selection import Policy, Solution, policy_by_name
from pausefl.selector import checks, reports
from pausefl.selector.client_schedules import Schedules, joined, plain, schedule_table, stored_schedules
from pausefl.selector.cohort import Cohort
from pausefl.selector.decision import Phi, Problem, Selection, cluster_column
from pausefl.selector.saved_arguments import WEIGHTS, check_same, stored_arguments, stored_phi
from pausefl.system.state_file import arrays_under, read_state, write_state
from pausefl.types import BoolArray, BudgetSchedule, ClientId, FloatArray, IntArray, Seconds

_KIND = "selector"
_COLUMNS = ("sizes", "picks", "releases", "timings", "rate", "present")


class Selector:
    """Decides who takes part, learns from the latencies, and keeps its state through restarts.

    ``sizes``: examples per client, by id, or a sequence for the ids 0 … K-1.  ``alpha`` weighs generalization (``beta``
    its sharpness), ``gamma`` the privacy left under ``schedule``; ``zeta`` amplifies measured speed; ``tau_min`` is the
    smallest possible latency (None: the smallest seen).  ``clusters`` names each client's cluster, and each collision
    within one costs alpha·``rho``; ``phi`` is a function of your own, of a set of ids, added to the reward.  ``prior``:
    seconds that are known of some clients before the first round, see ``expect``.

    ``schedule`` is one for all clients, or a mapping that gives every client its own.  Equal ones are stored once: a
    few different ones cost hardly more time than one.  Beyond about 1,000 different ones ``select`` gets slower.

    Picks are counted, and the estimate of what has leaked grows, when a round is observed; members that did not answer
    count too, since they may have released.  ``select`` may be asked again before: the round is decided once more, and
    equally if the same clients are available; only the last answer can be observed.

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
        schedule: Schedules | None = None,
        tau_min: Seconds | None = None,
        clusters: Mapping[ClientId, int] | Sequence[int] | IntArray | None = None,
        rho: float = 0.0,
        phi: Phi | None = None,
        prior: checks.Expected | None = None,
        seed: int = 0,
    ) -> None:
        self._cohort = Cohort(sizes)
        budgets = Budgets(schedule_table(schedule, self._cohort.ids))
        self._reward = Reward(alpha, beta, gamma, zeta, rho, budgets, tau_min)
        self._policy = checks.checked_policy(policy_by_name(policy) if isinstance(policy, str) else policy)
        if phi is not None and not callable(phi):
            raise InvalidValueError(f"phi is {shown(phi)}, but must be a function of a set of client ids; pass one")
        self._phi = phi
        if phi is not None and not self._policy.any_reward:
            raise InvalidValueError(
                f"phi is set, but policy {self._policy.name!r} cannot honour it; use 'sa-pause' or 'brute'"
            )
        self._seed = _whole(seed, "seed", 0)
        self._per_round = _whole(per_round, "per_round", 1)
        if self._per_round > len(self._cohort):
            raise NotEnoughClientsError(
                f"per_round is {per_round}, but only {len(self._cohort)} clients joined; pick fewer or let more join"
            )
        require(rho == 0.0 or clusters is not None, "rho", rho, "0 without clusters", "pass clusters as well")
        self._clusters = None if clusters is None else cluster_column(clusters, self._cohort.ids)
        self._rounds = 0
        self._pending: tuple[Selection, IntArray] | None = None
        self._prior = checks.expected_seconds({} if prior is None else prior, self._cohort)
        self._cohort.expect(self._prior, floor=tau_min)

    def __repr__(self) -> str:
        who = f"{len(self._cohort)} clients, {self._per_round} per round"
        return f"<Selector: {who}, {self._policy.name}, {self._rounds} rounds>"

    @property
    def pending(self) -> Selection | None:
        """The round that was selected and not yet observed."""
        return None if self._pending is None else self._pending[0]

    @property
    def rounds(self) -> int:
        """How many rounds have been observed."""
        return self._rounds

    @property
    def per_round(self) -> int:
        """How many clients a round has."""
        return self._per_round

    @property
    def policy(self) -> Policy:
        """Who decides."""
        return self._policy

    @property
    def cohort(self) -> Cohort:
        """What is known of each client, in columns; to be read only."""
        return self._cohort

    @property
    def reward(self) -> Reward:
        """The weights of the reward."""
        return self._reward

    def spent(self) -> FloatArray:
        """Return the server's estimate of the epsilon each client has leaked, by its schedule, in order of arrival.

        Of a client that has told what is left of its budget, it is the rest of the budget in its schedule.  Where
        clients pay in rho, as they do where records are protected, it is the spent share of rho times the budget.  What
        they have leaked is more than that, and at most the budget; their ledgers tell it.
        """
        return self._reward.budgets.spent(self._cohort.releases)

    def select(
        self, available: Iterable[ClientId] | BoolArray | None = None, *, allow_fewer: bool = False
    ) -> Selection:
        """Choose the members of the next round among the available clients (ids, or a mask in order of arrival).

        Fewer of them than ``per_round`` is an error, or with ``allow_fewer`` a smaller round.
        """
        problem = self.problem()
        rows = problem.rows(available, need=1 if allow_fewer or self._policy.size == "all" else self._per_round)
        terms = problem.terms()
        solution = checks.ask(self._policy, problem.candidates(terms, rows))
        chosen = problem.selection(terms, rows, solution)
        self._pending = chosen, rows[solution.members]
        return chosen

    def observe(
        self, latencies: Mapping[ClientId, Seconds | None], updates: Mapping[ClientId, FloatArray] | None = None
    ) -> None:
        """Close the round: seconds per member; None, or a member left out, is no answer.

        ``updates`` (the members' model updates, flattened) matter only to policies that compare them.
        """
        if self._pending is None:
            raise OutOfOrderError("observe was called with no open round; call select first")
        chosen, rows = self._pending
        seconds = checks.observed_seconds(latencies, chosen.members)
        if updates:
            learned = checks.observed_updates(updates, chosen.members)
            row_of = dict(zip(chosen.members, rows.tolist(), strict=True))
            checks.teach(self._policy, np.array([row_of[client] for client in updates]), learned)
        self._cohort.observe(rows, seconds, floor=self._reward.tau_min)
        self._rounds += 1
        self._pending = None

    def expect(self, latencies: checks.Expected) -> None:
        """Take over what is known of latencies without a round, e.g. from a rehearsal: by id, or one for every client.

        It counts as one timing: it enters a client's mean speed like the latency of a round, and the client is no more
        one that was never tried.  It is no pick and no release.  None, NaN, or a client left out, is not known.

        >>> sel = Selector(sizes={"a": 1, "b": 1, "c": 1}, per_round=1, alpha=0.0)
        >>> sel.expect({"a": 0.9, "b": 0.1, "c": 0.5})
        >>> sel.select().members
        ('b',)
        """
        self._cohort.expect(checks.expected_seconds(latencies, self._cohort), floor=self._reward.tau_min)

    def report(
        self,
        releases: Mapping[ClientId, int] | None = None,
        *,
        left: Mapping[ClientId, float | None] | None = None,
        noise: Mapping[ClientId, float | None] | None = None,
    ) -> None:
        """Take over what clients say of themselves: they know best, also of earlier runs.

        ``releases``: how many releases a client has made in all.  ``left``: the fraction of its budget that is left,
        from 0 to 1.  It replaces the server's guess until the client is observed again.  From then on the guess goes
        on from it in proportion: f after n releases becomes f·p(n')/p(n) after n', where p is what the client's
        schedule would leave.  0 is a client without budget, which is no candidate.  More than 0 is one that may
        release once more, whatever the limit of its schedule.  ``noise``: how loud its next release is, as the squared
        L2 norm of the noise (``Mechanism.noise_level(…).noise``).  Policies see it as ``noise_level``; it is forgotten
        when the client is observed.  None or NaN takes back what a client said; one that is left out keeps it.

        Call it after ``observe``, with what the replies of that round say.

        >>> sel = Selector(sizes={"a": 1, "b": 1, "c": 1}, per_round=1, alpha=0.0)
        >>> sel.report({"a": 9}, left={"b": 0.75, "c": 0.0})
        >>> sel.select().members
        ('b',)
        >>> sel.problem().terms().privacy.round(2).tolist()
        [0.7, 0.75, 0.0]
        """
        counted, counts = reports.reported_releases(releases)
        tellers, fractions = reports.reported_left(left)
        loud, levels = reports.reported_noise(noise)
        rows, told, noisy = (self._cohort.rows(clients) for clients in (counted, tellers, loud))
        budgets = self._reward.budgets
        self._cohort.releases[rows] = counts
        budgets.recount(rows, self._cohort.releases)
        if len(told):
            budgets.tell(told, fractions, releases=self._cohort.releases)
        self._cohort.noise[noisy] = levels

    def join(
        self,
        sizes: Mapping[ClientId, float],
        clusters: Mapping[ClientId, int] | None = None,
        schedules: Mapping[ClientId, BudgetSchedule] | None = None,
    ) -> None:
        """Add clients, bring back some that left (their history is remembered), or update data sizes.

        They are candidates from the next ``select`` on; a round that is open stays open.  What is known of their
        latencies goes to ``expect`` afterwards.  A newcomer that ``schedules`` does not name gets the schedule that all
        others have; where they differ, it is refused.  The schedule of a client that is known cannot change.
        """
        known = len(self._cohort)
        if not isinstance(sizes, Mapping):
            raise InvalidValueError(f"sizes is {shown(sizes)}, but must be a mapping; pass e.g. {{'name': 120}}")
        table = joined(self._reward.budgets.table, self._cohort, sizes, {} if schedules is None else schedules)
        column = None
        if self._clusters is not None:
            column = cluster_column(clusters or {}, list(sizes))
        elif clusters is not None:
            raise InvalidValueError("clusters are given, but this selector has none; pass clusters when it is made")
        self._cohort.join(sizes)
        self._reward.budgets.table = table
        if self._clusters is not None and column is not None:
            grown = np.concatenate([self._clusters, np.zeros(len(self._cohort) - known, dtype=np.int64)])
            grown[self._cohort.rows(sizes)] = column
            self._clusters = grown

    def leave(self, ids: Iterable[ClientId]) -> None:
        """Take clients out of the candidates; one that leaves in an open round can still be observed."""
        self._cohort.leave(ids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to continue, atomically and durably."""
        write_state(path, _KIND, *self.state())

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything needed to continue: a header ready for JSON, and arrays."""
        cohort = self._cohort
        header = {
            "reward": {name: plain(getattr(self._reward, name)) for name in WEIGHTS},
            **stored_schedules(self._reward.budgets.table),
            "policy": self._policy.name,
            "class": type(self._policy).__qualname__,
            "settings": checks.settings_of(self._policy),
            "ids": None if isinstance(cohort.ids, range) else [i if isinstance(i, str) else int(i) for i in cohort.ids],
            "fastest_seen": cohort.fastest_seen if math.isfinite(cohort.fastest_seen) else None,
            "per_round": self._per_round,
            "seed": self._seed,
            "rounds": self._rounds,
            "phi": stored_phi(self._phi),
        }
        arrays: dict[str, Any] = {name: getattr(cohort, name) for name in _COLUMNS}
        if not np.isnan(cohort.noise).all():
            arrays["noise"] = cohort.noise
        arrays |= self._reward.budgets.state()
        if self._reward.budgets.table.column is not None:
            arrays["schedule_of"] = self._reward.budgets.table.column
        if self._clusters is not None:
            arrays["clusters"] = self._clusters
        if not np.isnan(self._prior).all():
            later = np.full(len(cohort) - len(self._prior), np.nan)  # clients that joined
            arrays["prior"] = np.concatenate([self._prior, later])
        if self._pending is not None:
            chosen, arrays["pending"] = self._pending
            if chosen.weights is not None:
                arrays["pending_weights"] = np.array([chosen.weights[i] for i in chosen.members])
        arrays |= {f"policy.{name}": value for name, value in checks.state_of(self._policy).items()}
        return header, arrays

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: str | Policy | None = None,
        schedule: Schedules | None = None,
        phi: Phi | None = None,
    ) -> Self:
        """Continue from a saved state; policies, schedules and functions of your own must be passed again, the same."""
        header, arrays = read_state(path, _KIND)
        self = cls(**stored_arguments(path, header, arrays, policy, schedule, phi))
        self.restore(header, arrays)
        return self

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Continue from what ``state`` returned, in a selector made with the same arguments; others are refused.

        Only ``sizes`` may differ, since ``join`` may have changed them: the stored ones win.
        """
        check_same(self.state(), (header, arrays), self._policy)
        self._cohort.restore(
            {name: np.array(arrays[name]) for name in (*_COLUMNS, "noise") if name in arrays},
            math.inf if header["fastest_seen"] is None else header["fastest_seen"],
        )
        self._reward.budgets.restore(arrays)
        self._rounds = header["rounds"]
        with checks.blaming(self._policy, "restore"):
            self._policy.restore(arrays_under("policy", arrays))
        self._pending = None
        if "pending" in arrays:
            self._reopen(arrays["pending"], arrays.get("pending_weights"))

    def problem(self) -> Problem:
        """Return the round that is to be decided next, for whoever wants to look behind the choice."""
        return Problem(
            self._cohort, self._reward, self._per_round, self._clusters, self._phi, self._seed, self._rounds + 1
        )

    def _reopen(self, members: IntArray, weights: FloatArray | None) -> None:
        problem, everyone = self.problem(), np.arange(len(self._cohort))
        terms = problem.terms()
        solution: Solution = problem.objective(terms, everyone).solution(members, weights)
        self._pending = problem.selection(terms, everyone, solution), members


def _whole(value: int, name: str, least: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    require(whole, name, value, f"a whole number from {least}", f"pass e.g. {name}={max(1, least)}")
    return int(value)
