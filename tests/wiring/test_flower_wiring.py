"""Every parameter of the Flower strategy and the client's mod, and every key of the owner's file, is alive.

Strategy, mod, owner's files, ledgers and secure noise are the real ones; only the nodes live in this process.  Budgets
are so large that noise can be told from no noise at a glance, and a law about the rest holds to a thousandth.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the flower extra is not installed")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian

from pausefl.errors import PauseError
from pausefl.flower import PauseStrategy, PrivateUpdate
from pausefl.flower.protocol import Note, Refusal
from pausefl.flower.simulation import simulated
from pausefl.flower.testing import MemoryGrid
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.owner_file import Owner
from pausefl.privacy import (
    MECHANISMS,
    SCHEDULES,
    FixedHorizon,
    Gaussian,
    Geometric,
    Laplace,
    PowerLaw,
    PrivUnit,
    SqliteLedger,
)
from pausefl.rng import stream
from pausefl.selection import ClusteredBySimilarity
from pausefl.selector import Selector
from pausefl.sim.latency import two_groups

SIZE = 6
HORIZON = '[schedule]\nkind = "fixed-horizon"\nbudget = 4e5\nreleases = 8\n'
WIDE = '[mechanism]\nkind = "laplace"\nunit = "coordinate"\nwidth = 100.0\n'
TELLS = '[replies]\nallow = ["num-examples"]\n'
SIMULATED = f'simulation = true\nname = "client-{{number}}"\n{HORIZON}{WIDE}'


def record(values: Any) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.asarray(values, dtype=np.float32))})


def step(number: int) -> Any:
    """What the training of client ``number`` adds to the model."""
    return np.full(SIZE, number + 1.0) * (np.arange(SIZE) < 3 + number)


@dataclass
class Node:
    """One client: its folder with the owner's file, and an app that keeps the messages it gets."""

    folder: Path
    number: int
    owner: str = SIMULATED + TELLS
    seen: list[Message] = field(default_factory=list)
    silent_for: int = 0
    """How often the node is looked at in vain before it answers a request to train."""

    def __call__(self, message: Message) -> Message | None:
        self.folder.mkdir(exist_ok=True)
        self.write()
        asked = message.content.config_records.get("pausefl", {})
        if message.metadata.message_type == "train" and not asked.get("hello") and self.silent_for:
            self.silent_for -= 1
            return None
        config = {"number": self.number}
        context = Context(run_id=1, node_id=self.number, node_config=config, state=RecordDict(), run_config={})
        return PrivateUpdate(self.folder / "owner.toml")(message, context, self.app)

    def write(self) -> None:
        """Write the owner's file; that of a deployment quotes its ledger, which is made with the first one."""
        said = tomllib.loads(self.owner)
        if "simulation" not in said and "ledger_id" not in said:
            ledger = self.folder / said.get("ledger", "ledger.db")
            made = SqliteLedger(ledger) if ledger.exists() else make_ledger(ledger)
            self.owner = f'ledger_id = "{made.id}"\n{self.owner}'
        (self.folder / "owner.toml").write_text(self.owner)
        (self.folder / "owner.toml").chmod(0o600)

    def app(self, message: Message, _: Context) -> Message:
        self.seen.append(message)
        model = message.content.array_records["arrays"]["w"].numpy()
        numbers = MetricRecord({"num-examples": 10 * (self.number + 1), "loss": 0.5})
        content = {"arrays": record(model + step(self.number)), "metrics": numbers}
        return Message(RecordDict(content), reply_to=message)


def selector(policy: str = "all", clients: int = 3, per_round: int = 3, **more: Any) -> Selector:
    sizes = {f"client-{n}": 10.0 * (n + 1) for n in range(clients)}
    return Selector(sizes, per_round, policy, schedule=FixedHorizon(4e5, 8), **more)


