"""A run is replayed from its log: in each round the logged members take part, and another policy says whom it wants.

Who was a candidate, and what was known of each, follows from the configuration and from who took part before.  So the
log need not hold it, and stays small.  What the replay gives is compared with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pausefl.errors import InvalidValueError, require
from pausefl.rng import number_keys, stream, tickets
from pausefl.runs.build import build_untrained
from pausefl.runs.config import Config, make_config
from pausefl.runs.network import build_latency
from pausefl.runs.own_code_hashes import require_same_code
from pausefl.runs.policy import build_policy, is_own
from pausefl.runs.run_data import RunData
from pausefl.selection import Candidates, Policy
from pausefl.selection.policy_contract import SIGNALS
from pausefl.selector import checks
from pausefl.sim.closing import Closing
from pausefl.types import BoolArray, ClientId, FloatArray, IntArray

_NEAR = 1e-5  # latencies are logged with six digits


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoggedRound:
    """What is known of a round, for off-policy evaluation: a number per candidate, and a number per member.

    Attributes:
        number: The number of the round.
        candidates: Who could be chosen, as whole numbers from 0.
        chances: How likely the policy that played was to choose each candidate.
        target: How likely the evaluated policy is to choose each candidate; 0 or 1 if it does not draw.
        members: Positions among the candidates of those that took part.
        seconds: Their latencies; NaN without an answer.
        arrived: Whether their answers arrived in time.
    """

    number: int
    candidates: IntArray
    chances: FloatArray
    target: FloatArray
    members: IntArray
    seconds: FloatArray
    arrived: BoolArray

    def __post_init__(self) -> None:
        count, size = len(self.candidates), len(self.members)
        for name, column, wanted in (
            ("chances", self.chances, count), ("target", self.target, count),
            ("seconds", self.seconds, size), ("arrived", self.arrived, size),
        ):  # fmt: skip
            require(
                np.shape(column) == (wanted,),
                f"{name} shape",
                np.shape(column),
                f"({wanted},)",
                "pass one value for each client",
            )
        fine = bool((self.chances[self.members] > 0.0).all())
        require(fine, "chances of a member", 0.0, "above 0", "pass the probability with which it was picked")
        fine = bool((self.target >= 0.0).all()) and float(self.target.sum()) > 0.0
        require(
            fine,
            "target",
            "negative, or 0 for all",
            "chances with a sum above 0",
            "return such chances from the policy",
        )


def replay(run: RunData, policy: str | Policy) -> list[LoggedRound]:
    """Return the rounds of a run whose chances were logged, with those of another policy in the same states.

    The other policy is given numbers of its own for draws and ties, because its choice must not depend on the draw that
    was logged.  It is told of each round as if it had played it (``Policy.played``).
    """
    config = run.settings
    if is_own(config.selection) and run.folder is not None:
        require_same_code(run.folder)
    latency = build_latency(config.network, config.run.seed)
    logged = build_policy(config, latency)
    target = deepcopy(policy) if isinstance(policy, Policy) else build_policy(with_policy(config, policy), latency)
    _require_log(run, logged)
    _require_target(config, logged, target)
    sizes = run.sizes() if config.learning.enabled else np.ones(run.clients)
    if sizes is None:
        raise InvalidValueError(f"{run.name} does not say how much data its clients have; wait until the run has ended")
    played = [record for record in run.records if record["members"]]
    watcher = _Watcher([record["members"] for record in played], [record.get("told", {}) for record in played])
    watcher.bind(logged, target, config.run.seed)
    simulation = build_untrained(config, watcher, sizes)
    watcher.hear = simulation.selector.hear
    rounds = []
    for record in run.records:
        _require_same(run, record, simulation.step())
        if not record["members"] or record.get("chances") is None:
            continue
        seen = watcher.seen
        if seen is None or not np.allclose(seen.chances[seen.members], record["chances"], rtol=_NEAR):
            raise _other(run, record["round"], "chances")
        rows = seen.candidates[seen.members]
        outcome = simulation.network.play(rows, record["round"])
        logged_round = LoggedRound(
            number=record["round"], candidates=seen.candidates, chances=seen.chances, target=seen.target,
            members=seen.members, seconds=outcome.latency, arrived=outcome.arrived,
        )  # fmt: skip
        rounds.append(logged_round)
    return rounds


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    candidates: IntArray
    chances: FloatArray
    target: FloatArray
    members: IntArray


class _Watcher(Policy):
    """Picks the logged members, and notes how likely they and all others were, by two policies."""

    name: ClassVar[str] = "replay"
    size: ClassVar[str] = "at most m"

    def __init__(
        self, members: Sequence[Sequence[int]], told: Sequence[Mapping[str, Sequence[float | None]]]
    ) -> None:  # fmt: skip
        self._members, self._told = members, told
        self.seen: _Seen | None = None
        self.hear: Callable[[Mapping[str, Mapping[ClientId, float | None]]], None] = lambda _: None

    def bind(self, logged: Policy, target: Policy, seed: int) -> None:
        """Say which policy has played, and which is judged."""
        self._logged, self._target, self._seed = logged, target, seed
        # What the budget is spent on must be as it was; signals that only the target wants are not told.
        self.needs = logged.needs | (target.needs - frozenset(SIGNALS))

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the logged members."""
        wanted = np.array(self._members[candidates.round_number - 1], dtype=np.int64)
        members = np.minimum(np.searchsorted(candidates.rows, wanted), len(candidates) - 1)
        absent = wanted[candidates.rows[members] != wanted]
        if len(absent):
            raise InvalidValueError(
                f"the run cannot be replayed (client {absent[0]} was not a candidate in round "
                f"{candidates.round_number}); play it again with this version of pausefl"
            )
        chances = checks.chances(self._logged, candidates)
        own = self._own(candidates)
        target = checks.chances(self._target, own) if self._target.tells_chances else None
        if target is None:
            target = np.zeros(len(candidates))
            target[checks.chosen(self._target, own).members] = 1.0
        self.seen = None if chances is None else _Seen(candidates.rows, chances, target, members)
        return members

    def played(self, candidates: Candidates, members: IntArray) -> None:
        """Tell both policies of the round, and before that the signals that its members told."""
        number = candidates.round_number
        for name, column in self._told[number - 1].items():
            known = zip(self._members[number - 1], column, strict=True)
            self.hear({name: {client: value for client, value in known if value is not None}})
        if self._logged.remembers:
            checks.tell_played(self._logged, candidates, members)
        if self._target.remembers:
            checks.tell_played(self._target, self._own(candidates), members)

    def _own(self, candidates: Candidates) -> Candidates:
        """Return the same round with other random numbers: those of the logged draw have decided who was timed."""
        number, keys = candidates.round_number, number_keys(0, len(candidates.all_ids))[candidates.rows]
        return replace(
            candidates,
            tickets=lambda at: tickets(self._seed, "off-policy", number, keys[at]),
            stream=lambda purpose: stream(self._seed, f"off-policy {purpose}", number),
        )


