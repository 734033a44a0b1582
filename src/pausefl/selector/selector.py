"""The three-call façade for any framework: select, observe, save and load.

Reference: PAUSE, Alg. 1, with its updates of g and p, and p_k(0) = 1 as its equation gives.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError, StateFileError, require, shown
from pausefl.rewards import Reward
from pausefl.rewards.budgets import Budgets
from pausefl.selection import Policy, Solution, policy_by_name
from pausefl.selector import checks, reports
from pausefl.selector.client_schedules import Schedules, joined, plain, schedule_table, stored_schedules
from pausefl.selector.cohort import Cohort
from pausefl.selector.decision import Phi, Problem, Selection, cluster_column
from pausefl.selector.round_log import RoundLog
from pausefl.selector.saved_arguments import WEIGHTS, check_same, stored_arguments, stored_phi
from pausefl.system.state_file import arrays_under, read_state, write_state
from pausefl.types import BoolArray, BudgetSchedule, ClientId, FloatArray, IntArray, Seconds

_KIND = "selector"
_COLUMNS = ("sizes", "picks", "releases", "timings", "rate", "seconds", "last", "present")
_SELDOM = ("silences", "provisional")
"""Columns that are stored only if they say something."""


class Selector:
    """Decides who takes part, learns from the latencies, and keeps its state through restarts.

    Args:
        sizes: Examples per client, by id, or a sequence for the ids 0 … K-1.
        per_round: How many clients are chosen for a round.
        policy: The name of a policy, or a policy of your own.
        alpha: The weight of generalization, which favours data that was used little.
        beta: How sharply generalization separates little-used data from much-used data.
        gamma: The weight of privacy, which favours clients with much budget left.
        zeta: Amplifies measured speed.
        schedule: How a client spends its budget: one schedule for all clients, or a mapping that gives every client its
            own.  Equal schedules are stored once, so a few different schedules cost hardly more time than one.  Beyond
            about 1,000 different schedules, ``select`` gets slower.
        tau_min: The smallest possible latency in seconds; None takes the smallest latency seen so far.
        clusters: The cluster of each client.
        rho: What each collision within a cluster costs, times alpha.
        phi: Your own function of a set of client ids.  Its value is added to the reward.
        prior: The seconds of some clients, if you know them before the first round; see ``expect``.
        memory: For how many rounds the selector trusts a measured speed.  None means for ever, as in the paper.  With a
            number, a client that was not picked for that many rounds is tried again, and a client whose answers
            contradict its mean gets a new mean; see :mod:`~pausefl.selector.speed_changes`.  Choose at least 20·K/m
            rounds for K clients and m per round.  Then these trials take at most 5 % of the places.
        warm_up: How many of the first answers of a client are provisional.  They count until later answers arrive, and
            are then forgotten.
        seed: Decides between clients that are equally good, and all random choices.
        log: A file that gets a line of JSON for every observed round, with the reasons of the choice; see
            :class:`~pausefl.selector.round_log.RoundLog`.  It is not part of the state, so pass it again to ``load``.

    When you observe a round, the selector counts its picks and raises the estimate of what has leaked.  Members that
    did not answer count too, because they may have released something.  Before that, you may call ``select`` again.  It
    decides the round again, with the same result if the same clients are available.  Only the last result can be
    observed.

    After s rounds in a row without an answer, a client is not a candidate for the next 2^s - 1 rounds (at most 1,023).
    So a dead client costs only about log2(n) timeouts in n rounds; see
    :meth:`~pausefl.selector.cohort.Cohort.waits_until`.  If too few other clients are there for a round, the clients
    whose wait ends first are candidates too.  ``join`` ends a wait.

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
        memory: int | None = None,
        warm_up: int = 0,
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        self._cohort = Cohort(sizes)
        budgets = Budgets(schedule_table(schedule, self._cohort.ids))
        self._reward = Reward(alpha, beta, gamma, zeta, rho, budgets, tau_min)
        self._policy = checks.checked_policy(policy_by_name(policy) if isinstance(policy, str) else policy)
        if phi is not None and not callable(phi):
            raise InvalidValueError(
                f"phi is {shown(phi)}, but must be a function of a set of client ids; pass a callable, or None"
            )
        self._phi = phi
        if phi is not None and not self._policy.any_reward:
            raise InvalidValueError(
                f"phi is set, but policy {self._policy.name!r} cannot use it; pass policy='sa-pause' or 'brute'"
            )
        self._seed = _whole(seed, "seed", 0)
        self._memory = None if memory is None else _whole(memory, "memory", 1)
        self._warm_up = _whole(warm_up, "warm_up", 0)
        self._per_round = _whole(per_round, "per_round", 1)
        self._check_joined(self._per_round)
        require(rho == 0.0 or clusters is not None, "rho", rho, "0 without clusters", "pass clusters as well")
        self._clusters = None if clusters is None else cluster_column(clusters, self._cohort.ids)
        self._log = None if log is None else RoundLog(log)
        self._rounds = 0
        self._pending: tuple[Selection, IntArray] | None = None
        self._pending_per_round = self._per_round
        self._there: IntArray | None = None  # the candidates of the open round, for policies that look back at them
        self._prior = np.empty(0) if prior is None else checks.expected_seconds(prior, self._cohort)
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
        """The policy that decides."""
        return self._policy

    @property
    def cohort(self) -> Cohort:
        """What is known of each client, in columns; read it, but do not change it."""
        return self._cohort

    @property
    def reward(self) -> Reward:
        """The weights of the reward."""
        return self._reward

    def spent(self) -> FloatArray:
        """Return the server's estimate of the epsilon each client has leaked, by its schedule, in order of arrival.

        If a client has told what is left of its budget, the estimate is the rest of the budget in its schedule.  Where
        records are protected, clients pay in rho, and the estimate is the spent share of rho times the budget.  What
        they have really leaked is more than that, and at most the budget.  Their ledgers know the exact number.
        """
        return self._reward.budgets.spent(self._cohort.releases)

    def select(
        self,
        available: Iterable[ClientId] | BoolArray | None = None,
        *,
        allow_fewer: bool = False,
        per_round: int | None = None,
    ) -> Selection:
        """Choose the members of the next round among the available clients.

        Args:
            available: Who is there: ids, or a mask in order of arrival.  None is everybody.
            allow_fewer: Whether fewer candidates than ``per_round`` make a smaller round.  Otherwise they are an error.
            per_round: How many to choose in this round only, for example to ask more clients than are waited for.
        """
        problem, rows = self._round(available, allow_fewer, per_round)
        if self._log is not None:
            self._log.begin(self._rounds)
        terms = problem.terms()
        solution = checks.chosen(self._policy, problem.candidates(terms, rows))
        chosen = problem.selection(terms, rows, solution, self._policy)
        self._close_reasons()
        if self._log is not None:
            _ = chosen.reasons.left_out  # worked out now: what is told until the round is observed may change it
        self._pending, self._pending_per_round = (chosen, rows[solution.members]), problem.per_round
        self._there = rows if "forecast" in self._policy.needs or self._policy.remembers else None
        return chosen

    def asked(
        self,
        available: Iterable[ClientId] | BoolArray | None = None,
        *,
        allow_fewer: bool = False,
        per_round: int | None = None,
    ) -> tuple[ClientId, ...]:
        """Return the clients that the policy wants to hear before it picks.

        Most policies ask nobody.  Call it before ``select``, with the same arguments.

        Args:
            available: As for ``select``.
            allow_fewer: As for ``select``.
            per_round: As for ``select``.
        """
        if not self._policy.asks:
            return ()
        problem, rows = self._round(available, allow_fewer, per_round)
        positions = checks.asked(self._policy, problem.candidates(problem.terms(), rows))
        return tuple(self._cohort.ids[row] for row in rows[positions].tolist())

    def chances(
        self,
        available: Iterable[ClientId] | BoolArray | None = None,
        *,
        allow_fewer: bool = False,
        per_round: int | None = None,
    ) -> dict[ClientId, float] | None:
        """Return how likely each candidate is to be chosen by ``select``; None if the policy does not know exactly.

        Call it beside ``select``, with the same arguments and before the round is observed.  Log the chances with the
        members and their latencies.  Then you can evaluate other policies by the same rounds; see
        :mod:`pausefl.runs.off_policy`.

        Args:
            available: As for ``select``.
            allow_fewer: As for ``select``.
            per_round: As for ``select``.

        >>> Selector(sizes={"a": 1, "b": 1, "c": 1}, per_round=2, policy="random").chances(["a", "b"], per_round=1)
        {'a': 0.5, 'b': 0.5}
        """
        if not self._policy.tells_chances:
            return None
        problem, rows = self._round(available, allow_fewer, per_round)
        found = checks.chances(self._policy, problem.candidates(problem.terms(), rows))
        if found is None:
            return None
        return {self._cohort.ids[row]: chance for row, chance in zip(rows.tolist(), found.tolist(), strict=True)}

    def hear(self, signals: Mapping[str, Mapping[ClientId, float | None]]) -> None:
        """Store the signals that clients told, by name: how well the model does on their data.

        A signal is computed from data, so to tell it is a release.  The client has to noise it and to pay for it before
        it comes here.  Policies see the last one of each client.

        Args:
            signals: For each signal (``loss``, ``accuracy``) what clients told, by id.  None takes it back.

        >>> sel = Selector(sizes={"a": 1, "b": 1, "c": 1}, per_round=1)
        >>> sel.hear({"loss": {"a": 0.3, "c": 2.1}})
        >>> sel.cohort.column("loss").tolist()
        [0.3, nan, 2.1]
        """
        for name, told in reports.reported_signals(signals).items():
            self._cohort.write(name, self._cohort.rows(told[0]), told[1])

    def observe(
        self,
        latencies: Mapping[ClientId, Seconds | None],
        updates: Mapping[ClientId, FloatArray] | None = None,
        *,
        provisional: Collection[ClientId] = (),
        late: Collection[ClientId] = (),
    ) -> None:
        """Close the round with what is known of its members.  What they told of a signal goes to ``hear`` before.

        Args:
            latencies: The seconds that each member took.  None, or a member left out, is no answer.
            updates: The members' model updates, flattened.  They matter only to policies that compare them.
            provisional: Members whose latency counts only until another one is known, e.g. because their process has
                just started.
            late: Members that were not waited for, because others had answered.  Nothing is known of their speed.  One
                that is late once stays a candidate.  One that is late again waits as a silent one does.  When it
                answers after all, tell ``expect``, which ends its wait.

        >>> sel = Selector(sizes={"a": 1}, per_round=1)
        >>> for seconds, cold in [(9.0, ["a"]), (0.5, []), (9.0, ["a"])]:
        ...     sel.observe(dict.fromkeys(sel.select(), seconds), provisional=cold)
        >>> sel.cohort.seconds.tolist()
        [0.5]
        """
        if self._pending is None:
            raise OutOfOrderError("observe was called with no open round; call select first")
        chosen, rows = self._pending
        seconds = checks.observed_seconds(latencies, chosen.members)
        early = checks.among_members(provisional, chosen.members, "provisional")
        untimed = checks.among_members(late, chosen.members, "late") & np.isnan(seconds)
        learned = checks.observed_updates(updates, chosen.members) if updates else None
        if self._log is not None:
            self._log.write(chosen, seconds)
        self._close_reasons()
        if updates and learned is not None:
            row_of = dict(zip(chosen.members, rows.tolist(), strict=True))
            checks.teach(self._policy, np.array([row_of[client] for client in updates]), learned)
        if self._policy.remembers:
            problem, there = self._open_problem(), rows if self._there is None else self._there
            candidates = problem.candidates(problem.terms(), there)
            checks.tell_played(self._policy, candidates, np.searchsorted(there, rows))
        self._rounds += 1
        if self._warm_up:
            answers = self._cohort.column("answers")[rows]
            early |= answers < self._warm_up
            self._cohort.write("answers", rows, answers + ~np.isnan(seconds))
        self._cohort.observe(
            rows, seconds, floor=self._reward.tau_min, number=self._rounds, provisional=early, untimed=untimed,
            memory=self._memory,
        )  # fmt: skip
        if self._there is not None and "forecast" in self._policy.needs:
            self._cohort.write("there", self._there, self._cohort.column("there")[self._there] + 1.0)
        self._pending = None

    def expect(self, latencies: checks.Expected, *, provisional: bool = False) -> None:
        """Take over what is known of latencies without a round, e.g. from a rehearsal.

        It counts as one timing: it enters a client's mean speed like the latency of a round, and the client is no more
        one that was never tried.  It is no pick and no release.

        Args:
            latencies: Seconds by id, or one number for every client.  None, NaN, or a client left out, is not known.
            provisional: Whether they count only until the latency of a round is known.

        >>> sel = Selector(sizes={"a": 1, "b": 1, "c": 1}, per_round=1, alpha=0.0)
        >>> sel.expect({"a": 0.9, "b": 0.1, "c": 0.5})
        >>> sel.select().members
        ('b',)
        """
        known = checks.expected_seconds(latencies, self._cohort)
        self._close_reasons()
        self._cohort.expect(known, floor=self._reward.tau_min, provisional=provisional)

    def report(
        self,
        releases: Mapping[ClientId, int] | None = None,
        *,
        left: Mapping[ClientId, float | None] | None = None,
        noise: Mapping[ClientId, float | None] | None = None,
    ) -> None:
        """Store what clients say about themselves; they know best, also about earlier runs.

        Call it after ``observe``, with what the replies of that round say.  None or NaN takes back what a client said.
        A client that is left out keeps it.

        Args:
            releases: How many releases a client has made in all.
            left: The fraction of its budget that is left, from 0 to 1.  It replaces the server's guess until the client
                is observed again.  From then on the guess goes on from it in proportion: f after n releases becomes
                f·p(n')/p(n) after n', where p is what the client's schedule would leave.  0 is a client without budget,
                which is no candidate.  More than 0 is one that may release once more, whatever the limit of its
                schedule.
            noise: How loud its next release is, as the squared L2 norm of the noise
                (``Mechanism.noise_level(…).noise``).  Policies see it as ``noise_level``.  It is forgotten when the
                client is observed.

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
        self._close_reasons()
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
        latencies goes to ``expect`` afterwards.

        Args:
            sizes: Examples per client, by id.
            clusters: The cluster of each of these clients, if the selector has clusters.
            schedules: The schedules of newcomers, by id.  A newcomer that is not named gets the schedule that all
                others have; where they differ, it is refused.  The schedule of a client that is known cannot change.
        """
        known = len(self._cohort)
        if not isinstance(sizes, Mapping):
            raise InvalidValueError(f"sizes is {shown(sizes)}, but must be a mapping; for example {{'name': 120}}")
        table = joined(self._reward.budgets.table, self._cohort, sizes, {} if schedules is None else schedules)
        column = None
        if self._clusters is not None:
            column = cluster_column(clusters or {}, list(sizes))
        elif clusters is not None:
            raise InvalidValueError(
                "clusters are given, but this selector has none; pass clusters when you create the Selector"
            )
        self._close_reasons()
        self._cohort.join(sizes)
        self._reward.budgets.table = table
        if self._clusters is not None and column is not None:
            grown = np.concatenate([self._clusters, np.zeros(len(self._cohort) - known, dtype=np.int64)])
            grown[self._cohort.rows(sizes)] = column
            self._clusters = grown

    def leave(self, ids: Iterable[ClientId]) -> None:
        """Take clients out of the candidates; one that leaves in an open round can still be observed.

        Args:
            ids: Who leaves.
        """
        self._close_reasons()
        self._cohort.leave(ids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to continue, atomically and durably.

        Args:
            path: The file.
        """
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
            "slowest_seen": cohort.slowest_seen,
            "surprise": [cohort.surprise, cohort.surprises],
            "per_round": self._per_round,
            "memory": self._memory,
            "warm_up": self._warm_up,
            "seed": self._seed,
            "rounds": self._rounds,
            "phi": stored_phi(self._phi),
        }
        arrays: dict[str, Any] = {name: getattr(cohort, name) for name in _COLUMNS}
        if not np.isnan(cohort.noise).all():
            arrays["noise"] = cohort.noise
        arrays |= {name: column for name in _SELDOM if (column := getattr(cohort, name)).any()}
        arrays |= {f"extra.{name}": column for name, column in cohort.extra.items()}
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
            if self._there is not None:
                arrays["pending_there"] = self._there
            if self._pending_per_round != self._per_round:
                arrays["pending_per_round"] = np.array(self._pending_per_round)
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
        log: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Continue from a saved state; pass your own policies, schedules and functions again, unchanged.

        Args:
            path: The file.
            policy: A policy of your own; None makes the one that the state names.
            schedule: Schedules of your own; None makes those that the state names.
            phi: The function of your own, if there was one.
            log: A log that goes on where the state does: lines of later rounds are cut off, since these are played
                again.
        """
        header, arrays = read_state(path, _KIND)
        self = cls(**stored_arguments(path, header, arrays, policy, schedule, phi), log=log)
        self.restore(header, arrays)
        return self

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any], *, open_list: bool = False) -> None:
        """Continue from what ``state`` returned, in a selector made with the same arguments, or refuse.

        Only ``sizes`` may differ, since ``join`` may have changed them: the stored ones win.

        Args:
            header: The first part of what ``state`` returned.
            arrays: The second part.
            open_list: Whether the clients may be others, too: those in the state are the clients from then on, and all
                others have to join.
        """
        before = self._cohort, self._prior
        if open_list:
            self._take_clients(header["ids"], arrays["sizes"])
        try:
            check_same(self.state(), (header, arrays), self._policy)
        except StateFileError:
            self._cohort, self._prior = before  # a state that is refused changes nothing
            raise
        self._close_reasons()
        if self._log is not None:
            self._log.restored()
        self._cohort.restore(
            {
                name: np.array(arrays[name])
                for name in arrays
                if name in (*_COLUMNS, *_SELDOM, "noise") or name.startswith("extra.")
            },
            math.inf if header["fastest_seen"] is None else header["fastest_seen"],
            header.get("slowest_seen", 0.0),
            tuple(header.get("surprise", (0.0, 0))),
        )
        self._reward.budgets.restore(arrays)
        self._rounds = header["rounds"]
        with checks.blaming(self._policy, "restore"):
            self._policy.restore(arrays_under("policy", arrays))
        self._pending, self._there = None, arrays.get("pending_there")
        self._pending_per_round = int(arrays.get("pending_per_round", self._per_round))
        if "pending" in arrays:
            self._reopen(arrays["pending"], arrays.get("pending_weights"))

    def problem(self) -> Problem:
        """Return the round to be decided next, for code that wants to look behind the choice."""
        return Problem(
            self._cohort, self._reward, self._per_round, self._clusters, self._phi, self._seed, self._rounds + 1,
            self._memory,
        )  # fmt: skip

    def _round(
        self, available: Iterable[ClientId] | BoolArray | None, allow_fewer: bool, per_round: int | None
    ) -> tuple[Problem, IntArray]:
        """Return the round to decide, with as many members as are asked for, and the rows of its candidates."""
        problem, everybody = self.problem(), self._policy.size == "all"
        if per_round is not None:
            problem = replace(problem, per_round=_whole(per_round, "per_round", 1))
            if not (allow_fewer or everybody):
                self._check_joined(problem.per_round)
        if everybody:
            return problem, problem.rows(available, need=1)
        if not allow_fewer:
            return problem, problem.rows(available, problem.per_round)
        # Beyond what the selector was made for, nobody is asked who was silent and waits.
        return problem, problem.rows(available, 1, min(problem.per_round, self._per_round))

    def _take_clients(self, ids: Sequence[ClientId] | None, sizes: FloatArray) -> None:
        alike = self._reward.budgets.table.only is not None and self._clusters is None
        require(
            alike,
            "open_list",
            True,
            "False with a schedule or cluster per client",
            "pass one schedule for all clients, and no clusters",
        )
        prior = dict(zip(self._cohort.ids, self._prior.tolist(), strict=False))  # it has nothing of those that joined
        self._cohort = Cohort(sizes if ids is None else dict(zip(ids, sizes.tolist(), strict=True)))
        self._prior = np.array([prior.get(client, np.nan) for client in self._cohort.ids])

    def _check_joined(self, per_round: int) -> None:
        if per_round > len(self._cohort):
            raise NotEnoughClientsError(
                f"per_round is {per_round}, but only {len(self._cohort)} clients joined; lower per_round, or let more "
                "clients join"
            )

    def _close_reasons(self) -> None:
        """Let go of the open round, before anything is told that it was not decided on."""
        if self._pending is not None:
            self._pending[0].reasons.close()

    def _open_problem(self) -> Problem:
        """Return the round that is open, as it was decided."""
        return replace(self.problem(), per_round=self._pending_per_round)

    def _reopen(self, members: IntArray, weights: FloatArray | None) -> None:
        problem = self._open_problem()
        everyone = np.arange(len(self._cohort))
        terms = problem.terms()
        solution: Solution = problem.objective(terms, everyone).solution(members, weights)
        self._pending = problem.selection(terms, everyone, solution), members


def _whole(value: int, name: str, least: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    require(whole, name, value, f"a whole number from {least}", f"for example {name}={max(1, least)}")
    return int(value)