def played(
    folder: Path, *, nodes: int = 3, start: Any = 0.0, owner: str | None = None, silent_for: int = 0,
    late_nodes: int = 0, slow: tuple[int, int] | None = None, evaluates: bool = False, per_client: tuple[str, ...] = (),
    call: Mapping[str, Any] | None = None, **more: Any,
) -> SimpleNamespace:  # fmt: skip
    """Play one round, or as many as ``call`` says; ``more`` goes to the strategy."""
    clients = [Node(folder / str(n), n, silent_for=silent_for) for n in range(nodes)]
    for client in clients:
        client.owner = owner or client.owner
        if per_client:
            client.owner = client.owner.replace("budget = 4e5", f"budget = {per_client[client.number]}")
    grid = MemoryGrid({100 + client.number: client for client in clients})
    if slow is not None:
        clients[slow[0]].silent_for = slow[1]
    if late_nodes:
        looks, there = iter(range(late_nodes)), grid.get_node_ids
        grid.get_node_ids = lambda: [] if next(looks, None) is not None else there()  # type: ignore[method-assign]
        grid.get_nodes = lambda found=grid.get_nodes: list(found()) if next(looks, None) is None else []  # type: ignore
    inner = more.pop("inner", None) or FedAvg(fraction_evaluate=float(evaluates))
    chooser = more.pop("selector", None) or selector()
    try:
        strategy = PauseStrategy(inner, chooser, **{"wait": 0.0, "poll": 0.001, **more})
        result = strategy.start(
            grid, record(np.full(SIZE, start)), **{"num_rounds": 1, "timeout": 60.0, **(call or {})}
        )
    except PauseError as error:
        return SimpleNamespace(error=str(error), history=())
    model = result.arrays["w"].numpy() if result.arrays else None
    return SimpleNamespace(
        error="", history=strategy.history, model=model, clients=clients, selector=chooser, sent=grid.sent,
        checkpoint=[p.name for p in folder.glob("*.state*")],
        rehearsed=sum(m.metadata.message_type == "query.rehearsal" for client in clients for m in client.seen),
    )  # fmt: skip


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(found, expected, atol=0.02))


def mean_of(weights: Mapping[int, float]) -> Any:
    return sum(weight * step(n) for n, weight in weights.items()) / sum(weights.values())


def drawn(seen: SimpleNamespace) -> bool:
    """Aggregation follows the weights of the draw: a client that was drawn twice counts twice."""
    chosen = selector("clustered", clients=4, per_round=4).select()
    assert chosen.weights is not None and len(set(chosen.weights.values())) > 1
    return close(seen.model, mean_of({int(c.removeprefix("client-")): w for c, w in chosen.weights.items()}))


def learned(seen: SimpleNamespace) -> bool:
    """The policy has been told each member's update."""
    members = sorted({int(client.removeprefix("client-")) for one in seen.history for client in one.members})
    direct = ClusteredBySimilarity()
    direct.learn(np.array(members), np.array([step(n) for n in members]))
    told = seen.selector.policy.sketches
    return set(told) == set(members) and all(close(told[n], direct.sketches[n]) for n in members)


def virtual(seen: SimpleNamespace, seed: int) -> bool:
    expected = [two_groups(3).sample(stream(seed, "flower latency", n)).tolist() for n in (1, 2)]
    return [[one.seconds[f"client-{n}"] for n in range(3)] for one in seen.history] == expected


def asked_by_app(seen: SimpleNamespace, kind: str) -> list[Any]:
    """What the apps were configured with."""
    messages = [m for client in seen.clients for m in client.seen if m.metadata.message_type.startswith(kind)]
    return [m.content.config_records["config"].get("lr") for m in messages]


def asked_to_score(seen: SimpleNamespace) -> list[Any]:
    """The models that the apps were asked to evaluate."""
    messages = [m for client in seen.clients for m in client.seen if m.metadata.message_type == "evaluate"]
    return [m.content.array_records["arrays"]["w"].numpy() for m in messages]


def noise(seen: SimpleNamespace) -> float:
    return float(np.abs(seen.model - mean_of({0: 10, 1: 20, 2: 30})).max())


def evaluated(call: Mapping[str, Any]) -> dict[str, Any]:
    told = f'{SIMULATED}{TELLS}messages = ["evaluate"]\n'
    return {"owner": told, "evaluates": True, "call": call}


@dataclass(frozen=True)
class Parameter:
    """``given`` differ in one parameter; ``law`` is told what is seen with each."""

    name: str
    given: tuple[dict[str, Any], ...]
    law: Callable[..., bool]


heard: list[tuple[int, float]] = []


def hear(number: int, arrays: ArrayRecord) -> None:
    heard.append((number, float(arrays["w"].numpy()[0])))


