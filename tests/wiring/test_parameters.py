"""Every parameter of the library's doors is alive: one row each, with values that must matter and the law, if known.

The parts themselves are tested elsewhere; here each is called through its door, and what comes out must follow.
"""

from __future__ import annotations

import inspect
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pausefl
import pausefl.privacy
import pausefl.rewards
import pausefl.selection
from pausefl import Selector
from pausefl.errors import LedgerError, PauseError
from pausefl.privacy import (
    FixedHorizon,
    Gaussian,
    Geometric,
    Laplace,
    Layers,
    PowerLaw,
    PrivUnit,
    SecureNoise,
    SimulatedNoise,
    SqliteLedger,
    suggest,
)
from pausefl.privacy.audit import audit
from pausefl.privacy.ledger.hash_chain import Head
from pausefl.rewards import LabelDiversity
from pausefl.rng import stream
from pausefl.runs import read_runs
from pausefl.runs.config import make_config
from pausefl.runs.off_policy import off_policy
from pausefl.runs.play import run
from pausefl.selection import (
    ActiveFL,
    All,
    Annealer,
    ClusteredBySimilarity,
    CPowD,
    CsUcb,
    CsUcbQ,
    Fastest,
    FedCS,
    Oort,
    PauseAuto,
    PowD,
    Random,
    RbcsF,
    RPowD,
    SaPause,
    SaPauseAsPublished,
    TiFL,
    anneal,
    solve_brute,
    solve_exact,
)
from pausefl.sim.availability import AvailabilityTrace, Bernoulli, Diurnal, OnOff
from pausefl.sim.devices import device_latency, device_speeds
from pausefl.sim.disturbances import Drift, Jams, LateJoiners
from pausefl.sim.latency import FlooredLognormal, FlooredNormal, Quantile, Trace, two_groups
from pausefl.sim.network import Network


def planned(name: str, value: Any) -> Any:
    return suggest(**{"clients": 30, "per_round": 5, "dimension": 650, "budget": 4.0} | {name: value})


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


SECONDS = {client: 0.1 + 0.1 * number for number, client in enumerate("abcdef")}
UCB, SCORE = rng(1).random(12), rng(2).random(12)
GROUPS = np.arange(12) % 3
UPDATE = np.linspace(-3.0, 3.0, 7)


def selector(**given: Any) -> Selector:
    return Selector(**{"sizes": dict.fromkeys("abcdef", 10.0), "per_round": 2, "tau_min": 0.05, **given})


def played(rounds: int = 8, **given: Any) -> list[Any]:
    """Who is chosen, and why."""
    sel, seen = selector(**given), []
    for _ in range(rounds):
        chosen = sel.select()
        seen.append((chosen.members, {**chosen.terms, "round": chosen.round}))
        sel.observe({client: SECONDS[client] for client in chosen})
    return seen


def members(seen: list[Any]) -> list[Any]:
    return [chosen for chosen, _ in seen]


def after(rounds: int = 3, **given: Any) -> Selector:
    sel = selector(**given)
    for _ in range(rounds):
        sel.observe({client: SECONDS[client] for client in sel.select()})
    return sel


def judged(folder: Path, policy: str = "fastest", seed: int = 0, **given: Any) -> Any:
    """What a policy would be worth in a short run of ``random``."""
    sections = {"learning": {"enabled": False}, "network": {"clients": 6}, "run": {"rounds": 12, "seed": seed}}
    config = make_config({**sections, "selection": {"policy": "random", "per_round": 2}})
    return off_policy(run(config, folder), policy, **given)


def logged(folder: Path, rounds: int) -> Path:
    """The folder of a run that has so many rounds."""
    sections = {"learning": {"enabled": False}, "network": {"clients": 6}, "run": {"rounds": rounds}}
    run(make_config({**sections, "selection": {"per_round": 2}}), folder)
    return folder