def with_policy(config: Config, policy: str) -> Config:
    """Return the configuration with another policy, without the options of the one that played."""
    content = config.model_dump()
    content["selection"] |= {"policy": policy, "options": {}, "steps": None, "kappa": None}
    return make_config(content)


def _require_log(run: RunData, logged: Policy) -> None:
    config, played = run.settings, [record for record in run.records if record["members"]]
    if not any(record.get("chances") is not None for record in played):
        raise InvalidValueError(
            f"{run.name} does not record with which probability its clients were picked; play a run with a policy "
            "that records it, for example 'random'"
        )
    if logged.asks or logged.learns:
        raise InvalidValueError(
            f"{run.name} cannot be replayed, because its policy saw more than the log holds; play a run of 'random'"
        )
    if logged.signals and config.learning.enabled:
        if any("told" not in record for record in played):
            raise InvalidValueError(
                f"{run.name} lacks the signals that its policy heard; play it again with this version of pausefl"
            )
        if replace(config.server.as_closing(), late="waste") != Closing():
            raise InvalidValueError(
                f"{run.name} closes rounds early and hears signals, but a replay can do only one of them; play "
                "another run"
            )


def _require_target(config: Config, logged: Policy, target: Policy) -> None:
    unknown = [name for name in target.signals if name not in logged.signals and config.learning.enabled]
    why = "learns from updates" if target.learns else "asks clients before it picks" if target.asks else ""
    if unknown and not why:
        why = f"needs the {unknown[0]} of clients"
    if why:
        raise InvalidValueError(f"policy {target.name!r} {why}, but the run has not logged that; pass another policy")


def _require_same(run: RunData, logged: Mapping[str, Any], replayed: Mapping[str, Any]) -> None:
    """Refuse a replay in which something else happens than what was logged."""
    number = logged["round"]
    if logged["members"] != replayed["members"]:
        raise _other(run, number, "members")
    if not np.isclose(logged["seconds"], replayed["seconds"], rtol=_NEAR):
        raise _other(run, number, "seconds")
    one, other = (np.array(record.get("latencies") or [], dtype=np.float64) for record in (logged, replayed))
    if logged.get("latencies") is not None and not np.allclose(one, other, rtol=_NEAR, equal_nan=True):
        raise _other(run, number, "latencies")


def _other(run: RunData, number: int, what: str) -> InvalidValueError:
    return InvalidValueError(
        f"{run.name} cannot be replayed (in round {number} its {what} differ from the log); play it again with this "
        "version of pausefl and the same traces"
    )