PARAMETERS = (
    Parameter("inner", ({"inner": FedAvg(fraction_evaluate=0.0)}, {"inner": FedMedian(fraction_evaluate=0.0)}),
              lambda mean, median: close(mean.model, mean_of({0: 10, 1: 20, 2: 30}))
              and close(median.model, np.median([step(n) for n in range(3)], axis=0))),
    Parameter("selector", ({"selector": selector()}, {"selector": selector("random", per_round=2)}),
              lambda a, b: len(a.history[0].members) == 3
              and list(b.history[0].members) == list(selector("random", per_round=2).select())),
    Parameter("selector", ({"selector": selector("clustered", clients=4, per_round=4), "nodes": 4},), drawn),
    Parameter("selector", ({"selector": selector("clustered-similarity"), "call": {"num_rounds": 3}},), learned),
    Parameter("latency", ({"latency": two_groups(3), "call": {"num_rounds": 2}}, {"latency": "round-trip"}),
              lambda a, b: virtual(a, 0) and not virtual(b, 0)),
    Parameter("latency", ({"latency": two_groups(3), "selector": selector("random", per_round=2)},),
              lambda seen: seen.history[0].seconds.items() <= dict(
                  zip(("client-0", "client-1", "client-2"), two_groups(3).sample(stream(0, "flower latency", 1)),
                      strict=True)).items()),
    Parameter("latency", ({"latency": "reported", "owner": SIMULATED + TELLS.replace('"]', '", "seconds"]'),
                           "silent_for": 30, "poll": 0.01},
                          {"latency": "round-trip", "silent_for": 30, "poll": 0.01}),
              lambda told, measured: max(told.history[0].seconds.values()) < min(measured.history[0].seconds.values())),
    Parameter("names", ({"names": "hello"}, {"names": "node", "selector": Selector({"100": 1.0, "101": 2.0}, 2, "all"),
                                             "nodes": 2}),
              lambda a, b: (sorted(a.history[0].members), sorted(b.history[0].members))
              == (["client-0", "client-1", "client-2"], ["100", "101"])),
    Parameter("newcomers", tuple({"newcomers": how, "selector": selector(clients=2, per_round=2)}
                                 for how in ("ignore", "join")),
              lambda ignore, join: [sorted(one.history[0].members) for one in (ignore, join)]
              == [["client-0", "client-1"], ["client-0", "client-1", "client-2"]]),
    Parameter("fewer", ({"fewer": "smaller", "nodes": 2}, {"fewer": "error", "nodes": 2}),
              lambda a, b: len(a.history[0].members) == 2 and "fewer='smaller'" in b.error),
    Parameter("wait", ({"wait": 0.0, "late_nodes": 4}, {"wait": 120.0, "late_nodes": 4}),
              lambda a, b: a.error != "" and len(b.history) == 1),
    Parameter("poll", ({"poll": 0.25, "silent_for": 1},),
              lambda seen: min(seen.history[0].seconds.values()) >= 0.25),
    Parameter("checkpoint", ({}, {"checkpoint": "run.state"}),
              lambda a, b: (a.checkpoint, bool(b.checkpoint)) == ([], True)),
    Parameter("epsilon", ({}, {"epsilon": 0.5}), lambda free, strict: noise(free) < 0.1 < 5.0 < noise(strict)),
    Parameter("clip", ({}, {"clip": 0.5}), lambda free, strict: close(free.model, mean_of({0: 10, 1: 20, 2: 30}))
              and close(strict.model, sum(w * np.minimum(step(n), 0.25) for n, w in enumerate((1, 2, 3))) / 6)),
    Parameter("aggregation", tuple({"aggregation": rule, "per_client": ("1.0", "4e5", "4e5")}
                                   for rule in ("plain", "matched")),  # once in 10^5 the noise of client 0 is so small
              lambda plain, matched: np.abs(plain.model).max() > 20.0
              and np.abs(matched.model - mean_of({1: 20, 2: 30})).max() < 10.0),
    Parameter("step", ({}, {"step": 0.5}), lambda whole, half: close(half.model, whole.model / 2)),
    Parameter("average", ({"call": {"num_rounds": 2}}, {"average": 0.5, "call": {"num_rounds": 2}}),
              lambda last, mean: close(mean.model, last.model * (0.5 + 17) / 18)),
    Parameter("average", ({**evaluated({"num_rounds": 2}), "average": 0.5},),
              lambda mean: close(mean.model, asked_to_score(mean)[-1])
              and len({round(float(model[0]), 1) for model in asked_to_score(mean)}) == 2),
    Parameter("rehearse", ({"rehearse": False}, {"rehearse": True},
                           {"rehearse": True, "latency": two_groups(3), "seed": 4}),
              lambda a, b, c: [s.rehearsed for s in (a, b, c)] == [0, 3, 3]
              and [s.selector.cohort.timings.tolist() for s in (a, b, c)] == [[1] * 3, [1] * 3, [2] * 3]
              and close(c.selector.cohort.rate, sum(
                  1 / two_groups(3).sample(stream(4, "flower latency", n)) for n in (0, 1)) / 2)),
    Parameter("over_select", tuple({"over_select": by, "nodes": 4, "selector": selector("pause", 4, per_round=2)}
                                   for by in (1.0, 1.5, 2.0)),
              lambda *seen: [len(one.history[0].members) for one in seen] == [2, 3, 4]),
    Parameter("close_after", tuple({"close_after": count, "slow": (0, 60)} for count in (None, 1, 2)),
              lambda *seen: [len(one.history[0].seconds) for one in seen] == [3, 2, 2]),
    Parameter("deadline", ({"slow": (0, 10**9), "call": {"timeout": 2.0}},
                           {"slow": (0, 10**9), "call": {"timeout": 2.0}, "deadline": 0.2}),
              lambda long, short: long.history[0].took >= 2.0 > short.history[0].took
              and (long.history[0].late, short.history[0].late) == ((), ("client-0",))),
    Parameter("late", tuple({"late": late, "close_after": 2, "slow": (0, 1), "call": {"num_rounds": 2},
                             "selector": selector(), "poll": 0.01} for late in ("waste", "use")),
              lambda waste, use: [one for one in (waste, use) if one.history[0].late != ("client-0",)] == []
              and waste.history[1].wasted == (("client-0", 1),) and use.history[1].used == {"client-0": 0.5}),
    Parameter("seed", tuple({"latency": two_groups(3), "seed": n, "call": {"num_rounds": 2}} for n in (1, 2)),
              lambda a, b: virtual(a, 1) and virtual(b, 2)),
    Parameter("start.grid", ({"nodes": 3}, {"nodes": 4, "selector": selector(clients=4)}),
              lambda a, b: (len(a.history[0].members), len(b.history[0].members)) == (3, 4)),
    Parameter("start.initial_arrays", ({}, {"start": 5.0}), lambda a, b: close(b.model, a.model + 5.0)),
    Parameter("start.num_rounds", ({"call": {"num_rounds": 1}}, {"call": {"num_rounds": 2}}),
              lambda a, b: (len(a.history), len(b.history)) == (1, 2) and close(b.model, 2 * a.model)),
    Parameter("start.timeout", tuple({"silent_for": 40, "poll": 0.01, "call": {"timeout": t}} for t in (0.1, 120.0)),
              lambda a, b: set(a.history[0].refused.values()) == {"no answer"} and not b.history[0].refused),
    Parameter("start.train_config", tuple({"call": {"train_config": ConfigRecord({"lr": lr})}} for lr in (0.5, 0.7)),
              lambda a, b: (asked_by_app(a, "train"), asked_by_app(b, "train")) == ([0.5] * 3, [0.7] * 3)),
    Parameter("start.evaluate_config", tuple(
                  evaluated({"evaluate_config": ConfigRecord({"lr": lr})}) for lr in (0.5, 0.7)),
              lambda a, b: (asked_by_app(a, "evaluate"), asked_by_app(b, "evaluate")) == ([0.5] * 3, [0.7] * 3)),
    Parameter("start.evaluate_fn", ({"call": {"evaluate_fn": hear}, "start": 4.0},),
              lambda seen: [n for n, _ in heard] == [0, 1] and close([w for _, w in heard], [4.0, seen.model[0]])),
)  # fmt: skip