def reopened(before: Any = "pause", was: Any = None, **given: Any) -> Any:
    """Save, load, and say who comes next, or the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        after(policy=before, phi=was).save(path)
        try:
            return Selector.load(path, **given).select().members
        except PauseError as error:
            return str(error)


class Learner(All):
    """Everybody, and what was told of them."""

    name = "learner"

    def __init__(self) -> None:
        self.told: dict[int, Any] = {}

    def learn(self, rows: Any, updates: Any) -> None:
        self.told |= dict(zip(rows.tolist(), updates.tolist(), strict=True))


def observed(latencies: dict[str, Any], updates: Any = None, late: Any = ()) -> Selector:
    """Close a round of everybody."""
    sel = selector(policy=Learner())
    sel.select()
    sel.observe(latencies, updates, late=late)
    return sel


def after_seconds(told: list[float], *, provisional: Any = (), expected: bool | None = None, **given: Any) -> float:
    """The mean latency of one client after it answered so; the first answer may be provisional, or 8 s expected."""
    sel = selector(sizes={"a": 1.0}, per_round=1, **given)
    if expected is not None:
        sel.expect({"a": 8.0}, provisional=expected)
    for number, seconds in enumerate(told):
        sel.select()
        sel.observe({"a": seconds}, provisional=() if number else provisional)
    return float(sel.cohort.seconds[0])


def expected(latencies: Any) -> list[Any]:
    """Who was timed, how long the first one takes, and how many picks and releases there were."""
    sel = selector(tau_min=None)
    sel.expect(latencies)
    known = sel.cohort
    timed = np.flatnonzero(known.timings).tolist()
    took = 1.0 / known.rate[0] if timed else None
    return [timed, took, int(known.picks.sum()), int(known.releases.sum())]


def reported(releases: dict[str, int]) -> tuple[int, float]:
    sel = selector(gamma=1.0)
    sel.report(releases)
    return int(sel.cohort.releases[0]), sel.spent()[0]


def told(**words: Any) -> tuple[list[float], list[float], set[Any]]:
    """What each client has left, how loud it will be, and who is a candidate, after its own word."""
    sel = selector(policy="all")
    sel.report(**words)
    return sel.problem().terms().privacy.tolist(), sel.cohort.noise.tolist(), set(sel.select().members)


def newcomers(schedules: dict[str, Any]) -> list[float]:
    """What newcomers have left after a release, by their schedules."""
    sel = selector(schedule=Geometric(40.0, 0.04))
    sel.join({"g": 1.0, "h": 1.0}, schedules=schedules)
    sel.report(dict.fromkeys("agh", 1))
    return sel.problem().terms().privacy[[0, 6, 7]].tolist()


def joined(sizes: dict[str, float], clusters: dict[str, int] | None) -> Any:
    """Everybody and their sizes; and of those that are new, who is in another cluster than everybody before."""
    sel = selector() if clusters is None else selector(clusters=dict.fromkeys("abcdef", 0), rho=0.5)
    sel.join(sizes, clusters)
    apart = [sel.select(["a", new]).terms.get("clusters", 0.0) == 0.0 for new in sizes]
    return list(sel.cohort.ids), sel.cohort.sizes.tolist(), apart


def left(ids: list[str]) -> tuple[Any, ...]:
    sel = selector(policy="all")
    sel.leave(ids)
    return sel.select().members


def saved(folder: Path, name: str) -> list[str]:
    after().save(folder / name)
    return [path.name for path in folder.iterdir()]


def loaded(folder: Path, rounds: int) -> int:
    for number in (2, 5):
        after(number).save(folder / str(number))
    return Selector.load(folder / str(rounds)).rounds


def log_files(folder: Path, name: str | None, loaded: bool = False) -> dict[str, int]:
    """The files of a folder after three rounds, and how many lines each has."""
    log = None if name is None else folder / name
    sel = selector() if loaded else selector(log=log)
    if loaded:
        with tempfile.NamedTemporaryFile() as state:
            sel.save(state.name)
            sel = Selector.load(state.name, log=log)
    for _ in range(3):
        sel.observe({client: SECONDS[client] for client in sel.select()})
    return {path.name: len(path.read_text().splitlines()) for path in folder.iterdir()}


def restored(header: int, arrays: int) -> tuple[int, list[int]]:
    sel = selector()
    sel.restore(after(header).state()[0], after(arrays).state()[1])
    return sel.rounds, sel.cohort.picks.tolist()


def reordered(open_list: bool) -> str:
    """The clients of a selector after a state of others, or nobody if it is refused."""
    before, sel = Selector(dict.fromkeys("bcga", 1.0), 2), Selector(dict.fromkeys("abcx", 1.0), 2)
    try:
        sel.restore(*before.state(), open_list=open_list)
    except PauseError:
        return ""
    return "".join(map(str, sel.cohort.ids))


def similar(metric: Any) -> list[Any]:
    sel, seen = selector(policy=ClusteredBySimilarity(metric), per_round=3), []
    draw = rng(0)
    updates = dict(zip("abcdef", draw.normal(size=(6, 8)) * draw.exponential(size=(6, 8)) ** 3, strict=True))
    for _ in range(40):
        chosen = sel.select().members
        seen.append(chosen)
        sel.observe(dict.fromkeys(chosen, 0.1), {client: updates[client] for client in chosen})
    return seen


def peer(policy: Any, rounds: int = 60, per_round: int = 3, known: bool = False) -> list[Any]:
    """Whom a policy of another paper chooses among 12 clients that say how well the model serves them."""
    seconds = {client: 0.1 + 0.1 * client for client in range(12)}
    prior = seconds if known else None
    sel, seen = Selector(np.arange(1.0, 13.0), per_round, policy, tau_min=0.05, prior=prior), []
    for number in range(rounds):
        loss = {client: 2.0 + np.sin(client * (number + 1)) for client in range(12)}
        told = {"loss": loss, "accuracy": {client: 1.0 / (1.0 + value) for client, value in loss.items()}}
        asked = sel.asked()
        sel.hear({name: {client: told[name][client] for client in asked} for name in sel.policy.signals})
        chosen = sel.select().members
        sel.hear({name: {client: told[name][client] for client in chosen} for name in sel.policy.signals})
        sel.observe({client: seconds[client] for client in chosen})
        seen.append((len(asked), chosen))
    return seen


def owed(policy: Any) -> list[float]:
    """What each of three clients is owed after a round of the first."""
    sel = Selector([1.0, 1.0, 2.0], 1, policy)
    sel.observe(dict.fromkeys(sel.select([0]).members, 0.1))
    return [float(value) for value in policy.state()["queues"]]


def looks(seconds: float, tick: float = 1.0) -> int:
    """How often an annealer looks at a clock that moves by ``tick`` at every look."""
    times = iter(np.arange(0.0, 1e4, tick))
    count: list[float] = []

    def clock() -> float:
        count.append(float(next(times)))
        return count[-1]

    annealed(steps=None, seconds=seconds, clock=clock)
    return len(count)


def found(solve: Callable[..., Any], **given: Any) -> tuple[list[int], float]:
    solution = solve(**{"ucb": UCB, "score": SCORE, "m": 3, **given})
    return solution.members.tolist(), solution.value


def annealed(**given: Any) -> Any:
    return found(anneal, **{"rng": rng(3), "steps": 25, "restarts": False, **given})


def settled(annealer: Annealer) -> Any:
    """What a policy with this annealer chooses, round after round."""
    return members(played(30, policy=SaPause(annealer), alpha=1.0))


def noised(mechanism: Any, *, update: Any = UPDATE, epsilon: float = 2.0, noise: Any = None, **given: Any) -> Any:
    source = SimulatedNoise(rng(5)) if noise is None else noise
    return np.asarray(mechanism.release(update, epsilon, source, **given).update).tolist()


def opened(door: Callable[..., SqliteLedger], path: Path, **given: Any) -> SqliteLedger:
    """A ledger that is made first, with the defaults, if the door opens only."""
    if door is SqliteLedger:
        SqliteLedger.create(path)
    return door(path, **given)


def names_after(door: Callable[..., SqliteLedger], name: str) -> Any:
    return in_folder(lambda folder: [opened(door, folder / name).path.name, *(p.name for p in folder.iterdir())])


def time_of(door: Callable[..., SqliteLedger], now: float) -> Any:
    return in_folder(lambda folder: charged(folder, door=door, clock=lambda: now).time)


def charged(
    folder: Path, *, door: Any = SqliteLedger.create, releases: int = 1, clock: Any = lambda: 5.0, **given: Any
) -> Any:
    ledger = opened(door, folder / "ledger.db", clock=clock)
    said = {"subject": "a", "release": "r", "schedule": Geometric(8.0, 0.1), **given}
    for number in range(releases):
        charge = ledger.reserve(**{**said, "release": f"{said['release']}/{number}"})
    return charge


def in_folder(use: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return use(Path(folder))
        except PauseError as error:
            return str(error)


def stages(folder: Path) -> tuple[list[SqliteLedger], list[Head]]:
    """Copies of one ledger with no row, one and two, and their heads."""
    ledger = SqliteLedger.create(folder / "ledger.db")
    copies = []
    for number in range(3):
        shutil.copy(ledger.path, folder / f"{number}.db")
        copies.append(SqliteLedger(folder / f"{number}.db"))
        ledger.reserve("a", f"run/{number}", Geometric(8.0, 0.1))
    return copies, [copy.head for copy in copies]


def contained(folder: Path, rows: int) -> list[bool]:
    copies, heads = stages(folder)
    return [copy.contains(heads[rows]) for copy in copies]


def verified(folder: Path, rows: int) -> list[bool]:
    """Which of the copies pass when told the head of one."""

    def passes(copy: SqliteLedger, head: str) -> bool:
        try:
            return bool(copy.verify(head))
        except LedgerError:
            return False

    copies, heads = stages(folder)
    return [passes(copy, heads[rows].hash) for copy in copies]


def backed_up(folder: Path, name: str) -> list[str]:
    SqliteLedger.create(folder / "ledger.db").backup(folder / name)
    return sorted(path.name for path in folder.iterdir())


def brought_back(key: str, name: str) -> Any:
    """The file that was named, and who is in the restored ledger."""

    def use(folder: Path) -> list[str]:
        given = {"backup": "backup.db", "target": "target.db", key: name}
        charged(folder, subject="one")
        SqliteLedger(folder / "ledger.db").backup(folder / given["backup"])
        ledger = SqliteLedger.restore(folder / given["backup"], folder / given["target"])
        return [*(path.name for path in folder.glob(name)), ledger.path.name, *ledger.subjects()]

    return in_folder(use)


def locked_for(door: Callable[..., SqliteLedger], timeout: float) -> str:
    """A ledger that another has locked for two looks; with time enough it is waited for."""

    def use(folder: Path) -> str:
        ledger = opened(door, folder / "ledger.db", timeout=timeout)
        other = sqlite3.connect(folder / "ledger.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        if timeout > 1.0:
            import threading

            threading.Timer(0.3, other.rollback).start()
        try:
            return ledger.reserve("a", "r", Geometric(8.0, 0.1)).release
        finally:
            if timeout <= 1.0:
                other.rollback()
            other.close()

    return str(in_folder(use))


def drawn(model: Any, seed: int = 0) -> list[float]:
    return [float(value) for value in model.sample(stream(seed, "latency", 1))]


def online(model: Any) -> list[bool]:
    before, seen = np.ones(8, dtype=np.bool_), []
    for number in range(6):
        before = model.step(before, stream(0, "availability", number), number)
        seen += before.tolist()
    return seen


def round_of(**given: Any) -> Any:
    network = Network(**{"latency": two_groups(8), "seed": 0, **given})
    outcomes = [network.play(np.arange(8), number) for number in range(1, 5)]
    return [(o.seconds, o.arrived.tolist()) for o in outcomes], network.online(np.ones(8, dtype=np.bool_), 1).tolist()


def slowed(drift: Drift) -> list[list[float]]:
    return [drift.slowdown(8, 0, number).tolist() for number in range(1, 6)]


def jammed(jams: Jams) -> list[list[float]]:
    return [jams.slowdown(np.arange(8) // 2, 0, number).tolist() for number in range(1, 6)]


def day(**given: Any) -> list[list[float]]:
    model = Diurnal(**{"probability": 0.5, "swing": 0.2, "period": 8, "zones": np.arange(8) / 8, **given})
    return [model.chance(number).tolist() for number in range(16)]


def phones(**given: Any) -> FlooredLognormal:
    basis = {"clients": 8, "median": 0.5, "spread": 0.5, "floor": 0.05, "rng": stream(0, "devices")}
    return device_latency(**{**basis, **given})


@dataclass(frozen=True)
class Parameter:
    """What is seen must differ between any two values; ``law`` is told each value and what is seen with it."""

    door: Any
    name: str
    values: tuple[Any, ...]
    seen: Callable[[Any], Any]
    law: Callable[[Any, Any], bool] = lambda value, seen: True


laplace = Laplace(unit="coordinate", width=1.0)
schedules = {Geometric: (40.0, 0.04), PowerLaw: (40.0, 2.0), FixedHorizon: (40.0, 8)}
first = ("a", "b")
phis = (None, lambda members: float("f" in members) * 50, lambda members: float("e" in members) * 50)

PARAMETERS = (
    Parameter(Selector, "sizes", (dict.fromkeys("abcdef", 1.0), {**dict.fromkeys("abcdef", 1.0), "f": 50.0}),
              lambda v: played(sizes=v), lambda v, seen: v["f"] == 1.0 or sum("f" in m for m in members(seen)) > 4),
    Parameter(Selector, "per_round", (1, 2, 3), lambda v: played(per_round=v),
              lambda v, seen: [(len(m), why["round"]) for m, why in seen] == [(v, n) for n in range(1, 9)]),
    Parameter(Selector, "policy", ("pause", Random(), Fastest(SECONDS)), lambda v: played(policy=v),
              lambda v, seen: not isinstance(v, Fastest) or set(members(seen)) == {first}),
    Parameter(Selector, "alpha", (0.0, 7.0, 70.0), lambda v: played(alpha=v),
              lambda v, seen: seen[0][1]["generalization"] == pytest.approx(v * (2 / 6) ** 2)),
    Parameter(Selector, "beta", (1.5, 3.0), lambda v: played(beta=v),
              lambda v, seen: seen[0][1]["generalization"] == pytest.approx(100 * (2 / 6) ** v)),
    Parameter(Selector, "gamma", (0.0, 9.0), lambda v: played(gamma=v),
              lambda v, seen: seen[0][1]["privacy"] == pytest.approx(v)),
    Parameter(Selector, "zeta", (1.0, 4.0), lambda v: played(2, zeta=v, per_round=6),
              lambda v, seen: seen[1][1]["speed"] == pytest.approx(v * 0.05 / 0.6)),
    Parameter(Selector, "schedule", tuple(kind(*given) for kind, given in schedules.items()),
              lambda v: played(schedule=v, per_round=6),
              lambda v, seen: seen[3][1]["privacy"] == pytest.approx(5.0 * (1 - v.spent(3) / 40.0))),
    Parameter(Selector, "schedule", tuple({c: FixedHorizon(8.0, 2 if c in few else 4) for c in "abcdef"}
                                          for few in ("", "ab", "abc")),
              lambda v: [len(m) for m in members(played(4, schedule=v, policy="all"))],
              lambda v, seen: seen[2:] == [sum(one.releases == 4 for one in v.values())] * 2),
    Parameter(Selector, "tau_min", (0.05, 0.02, None), lambda v: played(2, tau_min=v, per_round=6),
              lambda v, seen: seen[1][1]["speed"] == pytest.approx((0.1 if v is None else v) / 0.6)),
    Parameter(Selector, "clusters", tuple({c: n % k for n, c in enumerate("abcdef")} for k in (2, 3)),
              lambda v: played(clusters=v, rho=1.0),
              lambda v, seen: all(v[m[0]] != v[m[1]] for m in members(seen))),
    Parameter(Selector, "rho", (0.0, 0.5), lambda v: played(6, clusters=[0, 0, 0, 0, 0, 0], rho=v),
              lambda v, seen: seen[0][1]["clusters"] == pytest.approx(-100.0 * v)),
    Parameter(Selector, "phi", phis, lambda v: played(policy="brute", phi=v),
              lambda v, seen: v is None or seen[-1][1]["phi"] == v(seen[-1][0])),
    Parameter(Selector, "prior", (None, SECONDS, {c: 1 / s for c, s in SECONDS.items()}),
              lambda v: members(played(3, prior=v, zeta=1e6)),
              lambda v, seen: v is None or set(seen) == {tuple(sorted(sorted(v, key=v.__getitem__)[:2]))}),
    Parameter(Selector, "memory", (None, 3, 6), lambda v: members(played(30, memory=v, alpha=0.0, zeta=50.0)),
              lambda v, seen: v is None or max(np.diff([n for n, m in enumerate(seen) if "f" in m])) <= v + 4),
    Parameter(Selector, "warm_up", (0, 1, 2), lambda v: after_seconds([8.0, 4.0, 2.0], warm_up=v),
              lambda v, seen: seen == pytest.approx(np.mean([8.0, 4.0, 2.0][v:]))),
    Parameter(Selector, "seed", (0, 1, 2), lambda v: members(played(seed=v, policy="random"))),
    Parameter(Selector, "log", (None, "one", "two"), lambda v: in_folder(lambda f: log_files(f, v)),
              lambda v, seen: seen == ({} if v is None else {v: 3})),
    Parameter(Selector.select, "available", (["a", "b", "c"], ["d", "e", "f"]),
              lambda v: selector().select(v).members, lambda v, seen: set(seen) <= set(v)),
    Parameter(Selector.select, "allow_fewer", (False, True),
              lambda v: in_folder(lambda _: selector().select(["a"], allow_fewer=v).members),
              lambda v, seen: (seen == ("a",)) is v),
    Parameter(Selector.select, "per_round", (None, 1, 5), lambda v: len(selector().select(per_round=v)),
              lambda v, seen: seen == (v or 2)),
    Parameter(Selector.chances, "available", (["a", "b", "c"], ["d", "e", "f"]),
              lambda v: selector(policy="random").chances(v), lambda v, seen: seen == dict.fromkeys(v, 2 / 3)),
    Parameter(Selector.chances, "allow_fewer", (False, True),
              lambda v: in_folder(lambda _: selector(policy="random").chances(["a"], allow_fewer=v)),
              lambda v, seen: (seen == {"a": 1.0}) is v),
    Parameter(Selector.chances, "per_round", (None, 1, 5), lambda v: selector(policy="random").chances(per_round=v),
              lambda v, seen: seen == dict.fromkeys("abcdef", (v or 2) / 6)),
    Parameter(off_policy, "run", (0, 1), lambda v: in_folder(lambda f: judged(f, seed=v)),
              lambda v, seen: (seen.played, seen.rounds) == ("random", 12)),
    Parameter(off_policy, "policy", ("fastest", "random"), lambda v: in_folder(lambda f: judged(f, v)),
              lambda v, seen: seen.policy == v and (v == "random") == (seen.largest_weight == 1.0)),
    Parameter(off_policy, "first", (1, 5, 9), lambda v: in_folder(lambda f: judged(f, first=v)),
              lambda v, seen: seen.rounds == 13 - v),
    Parameter(read_runs, "path", (3, 5), lambda v: in_folder(lambda f: len(read_runs(logged(f / "run", rounds=v)))),
              lambda v, seen: seen == v),
    Parameter(Selector.observe, "latencies", (0.1, 0.5, None),
              lambda v: observed(dict.fromkeys("abcdef", v)).cohort.rate.tolist(),
              lambda v, seen: seen == pytest.approx([0.0 if v is None else 1 / v] * 6)),
    Parameter(Selector.observe, "updates", (None, {"e": UPDATE, "b": -UPDATE}),
              lambda v: observed(dict.fromkeys("abcdef", 0.1), v).policy.told,
              lambda v, seen: seen == ({} if v is None else {4: UPDATE.tolist(), 1: (-UPDATE).tolist()})),
    Parameter(Selector.observe, "provisional", ((), ["a"]),
              lambda v: after_seconds([8.0, 4.0], provisional=v), lambda v, seen: seen == (4.0 if v else 6.0)),
    Parameter(Selector.observe, "late", ((), ["a"]),
              lambda v: observed(dict.fromkeys("abcdef"), late=v).cohort.timings.tolist(),
              lambda v, seen: seen == [0 if v else 1, 1, 1, 1, 1, 1]),
    Parameter(Selector.expect, "latencies", ({}, {"a": 0.2}, [0.1, None, math.nan, 0.4, 0.5, 0.6]), expected,
              lambda v, seen: seen[0] == [] or seen[1:] == [v["a"] if isinstance(v, dict) else 0.1, 0, 0]),
    Parameter(Selector.expect, "provisional", (False, True), lambda v: after_seconds([4.0], expected=v),
              lambda v, seen: seen == (4.0 if v else 6.0)),
    Parameter(Selector.report, "releases", ({}, {"a": 7}), lambda v: reported(v),
              lambda v, seen: seen[0] == v.get("a", 0)),
    Parameter(Selector.report, "left", ({}, {"a": 0.5}, {"a": None, "b": 0.0}), lambda v: told(left=v),
              lambda v, seen: seen[0] == [v.get(c) if v.get(c) is not None else 1.0 for c in "abcdef"]
              and ("b" in seen[2]) is ("b" not in v)),
    Parameter(Selector.report, "noise", ({}, {"a": 9.0}, {"f": 0.0}), lambda v: told(noise=v)[1],
              lambda v, seen: {c: x for c, x in zip("abcdef", seen, strict=True) if x == x} == v),
    Parameter(Selector.join, "sizes", ({"g": 5.0}, {"h": 9.0}), lambda v: joined(v, None),
              lambda v, seen: dict(zip(seen[0], seen[1], strict=True)).items() >= v.items()),
    Parameter(Selector.join, "clusters", ({"g": 0, "h": 1}, {"g": 1, "h": 0}),
              lambda v: joined({"g": 9.0, "h": 9.0}, v), lambda v, seen: seen[2] == [v["g"] != 0, v["h"] != 0]),
    Parameter(Selector.join, "schedules", ({}, {"g": FixedHorizon(8.0, 4)}, {"h": FixedHorizon(8.0, 2)}), newcomers,
              lambda v, seen: seen == pytest.approx([1 - v.get(c, Geometric(8, 0.04)).epsilon(1) / 8 for c in "agh"])),
    Parameter(Selector.leave, "ids", (["a"], ["b", "c"]), lambda v: left(v), lambda v, seen: not set(v) & set(seen)),
    Parameter(Selector.save, "path", ("one", "two"), lambda v: in_folder(lambda f: saved(f, v)),
              lambda v, seen: seen == [v]),
    Parameter(Selector.load, "path", (2, 5), lambda v: in_folder(lambda f: loaded(f, v)), lambda v, seen: seen == v),
    Parameter(Selector.load, "policy", (None, Fastest(SECONDS)), lambda v: reopened(before=Fastest(SECONDS), policy=v),
              lambda v, seen: (seen == first) is (v is not None)),
    Parameter(Selector.load, "schedule", (None, FixedHorizon(7.0, 3)), lambda v: reopened(schedule=v),
              lambda v, seen: isinstance(seen, tuple) is (v is None)),
    Parameter(Selector.load, "phi", (None, phis[1]), lambda v: reopened(before="brute", was=phis[1], phi=v),
              lambda v, seen: isinstance(seen, tuple) is (v is not None)),
    Parameter(Selector.load, "log", (None, "one", "two"), lambda v: in_folder(lambda f: log_files(f, v, loaded=True)),
              lambda v, seen: seen == ({} if v is None else {v: 3})),
    Parameter(Selector.restore, "header", (3, 4), lambda v: restored(v, 3)[0], lambda v, seen: seen == v),
    Parameter(Selector.restore, "arrays", (3, 4), lambda v: restored(3, v)[1], lambda v, seen: sum(seen) == 2 * v),
    Parameter(Selector.restore, "open_list", (False, True), reordered, lambda v, seen: seen == ("bcga" if v else "")),
    *(Parameter(solve, name, values, lambda v, s=solve, n=name, more=more: found(s, **more, **{n: v}))
      for solve in (solve_exact, solve_brute) for name, values, more in (
          ("ucb", (UCB, UCB[::-1]), {}), ("score", (SCORE, SCORE[::-1]), {}), ("m", (2, 3, 4), {}),
          ("clusters", (None, GROUPS, GROUPS // 2), {"collision": 5.0}),
          ("collision", (0.0, 0.05, 5.0), {"clusters": np.zeros(12, dtype=np.int64)}),
          ("rng", (None, rng(0), rng(1)), {"ucb": np.ones(12), "score": np.zeros(12)}))),
    Parameter(solve_brute, "phi", (None, lambda at: 9.0 * (5 in at)), lambda v: found(solve_brute, phi=v),
              lambda v, seen: v is None or 5 in seen[0]),
    *(Parameter(anneal, name, values, lambda v, n=name, more=more: annealed(**{**more, n: v}))
      for name, values, more in (
          ("ucb", (UCB, UCB[::-1]), {}), ("score", (SCORE, SCORE[::-1]), {}), ("m", (2, 3, 4), {}),
          ("clusters", (None, np.zeros(12, dtype=np.int64)), {"collision": 5.0}),
          ("collision", (0.0, 5.0), {"clusters": np.zeros(12, dtype=np.int64)}),
          ("phi", (None, lambda at: 9.0 * (5 in at)), {}),
          ("steps", (0, 200), {}), ("kappa", (0.01, 1e6), {}), ("scale", (1e-6, 1e6), {}),
          ("set_range", (1e-6, 1e6), {}), ("graph", ("tailored", "vanilla"), {"steps": 6}),
          ("restarts", (True, False), {"steps": 0}), ("start", ("random", [0, 1, 2]), {"steps": 0}),
          ("rng", (rng(3), rng(4)), {"steps": 0}))),
    Parameter(anneal, "seconds", (1.0, 3.0), lambda v: looks(v), lambda v, seen: seen >= v),
    Parameter(anneal, "clock", (1.0, 0.25), lambda v: looks(2.0, v), lambda v, seen: seen >= 2.0 / v),
    Parameter(Annealer, "steps", (1, 40), lambda v: settled(Annealer(steps=v, restarts=False))),
    Parameter(Annealer, "seconds", (None, 1e-9), lambda v: Annealer(seconds=v).budget(12, False),
              lambda v, seen: (seen is None) is (v is not None)),
    Parameter(Annealer, "kappa", (0.01, 3000.0), lambda v: settled(Annealer(steps=30, kappa=v, restarts=False))),
    Parameter(Annealer, "scale", (1e-6, 1e6),
              lambda v: settled(Annealer(steps=30, kappa=1.0, scale=v, restarts=False))),
    Parameter(Annealer, "set_range", (1e-6, 1e6),
              lambda v: settled(Annealer(steps=30, kappa=1.0, set_range=v, restarts=False))),
    Parameter(Annealer, "omega", (1e-9, 1e6),
              lambda v: settled(Annealer(steps=30, kappa=1.0, omega=v, restarts=False))),
    Parameter(Annealer, "graph", ("tailored", "vanilla"),
              lambda v: settled(Annealer(steps=6, graph=v, restarts=False))),
    Parameter(Annealer, "restarts", (True, False), lambda v: settled(Annealer(steps=6, restarts=v))),
    Parameter(SaPause, "how", (Annealer(steps=2), Annealer(steps=40)), settled),
    Parameter(SaPause, "start", (None, "random"),
              lambda v: members(played(30, policy=SaPause(Annealer(steps=2), start=v), alpha=1.0))),
    Parameter(SaPauseAsPublished, "steps", (1, 60),
              lambda v: members(played(30, policy=SaPauseAsPublished(steps=v), alpha=1.0))),
    Parameter(SaPauseAsPublished, "kappa", (0.01, 1e6),
              lambda v: members(played(30, policy=SaPauseAsPublished(steps=30, kappa=v), alpha=1.0)),
              lambda v, seen: seen == settled(Annealer(30, kappa=v, set_range=2.0 + 5.0, restarts=False))),
    Parameter(Fastest, "expected", (SECONDS, {c: 1 / s for c, s in SECONDS.items()}),
              lambda v: selector(policy=Fastest(v)).select().members,
              lambda v, seen: set(seen) == set(sorted(v, key=v.__getitem__)[:2])),
    Parameter(ClusteredBySimilarity, "metric", ("angle", "l2", "l1"), lambda v: similar(v)),
    *(Parameter(kind, "budget", (8.0, 40.0), lambda v, k=kind: [k(v, 3).epsilon(i) for i in (1, 2, 3)],
                lambda v, seen, k=kind: seen == pytest.approx([v * k(1.0, 3).epsilon(i) for i in (1, 2, 3)], rel=1e-6))
      for kind in schedules),
    Parameter(Geometric, "decay", (0.1, 0.5), lambda v: [Geometric(8.0, v).epsilon(i) for i in (1, 2)],
              lambda v, seen: seen[1] / seen[0] == pytest.approx(math.exp(-v))),
    Parameter(PowerLaw, "exponent", (1.5, 3.0), lambda v: [PowerLaw(8.0, v).epsilon(i) for i in (1, 2)],
              lambda v, seen: seen[1] / seen[0] == pytest.approx(2**-v)),
    Parameter(FixedHorizon, "releases", (2, 4), lambda v: FixedHorizon(8.0, v).epsilon(1),
              lambda v, seen: seen == pytest.approx(8.0 / v, rel=1e-6)),
    Parameter(Laplace, "unit", ("coordinate", "update"),
              lambda v: noised(laplace if v == "coordinate" else Laplace(unit=v, l1=1.0))),
    Parameter(Laplace, "width", (1.0, 2.0), lambda v: noised(Laplace(unit="coordinate", width=v), epsilon=1e5),
              lambda v, seen: max(seen) == pytest.approx(v / 2, abs=0.01)),
    Parameter(Laplace, "l1", (1.0, 2.0), lambda v: noised(Laplace(unit="update", l1=v), epsilon=1e5),
              lambda v, seen: sum(map(abs, seen)) == pytest.approx(v, abs=0.01)),
    Parameter(Gaussian, "l2", (1.0, 2.0), lambda v: noised(Gaussian(v, 1e-5), epsilon=1e5),
              lambda v, seen: math.hypot(*seen) == pytest.approx(v, abs=0.1)),
    Parameter(Gaussian, "delta", (1e-5, 1e-3), lambda v: Gaussian(1.0, v).sigma(1.0)),
    Parameter(Gaussian, "unit", ("update", "record"), lambda v: Gaussian(1.0, 1e-5, v).guarantee.adjacency,
              lambda v, seen: seen == {"update": "any two inputs", "record": "any one record replaced"}[v]),
    Parameter(Gaussian, "account", ("sum", "zcdp"), lambda v: Gaussian(1.0, 1e-5, account=v).composition,
              lambda v, seen: seen == v),
    Parameter(PrivUnit, "l2", (1.0, 2.0), lambda v: noised(PrivUnit(v), epsilon=400.0),
              lambda v, seen: math.hypot(*seen) == pytest.approx(v, rel=0.1)),
    Parameter(PrivUnit, "norm", ("fixed", "private"),
              lambda v: noised(PrivUnit(9.0, norm=v), update=UPDATE / 50, epsilon=400.0),
              lambda v, seen: (math.hypot(*seen) > 5.0) is (v == "fixed")),
    Parameter(PrivUnit, "norm_share", (0.1, 0.5), lambda v: PrivUnit(1.0, norm="private", norm_share=v).split(7, 4.0),
              lambda v, seen: seen[1] / 4.0 == pytest.approx(v) or seen[0] / 4.0 == pytest.approx(v)),
    Parameter(SimulatedNoise, "generator", (1, 2), lambda v: noised(laplace, noise=SimulatedNoise(rng(v)))),
    Parameter(Laplace.release, "update", (UPDATE, -UPDATE), lambda v: noised(laplace, update=v, epsilon=1e5),
              lambda v, seen: np.allclose(seen, np.clip(v, -0.5, 0.5), atol=0.01)),
    Parameter(Laplace.release, "epsilon", (1.0, 4.0), lambda v: noised(laplace, update=np.zeros(5), epsilon=v),
              lambda v, seen: np.allclose(np.array(seen) * v, noised(laplace, update=np.zeros(5), epsilon=1.0))),
    Parameter(Laplace.release, "noise", (SimulatedNoise(rng(0)), SecureNoise()),
              lambda v: laplace.release(UPDATE, 1.0, v).private, lambda v, seen: seen is v.private),
    Parameter(Laplace.release, "layers", tuple(Layers({"w": (7,), "n": (7,)}, frozenset(local)) for local in ("", "n")),
              lambda v: sorted(laplace.release({"w": UPDATE, "n": UPDATE}, 1.0, SecureNoise(), layers=v).update),
              lambda v, seen: seen == ["n", "w"][len(v.local):]),
    Parameter(Laplace.release, "clip", (0.25, 0.5), lambda v: noised(laplace, epsilon=1e5, clip=v),
              lambda v, seen: max(seen) == pytest.approx(v / 2, abs=0.01)),
    Parameter(audit, "mechanism", (laplace, PrivUnit(1.0)),
              lambda v: audit(v, 1.0, SimulatedNoise(rng()), runs=200).mechanism,
              lambda v, seen: seen == repr(v)),
    Parameter(audit, "epsilon", (1.0, 2.0), lambda v: audit(laplace, v, SimulatedNoise(rng()), runs=200).claimed,
              lambda v, seen: seen == v),
    Parameter(audit, "noise", (SimulatedNoise(rng(0)), SecureNoise()),
              lambda v: audit(laplace, 1.0, v, runs=200).source,
              lambda v, seen: seen == v.name),
    Parameter(audit, "runs", (200, 400), lambda v: audit(laplace, 1.0, SimulatedNoise(rng()), runs=v).attainable),
    Parameter(audit, "error", (0.05, 0.2),
              lambda v: audit(laplace, 1.0, SimulatedNoise(rng()), runs=200, error=v).attainable),
    Parameter(audit, "low_bits", (False, True),
              lambda v: audit(laplace, 1.0, SimulatedNoise(rng()), runs=10_000, low_bits=v).event,
              lambda v, seen: ("lowest set bit" in seen) is v),
    *(Parameter(suggest, name, values, partial(planned, name)) for name, values in {
        "clients": (30, 300), "per_round": (5, 15), "dimension": (100, 650), "budget": (4.0, 40.0),
        "mechanism": (PrivUnit(1.0), Gaussian(1.0, 1e-5), Gaussian(1.0, 1e-4)), "examples": (None, 10),
        "accuracy": (95.0, 50.0),
    }.items()),
    *(row for door in (SqliteLedger, SqliteLedger.create) for row in (
        Parameter(door, "path", ("one.db", "two.db"), partial(names_after, door), lambda v, seen: seen == [v, v]),
        Parameter(door, "clock", (5.0, 6.0), partial(time_of, door), lambda v, seen: seen == v),
        Parameter(door, "timeout", (0.0, 120.0), partial(locked_for, door), lambda v, seen: (seen == "r") is (v > 0)),
    )),
    Parameter(SqliteLedger, "seal", (None, "seal"),
              lambda v: in_folder(lambda f: [opened(SqliteLedger, f / "x.db", seal=v and f / v), *f.iterdir()][1:]),
              lambda v, seen: v is None or f"/{v}')" in str(seen)),
    Parameter(SqliteLedger.create, "simulation", (False, True),
              lambda v: in_folder(lambda f: SqliteLedger.create(f / "x.db", simulation=v).simulation),
              lambda v, seen: seen is v),
    Parameter(SqliteLedger.contains, "head", (0, 1, 2), lambda v: in_folder(lambda f: contained(f, v)),
              lambda v, seen: seen == [place >= v for place in range(3)]),
    Parameter(SqliteLedger.verify, "head", (0, 1, 2), lambda v: in_folder(lambda f: verified(f, v)),
              lambda v, seen: seen == [place >= v for place in range(3)]),
    Parameter(SqliteLedger.retire, "subject", ("a", "b"),
              lambda v: in_folder(lambda f: SqliteLedger.create(f / "x.db").retire(v).subject),
              lambda v, seen: seen == v),
    Parameter(SqliteLedger.backup, "target", ("one.db", "two.db"), lambda v: in_folder(lambda f: backed_up(f, v)),
              lambda v, seen: v in seen),
    Parameter(SqliteLedger.restore, "backup", ("one.db", "two.db"), partial(brought_back, "backup"),
              lambda v, seen: seen == [v, "target.db", "one"]),
    Parameter(SqliteLedger.restore, "target", ("one.db", "two.db"), partial(brought_back, "target"),
              lambda v, seen: seen == [v, v, "one"]),
    Parameter(SqliteLedger.reserve, "subject", ("a", "b"), lambda v: in_folder(lambda f: charged(f, subject=v).subject),
              lambda v, seen: seen == v),
    Parameter(SqliteLedger.reserve, "release", ("r", "s"), lambda v: in_folder(lambda f: charged(f, release=v).release),
              lambda v, seen: seen == f"{v}/0"),
    Parameter(SqliteLedger.reserve, "schedule", (Geometric(8.0, 0.1), FixedHorizon(8.0, 4)),
              lambda v: in_folder(lambda f: charged(f, schedule=v, releases=2).epsilon),
              lambda v, seen: seen == v.epsilon(2)),
    Parameter(SqliteLedger.reserve, "mechanism", (None, laplace, Gaussian(1.0, 1e-5)),
              lambda v: in_folder(lambda f: astuple(charged(f, mechanism=v))),
              lambda v, seen: v is None or {repr(v), v.guarantee.delta} <= set(seen)),
    Parameter(SqliteLedger.reserve, "noise", (None, SecureNoise(), SimulatedNoise(rng(0))),
              lambda v: in_folder(lambda f: charged(f, mechanism=laplace, noise=v).noise),
              lambda v, seen: v is None or v.name in seen),
    Parameter(SqliteLedger.reserve, "dimension", (None, 7, 2410),
              lambda v: in_folder(lambda f: charged(f, dimension=v).dimension), lambda v, seen: seen == (v or 0)),
    Parameter(Oort, "exploration", (0.1, 0.9), lambda v: peer(Oort(exploration=v), 6, 10)),
    Parameter(Oort, "decay", (0.1, 0.99), lambda v: peer(Oort(decay=v), 6, 10)),
    Parameter(Oort, "least_exploration", (0.0, 1.0), lambda v: peer(Oort(exploration=0.0, least_exploration=v), 4),
              lambda v, seen: v == 0.0 or len({c for _, chosen in seen for c in chosen}) == 12),
    Parameter(Oort, "percentile", (5.0, 100.0), lambda v: peer(Oort(percentile=v))),
    Parameter(Oort, "pacer_step", (1, 20), lambda v: peer(Oort(pacer_step=v))),
    Parameter(Oort, "pacer_delta", (5.0, 60.0), lambda v: peer(Oort(pacer_delta=v, pacer_step=2))),
    Parameter(Oort, "penalty", (0.0, 4.0), lambda v: peer(Oort(penalty=v))),
    Parameter(Oort, "cut_off", (0.0, 1.0), lambda v: peer(Oort(cut_off=v))),
    Parameter(Oort, "clip", (0.0, 1.0), lambda v: peer(Oort(clip=v))),
    *(Parameter(kind, "d", (3, 8, None), lambda v, kind=kind: peer(kind(d=v)),
                lambda v, seen: {asked for asked, _ in seen} == {v or 6}) for kind in (PowD, CPowD)),
    Parameter(RPowD, "d", (3, 6, 12), lambda v: peer(RPowD(d=v)), lambda v, seen: {asked for asked, _ in seen} == {0}),
    Parameter(ActiveFL, "dropped", (0.0, 0.75), lambda v: peer(ActiveFL(dropped=v, uniform=0.0))),
    Parameter(ActiveFL, "sharpness", (0.0, 5.0), lambda v: peer(ActiveFL(dropped=0.0, sharpness=v))),
    Parameter(ActiveFL, "uniform", (0.0, 1.0), lambda v: peer(ActiveFL(uniform=v))),
    Parameter(TiFL, "tiers", (1, 2, 4), lambda v: peer(TiFL(tiers=v), known=True),
              lambda v, seen: len({chosen for _, chosen in seen if v == 4}) in (0, 4)),
    Parameter(TiFL, "interval", (1, 20), lambda v: peer(TiFL(interval=v), known=True)),
    Parameter(TiFL, "credits", (None, 5), lambda v: peer(TiFL(tiers=4, credits=v), 20, known=True),
              lambda v, seen: v is None or {seen.count(one) for one in seen} == {5}),
    Parameter(TiFL, "adaptive", (False, True), lambda v: (TiFL(adaptive=v).signals, peer(TiFL(adaptive=v), known=True)),
              lambda v, seen: seen[0] == (("accuracy",) if v else ())),
    Parameter(PauseAuto, "collision", (0.0, 1.0),
              lambda v: Selector(np.ones(4), 2, PauseAuto(collision=v), clusters=np.array([0, 0, 1, 1]),
                                 prior=[0.1, 0.1, 0.11, 0.12]).select().members,
              lambda v, seen: (set(seen) == {0, 1}) == (v == 0.0)),
    Parameter(CsUcb, "tau_max", (None, 0.3, 30.0), lambda v: peer(CsUcb(tau_max=v))),
    Parameter(CsUcbQ, "tau_max", (None, 0.3, 30.0), lambda v: peer(CsUcbQ(tau_max=v))),
    Parameter(CsUcbQ, "queue_weight", (0.0, 0.5, 1.0), lambda v: peer(CsUcbQ(queue_weight=v))),
    Parameter(CsUcbQ, "guarantee", (0.0, 0.5, 1.0), lambda v: owed(CsUcbQ(guarantee=v)),
              lambda v, seen: seen == pytest.approx([0.0, v / 4, v / 2])),
    Parameter(RbcsF, "latency_weight", (0.0, 50.0), lambda v: peer(RbcsF(latency_weight=v))),
    Parameter(RbcsF, "exploration", (0.0, 1.0), lambda v: peer(RbcsF(exploration=v))),
    Parameter(RbcsF, "guarantee", (0.1, 0.5), lambda v: owed(RbcsF(guarantee=v)),
              lambda v, seen: seen == pytest.approx([0.0, v, v])),
    Parameter(RbcsF, "ridge", (0.01, 10.0), lambda v: peer(RbcsF(ridge=v, guarantee=0.1))),
    Parameter(FedCS, "deadline", (None, 0.35, 0.85), lambda v: peer(FedCS(deadline=v), known=True),
              lambda v, seen: v is None or all(len(c) == 1 or max(c) <= 10 * v - 1 for _, c in seen)),
    Parameter(FedCS, "pool", (None, 1, 12), lambda v: peer(FedCS(deadline=9.0, pool=v), known=True),
              lambda v, seen: {len(chosen) for _, chosen in seen} == {1 if v == 1 else 3}
              and (v != 12 or {chosen for _, chosen in seen} == {(0, 1, 2)})),
    Parameter(LabelDiversity, "histograms", ({"a": [9, 0], "b": [0, 9]}, {"a": [9, 0], "b": [9, 0]}),
              lambda v: LabelDiversity(v)(["a", "b"]), lambda v, seen: seen == float(v["b"] == [0, 9])),
    Parameter(LabelDiversity, "weight", (1.0, 3.0), lambda v: LabelDiversity({"a": [9, 0], "b": [0, 9]}, v)(["a", "b"]),
              lambda v, seen: seen == v),
    Parameter(FlooredNormal, "means", (np.full(3, 0.5), np.full(3, 2.0)), lambda v: drawn(FlooredNormal(v, 0.1, 0.05)),
              lambda v, seen: np.allclose((np.array(seen) - v) / 0.1, stream(0, "latency", 1).normal(size=3))),
    Parameter(FlooredNormal, "std", (0.1, 0.2), lambda v: drawn(FlooredNormal(np.full(3, 9.0), v, 0.05)),
              lambda v, seen: np.allclose((np.array(seen) - 9) / v, stream(0, "latency", 1).normal(size=3))),
    Parameter(FlooredNormal, "floor", (0.5, 0.6), lambda v: drawn(FlooredNormal(np.full(3, 0.1), 0.01, v)),
              lambda v, seen: seen == [v] * 3),
    Parameter(Quantile, "family", ("lognormal", "exponential", "pareto"),
              lambda v: drawn(Quantile(v, np.full(3, 0.5), 0.5, 0.1))),
    Parameter(Quantile, "means", (np.full(3, 0.5), np.full(3, 0.9)),
              lambda v: drawn(Quantile("exponential", v, 0.5, 0.1)),
              lambda v, seen: np.allclose((0.1 - np.array(seen)) / (v - 0.1),
                                          np.log1p(-stream(0, "latency", 1).random(3)))),
    Parameter(Quantile, "spread", (0.2, 0.7), lambda v: drawn(Quantile("lognormal", np.full(3, 5.0), v, 0.001))),
    Parameter(Quantile, "floor", (0.1, 0.2), lambda v: drawn(Quantile("pareto", np.full(3, 0.5), 0.5, v)),
              lambda v, seen: min(seen) >= v),
    Parameter(Trace, "table", (np.full((2, 3), 0.5), np.full((2, 3), 0.7)), lambda v: drawn(Trace(v)),
              lambda v, seen: seen == v[0].tolist()),
    Parameter(two_groups, "clients", (4, 6), lambda v: len(two_groups(v)), lambda v, seen: seen == v),
    Parameter(two_groups, "tau_min", (0.05, 0.5), lambda v: drawn(two_groups(8, v)), lambda v, seen: min(seen) >= v),
    Parameter(Bernoulli, "probability", (0.0, 0.5, 1.0), lambda v: online(Bernoulli(v)),
              lambda v, seen: v == 0.5 or set(seen) == {v == 1.0}),
    Parameter(OnOff, "leave", (0.0, 0.5, 1.0), lambda v: online(OnOff(v, 0.0)), lambda v, seen: v > 0.0 or all(seen)),
    Parameter(OnOff, "back", (0.0, 0.5, 1.0), lambda v: online(OnOff(1.0, v)),
              lambda v, seen: v > 0.0 or not any(seen)),
    Parameter(AvailabilityTrace, "table", tuple(np.array([[v] * 8]) for v in (True, False)),
              lambda v: online(AvailabilityTrace(v)), lambda v, seen: seen == v[0].tolist() * 6),
    Parameter(Network, "latency", (two_groups(8), Trace(np.full((1, 8), 0.3))), lambda v: round_of(latency=v),
              lambda v, seen: isinstance(v, FlooredNormal) or {s for s, _ in seen[0]} == {0.3}),
    Parameter(Network, "seed", (0, 1), lambda v: round_of(seed=v),
              lambda v, seen: seen[0][0][0] == two_groups(8).sample(stream(v, "latency", 1)).max()),
    Parameter(Network, "availability", (None, Bernoulli(0.0)), lambda v: round_of(availability=v)[1],
              lambda v, seen: set(seen) == {v is None}),
    Parameter(Network, "dropout", (0.0, 0.5), lambda v: round_of(dropout=v),
              lambda v, seen: all(here == (stream(0, "dropout", n).random(8) >= v).tolist()
                                  for n, (_, here) in enumerate(seen[0], 1))),
    Parameter(Network, "deadline", (None, 0.5), lambda v: round_of(deadline=v),
              lambda v, seen: v is None or {s for s, _ in seen[0]} == {v}),
    Parameter(Network, "clusters", (None, np.zeros(8, dtype=np.int64), np.arange(8) % 2),
              lambda v: [s for s, _ in round_of(clusters=v, congestion=1.0)[0]],
              lambda v, seen: v is None or seen == pytest.approx([s + 8 - len(set(v)) for s, _ in round_of()[0]])),
    Parameter(Network, "congestion", (0.1, 0.2),
              lambda v: [s for s, _ in round_of(clusters=np.zeros(8, int), congestion=v)[0]],
              lambda v, seen: seen == pytest.approx([s + 7 * v for s, _ in round_of()[0]])),
    Parameter(Network, "straggle", (0.0, 0.5), lambda v: round_of(straggle=v, deadline=5.0),
              lambda v, seen: all(here == (stream(0, "straggle", n).random(8) >= v).tolist()
                                  and (took == 5.0) is (not all(here)) for n, (took, here) in enumerate(seen[0], 1))),
    Parameter(Network, "drift", (None, Drift(1, 1.0, 3.0)), lambda v: round_of(drift=v),
              lambda v, seen: v is None or [s for s, _ in seen[0]] == [3.0 * s for s, _ in round_of()[0]]),
    Parameter(Network, "jams", (None, Jams(1.0, 3.0, 1)), lambda v: round_of(jams=v, clusters=np.zeros(8, int)),
              lambda v, seen: v is None or [s for s, _ in seen[0]] == [3.0 * s for s, _ in round_of()[0]]),
    Parameter(Network, "late", (None, LateJoiners(1.0, 1)), lambda v: round_of(late=v)[1],
              lambda v, seen: set(seen) == {v is None}),
    Parameter(Drift, "start", (1, 3, 5), lambda v: slowed(Drift(v, 0.5, 9.0)),
              lambda v, seen: [max(row) for row in seen] == [9.0 if n >= v else 1.0 for n in range(1, 6)]),
    Parameter(Drift, "share", (0.1, 0.5, 1.0), lambda v: slowed(Drift(1, v, 9.0)),
              lambda v, seen: [row.count(9.0) for row in seen] == [round(8 * v)] * 5),
    Parameter(Drift, "factor", (2.0, 9.0), lambda v: slowed(Drift(1, 1.0, v)),
              lambda v, seen: seen == [[v] * 8] * 5),
    Parameter(Jams, "probability", (0.0, 0.3, 1.0), lambda v: jammed(Jams(v, 9.0, 1)),
              lambda v, seen: seen == [np.where(stream(0, "jams", n).random(4) < v, 9.0, 1.0).repeat(2).tolist()
                                       for n in range(1, 6)]),
    Parameter(Jams, "factor", (2.0, 9.0), lambda v: jammed(Jams(1.0, v, 1)), lambda v, seen: seen == [[v] * 8] * 5),
    Parameter(Jams, "rounds", (1, 2, 3), lambda v: jammed(Jams(0.2, 9.0, v)),
              lambda v, seen: [row[::2] for row in seen] == [
                  np.where(np.any([stream(0, "jams", n - age).random(4) < 0.2 for age in range(v)], axis=0), 9.0, 1.0)
                  .tolist() for n in range(1, 6)]),
    Parameter(LateJoiners, "share", (0.25, 0.5, 1.0), lambda v: LateJoiners(v, 3).delays(8, 0).tolist(),
              lambda v, seen: sum(delay > 0 for delay in seen) == 8 * v),
    Parameter(LateJoiners, "most", (1, 40), lambda v: LateJoiners(1.0, v).delays(8, 0).tolist(),
              lambda v, seen: 1 <= min(seen) <= max(seen) <= v),
    Parameter(Diurnal, "probability", (0.2, 0.5), lambda v: day(probability=v),
              lambda v, seen: np.allclose(np.mean(seen, axis=0), v)),
    Parameter(Diurnal, "swing", (0.0, 0.2, 0.5), lambda v: day(swing=v),
              lambda v, seen: np.ptp(seen, axis=0)[0] == pytest.approx(2 * v)),
    Parameter(Diurnal, "period", (2, 4, 8), lambda v: day(period=v),
              lambda v, seen: all(np.allclose(seen[n], seen[n + v]) for n in range(16 - v))),
    Parameter(Diurnal, "zones", (np.zeros(8), np.full(8, 0.25)), lambda v: day(zones=v),
              lambda v, seen: np.allclose(seen[0], 0.5 + 0.2 * np.sin(2 * np.pi * v))),
    Parameter(FlooredLognormal, "means", (np.full(3, 0.5), np.full(3, 2.0)),
              lambda v: drawn(FlooredLognormal(v, 0.5, 1e-6)),
              lambda v, seen: np.allclose(np.log(seen) + 0.125 - np.log(v),
                                          0.5 * stream(0, "latency", 1).normal(size=3))),
    Parameter(FlooredLognormal, "spread", (0.2, 0.7), lambda v: drawn(FlooredLognormal(np.full(3, 0.5), v, 1e-6)),
              lambda v, seen: np.allclose(np.log(seen) + v**2 / 2 - np.log(0.5),
                                          v * stream(0, "latency", 1).normal(size=3))),
    Parameter(FlooredLognormal, "floor", (5.0, 6.0), lambda v: drawn(FlooredLognormal(np.full(3, 0.1), 0.1, v)),
              lambda v, seen: seen == [v] * 3),
    Parameter(device_latency, "clients", (4, 6), lambda v: len(phones(clients=v)), lambda v, seen: seen == v),
    Parameter(device_latency, "median", (0.5, 2.0), lambda v: phones(median=v).means.tolist(),
              lambda v, seen: np.median(seen) == pytest.approx(v)),
    Parameter(device_latency, "spread", (0.2, 0.7), lambda v: phones(spread=v).spread, lambda v, seen: seen == v),
    Parameter(device_latency, "floor", (0.05, 0.5), lambda v: drawn(phones(floor=v)), lambda v, seen: min(seen) >= v),
    Parameter(device_latency, "rng", (0, 1), lambda v: phones(rng=stream(v, "devices")).means.tolist(),
              lambda v, seen: np.ptp(seen * stream(v, "devices").choice(device_speeds(), 8)) < 1e-9),
)  # fmt: skip


DOORS = {row.door for row in PARAMETERS}
RESULTS = {
    "Candidates",
    "Objective",
    "Solution",
    "Selection",
    "Charge",
    "Guarantee",
    "Released",
    "Terms",
    "Reward",
    "Layers",
    "ReleasePlan",
}
"""What doors give back or hand on; users do not make them, or only to pass them on."""


@pytest.mark.parametrize("row", PARAMETERS, ids=lambda row: f"{row.door.__qualname__} {row.name}")
def test_a_parameter_does_what_it_should(row: Parameter) -> None:
    seen = [row.seen(value) for value in row.values]
    for value, one in zip(row.values, seen, strict=True):
        assert row.law(value, one), (value, one)
    assert len({repr(one) for one in seen}) == len(seen), seen


def test_every_parameter_has_a_row_and_every_row_a_parameter() -> None:
    named = {
        (door.__qualname__, name) for door in DOORS for name in inspect.signature(door).parameters if name != "self"
    }
    assert {(row.door.__qualname__, row.name) for row in PARAMETERS} == named


def test_every_name_of_the_packages_is_a_door() -> None:
    """A policy, schedule, mechanism or noise that is new needs its rows; those without parameters need none."""
    for package in (pausefl, pausefl.selection, pausefl.privacy, pausefl.rewards):
        for name in package.__all__:
            kind = getattr(package, name)
            made = inspect.isclass(kind) and not inspect.isabstract(kind) and not issubclass(kind, Exception)
            if made and name not in RESULTS:
                assert kind in DOORS or not inspect.signature(kind).parameters, name