@pytest.mark.parametrize("row", PARAMETERS, ids=lambda row: row.name)
def test_a_parameter_of_the_strategy_does_what_it_should(row: Parameter, tmp_path: Path) -> None:
    heard.clear()
    seen = []
    for place, given in enumerate(row.given):
        folder = tmp_path / str(place)
        folder.mkdir()
        path = {"checkpoint": folder / given["checkpoint"]} if "checkpoint" in given else {}
        seen.append(played(folder, **(given | path)))
    assert row.law(*seen), seen


def test_every_parameter_of_the_strategy_has_a_row_and_every_row_a_parameter() -> None:
    made, started = (inspect.signature(one).parameters for one in (PauseStrategy, PauseStrategy.start))
    named = {*made, *(f"start.{name}" for name in started if name != "self")}
    assert {row.name for row in PARAMETERS} == named
    assert list(inspect.signature(PrivateUpdate).parameters) == ["owner"]  # with every Node above, and below


# The owner's file.  What it says must stand in the ledger, in the reply, or on the disk.


def answered(
    folder: Path, owner: str, *, kind: str = "train", releases: int = 1, again: bool = False, **arrays: Any
) -> SimpleNamespace:
    """Ask for so many releases, with ``again`` for the last one twice; return what the last answer was."""
    node = Node(folder, 7, owner)
    MemoryGrid({})  # gives this process the task that Flower stamps messages with
    sent = []
    for number in (*range(1, releases + 1), *[releases][: int(again)]):
        content = RecordDict({"arrays": record(np.zeros(SIZE)) if not arrays else ArrayRecord(
            {name: Array(np.asarray(value, dtype=np.float32)) for name, value in arrays.items()})})  # fmt: skip
        content["pausefl"] = ConfigRecord({"run": "run", "round": number})
        message = Message(content, 100, kind)
        message.metadata.__dict__["_message_id"] = f"{folder.name}-{number}"
        with simulated():
            reply = node(message)
        assert reply is not None
        sent.append(reply)
    ledgers = sorted(folder.rglob("*.db"))
    rows = [c for path in ledgers for s in SqliteLedger(path).subjects() for c in SqliteLedger(path).charges(s)]
    return SimpleNamespace(
        reply=reply, replies=sent, note=Note.of(reply) if reply.has_content() else None,
        ledgers=[path.name for path in ledgers],
        charge=rows[-1] if rows else None, kept=len(list(folder.rglob("*.reply"))),
        numbers=dict(reply.content.metric_records.get("metrics", {})) if reply.has_content() else {},
    )  # fmt: skip


def weights(reply: Message) -> Any:
    return reply.content.array_records["arrays"]["w"].numpy()


@dataclass(frozen=True)
class Line:
    """Owner's files that differ in one key, and what follows."""

    name: str
    files: tuple[str, ...]
    law: Callable[..., bool]
    asked: Mapping[str, Any] = field(default_factory=dict)


def charged(*expected: Any, part: str) -> Callable[..., bool]:
    """The ledger's row names this schedule or mechanism, and the epsilon that follows."""

    def law(*seen: SimpleNamespace) -> bool:
        if part == "schedule":
            assert [s.charge.epsilon for s in seen] == [one.epsilon(1) for one in expected]
            return [s.charge.budget for s in seen] == [one.budget for one in expected]
        return [s.charge.mechanism for s in seen] == [repr(one) for one in expected]

    return law


def scheduled(*lines: str) -> tuple[str, ...]:
    return tuple(f'name = "a"\n[schedule]\n{line}\n{WIDE}' for line in lines)


def noised(*lines: str) -> tuple[str, ...]:
    return tuple(
        f'name = "a"\n[schedule]\nkind = "fixed-horizon"\nbudget = 8\nreleases = 4\n[mechanism]\n{line}\n'
        for line in lines
    )


def replying(*lines: str) -> tuple[str, ...]:
    return tuple(f'name = "a"\n{HORIZON}{WIDE}[replies]\n{line}\n' for line in lines)


in_schedule, in_mechanism = partial(charged, part="schedule"), partial(charged, part="mechanism")
NORM = {"bn.weight": [1.0], "bn.bias": [0.0], "bn.running_mean": [0.0], "bn.running_var": [1.0], "w": [0.0]}

LINES = (
    Line("name", tuple(f'name = "{name}"\n{HORIZON}{WIDE}' for name in ("a", "b")),
         lambda a, b: [(s.note.name, s.charge.subject) for s in (a, b)] == [("a", "a"), ("b", "b")]),
    Line("name", (SIMULATED,), lambda s: (s.note.name, s.charge.subject) == ("client-7", "client-7")),
    Line("simulation", tuple(f'{line}name = "a"\n{HORIZON}{WIDE}' for line in ("", "simulation = true\n")),
         lambda a, b: (a.ledgers, b.ledgers) == (["ledger.db"], ["run.db"])),
    Line("ledger_id", tuple(f'{line}name = "a"\n{HORIZON}{WIDE}' for line in ("", f'ledger_id = "{"0" * 32}"\n')),
         lambda a, b: a.charge is not None and Refusal.of(b.reply.error) == Refusal("unready")),
    Line("ledger", tuple(f'name = "a"\nledger = "{name}.db"\n{HORIZON}{WIDE}' for name in ("mine", "ours")),
         lambda a, b: (a.ledgers, b.ledgers) == (["mine.db"], ["ours.db"])),
    Line("schedule.geometric.budget", scheduled(*(f'kind = "geometric"\nbudget = {b}\ndecay = 0.1' for b in (8, 9))),
         in_schedule(Geometric(8.0, 0.1), Geometric(9.0, 0.1))),
    Line("schedule.geometric.decay", scheduled(*(f'kind = "geometric"\nbudget = 8\ndecay = {d}' for d in (0.1, 0.2))),
         in_schedule(Geometric(8.0, 0.1), Geometric(8.0, 0.2))),
    Line("schedule.power-law.budget", scheduled(*(f'kind = "power-law"\nbudget = {b}\nexponent = 2' for b in (8, 9))),
         in_schedule(PowerLaw(8.0, 2.0), PowerLaw(9.0, 2.0))),
    Line("schedule.power-law.exponent", scheduled(*(f'kind = "power-law"\nbudget = 8\nexponent = {e}' for e in (2, 3))),
         in_schedule(PowerLaw(8.0, 2.0), PowerLaw(8.0, 3.0))),
    Line("schedule.fixed-horizon.budget",
         scheduled(*(f'kind = "fixed-horizon"\nbudget = {b}\nreleases = 4' for b in (8, 9))),
         in_schedule(FixedHorizon(8.0, 4), FixedHorizon(9.0, 4))),
    Line("schedule.fixed-horizon.releases",
         scheduled(*(f'kind = "fixed-horizon"\nbudget = 8\nreleases = {r}' for r in (4, 5))),
         in_schedule(FixedHorizon(8.0, 4), FixedHorizon(8.0, 5))),
    Line("mechanism.laplace.unit",
         noised('kind = "laplace"\nunit = "update"\nl1 = 2', 'kind = "laplace"\nunit = "coordinate"\nwidth = 2'),
         in_mechanism(Laplace(unit="update", l1=2.0), Laplace(unit="coordinate", width=2.0))),
    Line("mechanism.laplace.width", noised(*(f'kind = "laplace"\nunit = "coordinate"\nwidth = {w}' for w in (2, 3))),
         in_mechanism(Laplace(unit="coordinate", width=2.0), Laplace(unit="coordinate", width=3.0))),
    Line("mechanism.laplace.l1", noised(*(f'kind = "laplace"\nunit = "update"\nl1 = {b}' for b in (2, 3))),
         in_mechanism(Laplace(unit="update", l1=2.0), Laplace(unit="update", l1=3.0))),
    Line("mechanism.gaussian.l2", noised(*(f'kind = "gaussian"\nl2 = {b}\ndelta = 1e-6' for b in (2, 3))),
         in_mechanism(Gaussian(2.0, 1e-6), Gaussian(3.0, 1e-6))),
    Line("mechanism.gaussian.delta", noised(*(f'kind = "gaussian"\nl2 = 2\ndelta = {d}' for d in (1e-6, 1e-7))),
         in_mechanism(Gaussian(2.0, 1e-6), Gaussian(2.0, 1e-7))),
    Line("mechanism.gaussian.unit",
         noised(*(f'kind = "gaussian"\nl2 = 2\ndelta = 1e-6\nunit = "{u}"' for u in ("update", "record"))),
         in_mechanism(Gaussian(2.0, 1e-6), Gaussian(2.0, 1e-6, "record"))),
    Line("mechanism.gaussian.account",
         noised(*(f'kind = "gaussian"\nl2 = 2\ndelta = 1e-6\naccount = "{a}"' for a in ("sum", "zcdp"))),
         in_mechanism(Gaussian(2.0, 1e-6), Gaussian(2.0, 1e-6, account="zcdp"))),
    Line("clipped_by",
         tuple(f'name = "a"\n[schedule]\nkind = "fixed-horizon"\nbudget = 4e6\nreleases = 8\n[mechanism]\n'
               f'kind = "gaussian"\nl2 = 9\ndelta = 1e-6\nunit = "record"\nclipped_by = "{who}"\n'
               for who in ("gate", "app")),
         lambda a, b: float(np.abs(weights(a.reply)).max()) < 1.0 < float(weights(b.reply).min())),
    Line("records",  # the lines of the file itself; without it the app would have to return rows, and fails
         tuple(f'name = "a"\n[schedule]\nkind = "fixed-horizon"\nbudget = 4e6\nreleases = 8\n[mechanism]\n'
               f'kind = "gaussian"\nl2 = 9\ndelta = 1e-6\nunit = "record"\n[replies]\nexamples = 20\n{data}'
               for data in ("", '[records]\npath = "owner.toml"\n')),
         lambda a, b: float(np.abs(weights(a.reply)).max()) < 0.1 < float(weights(b.reply).min())),
    Line("mechanism.privunit.l2", noised('kind = "privunit"\nl2 = 2', 'kind = "privunit"\nl2 = 3'),
         in_mechanism(PrivUnit(2.0), PrivUnit(3.0))),
    Line("mechanism.privunit.norm", noised(*(f'kind = "privunit"\nl2 = 2\nnorm = "{n}"' for n in ("fixed", "private"))),
         in_mechanism(PrivUnit(2.0), PrivUnit(2.0, norm="private"))),
    Line("mechanism.privunit.norm_share",
         noised(*(f'kind = "privunit"\nl2 = 2\nnorm = "private"\nnorm_share = {s}' for s in (0.1, 0.2))),
         in_mechanism(PrivUnit(2.0, norm="private", norm_share=0.1), PrivUnit(2.0, norm="private", norm_share=0.2))),
    Line("batch_norm", noised(*(f'kind = "privunit"\nl2 = 2\nbatch_norm = "{b}"' for b in ("refuse", "keep-local"))),
         lambda a, b: (a.charge, b.charge.dimension) == (None, 1), {"arrays": NORM}),  # only w leaves
    Line("examples", replying("", "examples = 9"),
         lambda a, b: (a.numbers, b.numbers) == ({"num-examples": 1}, {"num-examples": 9})),
    Line("allow", tuple(f"{SIMULATED}[replies]\nallow = {names}\n" for names in ([], ["num-examples", "loss"])),
         lambda a, b: (a.numbers, b.numbers) == ({"num-examples": 1}, {"num-examples": 80, "loss": 0.5})),
    Line("messages", tuple(f"{SIMULATED}[replies]\nmessages = {kinds}\n" for kinds in ([], ["evaluate"])),
         lambda a, b: (a.reply.has_error(), b.reply.has_error()) == (True, False), {"kind": "evaluate"}),
    Line("rehearse", replying("", "rehearse = false", "rehearse = true"),
         lambda a, b, c: [s.reply.has_error() for s in (a, b, c)] == [True, True, False]
         and {**c.reply.content} == {"pausefl": {"name": "a"}}, {"kind": "query.rehearsal"}),
    Line("rehearse", (SIMULATED, f"{SIMULATED}[replies]\nrehearse = false\n"),
         lambda a, b: (a.reply.has_error(), b.reply.has_error()) == (False, True), {"kind": "query.rehearsal"}),
    Line("keep", replying("keep = 1", "keep = 3"), lambda a, b: (a.kept, b.kept) == (1, 3), {"releases": 4}),
    Line("keep", replying("keep = 0", "keep = 1"),
         lambda a, b: Refusal.of(a.reply.error) == Refusal("repeated", 1) and b.note.replayed
         and weights(b.replies[0]).tolist() == weights(b.replies[1]).tolist(), {"again": True}),
)  # fmt: skip


@pytest.mark.parametrize("row", LINES, ids=lambda row: row.name)
def test_a_key_of_the_owners_file_does_what_it_should(row: Line, tmp_path: Path) -> None:
    asked = dict(row.asked)
    seen = [
        answered(
            tmp_path / str(place), file, **asked.get("arrays", {}), **{k: v for k, v in asked.items() if k != "arrays"}
        )
        for place, file in enumerate(row.files)
    ]
    assert row.law(*seen), seen


def test_every_key_of_the_owners_file_has_a_row_and_every_row_a_key() -> None:
    parts = {"schedule": SCHEDULES, "mechanism": MECHANISMS}
    keys = {field.name for field in fields(Owner)} - set(parts)
    for part, kinds in parts.items():
        keys |= {f"{part}.{kind}.{field.name}" for kind, made in kinds.items() for field in fields(made)}
    assert {row.name for row in LINES} == keys
