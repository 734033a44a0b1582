"""Every TOML key of a run is alive: one row per key, with values that must matter and the law they must follow.

The laws put the same round together by hand, from the parts themselves.  So a run that uses another part, swaps two
numbers, forgets a key or draws from another stream differs from its law.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn, torch

from pausefl.errors import PauseError
from pausefl.learn.client_data import ClientData, normalised
from pausefl.learn.datasets import load_dataset, training_pool
from pausefl.learn.features import hog, hog_centred, pool
from pausefl.learn.learners import learner_for
from pausefl.learn.models import build_model
from pausefl.learn.optimizer import LocalPlan, Optimizer
from pausefl.learn.partition import by_labels, by_sizes, iid, natural
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, PowerLaw, PrivUnit, SimulatedNoise
from pausefl.privacy.zcdp import zcdp_epsilon, zcdp_within
from pausefl.rng import stream
from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.runs.play import run
from pausefl.selection import (
    POLICIES,
    All,
    Annealer,
    Brute,
    Candidates,
    ClusteredBySimilarity,
    ClusteredBySize,
    Fastest,
    Pause,
    Policy,
    Random,
    SaPause,
)
from pausefl.selector import Selector
from pausefl.sim.availability import AvailabilityTrace, Bernoulli, Diurnal, OnOff
from pausefl.sim.devices import device_latency
from pausefl.sim.disturbances import Drift, Jams, LateJoiners
from pausefl.sim.latency import FlooredNormal, LatencyModel, Quantile, Trace, two_groups
from pausefl.sim.learner import RecordNoise
from pausefl.sim.network import Network
from pausefl.system.state_file import read_state

Settings = Mapping[str, Any]


# What is looked at.


@cache
def _records(toml: str) -> list[dict[str, Any]]:
    config = make_config(tomllib.loads(toml))
    simulation = build(config)
    try:
        return list(simulation.play(config.run.rounds))
    finally:
        simulation.close()


def records(config: Config) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return _records(config.toml())


def models(config: Config) -> list[Any]:
    """The global model at first and after each round."""
    simulation = build(config)
    try:
        found = [simulation.model]
        for _ in range(config.run.rounds):
            simulation.step()
            found.append(simulation.model)
        return found
    finally:
        simulation.close()


def guarantee(config: Config) -> str:
    """What a run says of its leakage."""
    simulation = build(config)
    try:
        for _ in range(config.run.rounds):
            simulation.step()
        return simulation.guarantee()
    finally:
        simulation.close()


def refusal(config: Config) -> str:
    """The error of a run that cannot be built."""
    try:
        build(config).close()
    except PauseError as error:
        return str(error)
    return ""


def checkpoints(config: Config) -> list[int]:
    """The round in the checkpoint, at the end of each round."""
    with tempfile.TemporaryDirectory() as folder:
        file, found = Path(folder) / "checkpoint.state", []

        def watch(_: dict[str, Any]) -> None:
            found.append(read_state(file, "run")[0]["number"] if file.exists() else 0)

        run(config, Path(folder), watch=watch)
    return found


# The laws: selection and clock from the parts, without training.


def latency_of(s: Settings) -> LatencyModel:
    clients, floor, spread = s["network.clients"], s["network.tau_min"], s["network.spread"]
    means = np.linspace(s["network.mean"], s["network.slowest"] or s["network.mean"], clients)
    kind = s["network.latency"]
    if kind == "trace":
        return Trace(np.loadtxt(s["network.trace"], delimiter=",", ndmin=2))
    if kind == "two-groups":
        return two_groups(clients, floor)
    if kind == "devices":
        return device_latency(
            clients, median=s["network.mean"], spread=spread, floor=floor, rng=stream(s["run.seed"], "devices")
        )
    return FlooredNormal(means, spread, floor) if kind == "normal" else Quantile(kind, means, spread, floor)


def clusters_of(s: Settings) -> Any:
    count = s["network.clusters"]
    return None if count is None else stream(s["run.seed"], "clusters").integers(0, count, s["network.clients"])


def network_of(s: Settings) -> Network:
    presence: dict[str, Callable[[], Any]] = {
        "always": lambda: None,
        "bernoulli": lambda: Bernoulli(s["network.probability"]),
        "on-off": lambda: OnOff(leave=s["network.leave"], back=s["network.back"]),
        "diurnal": lambda: Diurnal(
            probability=s["network.probability"],
            swing=s["network.swing"],
            period=s["network.period"],
            zones=stream(s["run.seed"], "time zones").random(s["network.clients"]),
        ),
        "trace": lambda: AvailabilityTrace(np.loadtxt(s["network.availability_trace"], delimiter=",", ndmin=2) > 0.5),
    }
    return Network(
        latency_of(s), seed=s["run.seed"], availability=presence[s["network.availability"]](),
        dropout=s["network.dropout"], deadline=s["network.deadline"], clusters=clusters_of(s),
        congestion=s["network.congestion"], straggle=s["network.straggle"],
        drift=s["network.drift_at"] and Drift(
            start=s["network.drift_at"], share=s["network.drift_share"], factor=s["network.drift_factor"]
        ),
        jams=Jams(probability=s["network.jams"], factor=s["network.jam_factor"], rounds=s["network.jam_rounds"])
        if s["network.jams"] else None,
        late=LateJoiners(share=s["network.late"], most=s["network.late_by"]) if s["network.late"] else None,
    )  # fmt: skip


def schedule_of(s: Settings) -> Any:
    budget = s["privacy.budget"]
    kinds: dict[str, Callable[[], Any]] = {
        "geometric": lambda: Geometric(budget=budget, decay=s["privacy.decay"]),
        "power-law": lambda: PowerLaw(budget=budget, exponent=s["privacy.exponent"]),
        "fixed-horizon": lambda: FixedHorizon(budget=budget, releases=s["privacy.releases"]),
    }
    return kinds[s["privacy.schedule"]]()


class EveryNth(Policy):
    """Clients at a distance: a class of the user's own with an option."""

    name = "every-nth"

    def __init__(self, step: int) -> None:
        self.step = step

    def pick(self, candidates: Candidates) -> list[int]:
        return [(self.step * k) % len(candidates) for k in range(candidates.m)]


class Listening(Policy):
    """All clients, whose losses it hears."""

    name, size, needs = "listening", "all", frozenset({"loss"})

    def pick(self, candidates: Candidates) -> list[int]:
        return list(range(len(candidates)))


class Asking(Policy):
    """The first clients; the last three are asked for their losses."""

    name, needs = "asking", frozenset({"loss"})

    def ask(self, candidates: Candidates) -> list[int]:
        return list(range(len(candidates)))[-3:]

    def pick(self, candidates: Candidates) -> list[int]:
        return list(range(candidates.m))


def policy_of(s: Settings) -> Policy:
    reach = s["selection.alpha"] * (2 + s["selection.rho"] * (s["selection.per_round"] - 1)) + s["selection.gamma"]
    steps, kappa, options = s["selection.steps"], s["selection.kappa"], s["selection.options"]
    published = Annealer(steps=steps, kappa=kappa or 30.0, set_range=reach, restarts=False)
    policies: dict[str, Callable[[], Policy]] = {
        "pause": Pause, "brute": Brute, "random": Random, "all": All, "clustered": ClusteredBySize,
        "clustered-similarity": lambda: ClusteredBySimilarity(**options),
        "sa-pause-as-published": lambda: SaPause(published),
        "sa-pause": lambda: SaPause(Annealer(steps=steps, kappa=kappa or 3000.0, **options)),
        f"{__name__}:EveryNth": lambda: EveryNth(**options),
        "fastest": lambda: Fastest(latency_of(s).expected()),
    }  # fmt: skip
    name = s["selection.policy"]
    return policies[name]() if name in policies else POLICIES[name](**options)


def selector_of(s: Settings, sizes: Any) -> Selector:
    return Selector(
        sizes, s["selection.per_round"], policy_of(s), alpha=s["selection.alpha"], beta=s["selection.beta"],
        gamma=s["selection.gamma"], zeta=s["selection.zeta"], schedule=schedule_of(s), tau_min=s["network.tau_min"],
        clusters=clusters_of(s), rho=s["selection.rho"], memory=s["selection.memory"], seed=s["run.seed"],
    )  # fmt: skip


def replayed(s: Settings, seen: list[dict[str, Any]]) -> bool:
    """Choices, reasons, clock and leakage are those of a selector and a network put together by hand."""
    clients, network, schedule = s["network.clients"], network_of(s), schedule_of(s)
    selector = selector_of(s, np.ones(clients))
    online, clock = np.ones(clients, dtype=np.bool_), 0.0
    for number, record in enumerate(seen, start=1):
        online = network.online(online, number)
        if number == 1 and s["network.rehearsal"]:
            everybody = network.play(np.flatnonzero(online), 0)
            selector.expect(dict(zip(np.flatnonzero(online).tolist(), everybody.latency, strict=True)))
            clock += everybody.seconds
            assert record["rehearsal"] == everybody.seconds
        ready = online if schedule.limit is None else online & (selector.cohort.picks < schedule.limit)
        chosen, took, arrived = [], 0.0, 0
        if ready.any():
            choice = selector.select(ready, allow_fewer=True)
            chosen = list(choice.members)
            outcome = network.play(np.array(chosen), number)
            taken = [None if np.isnan(t) else t for t in outcome.latency.tolist()]
            selector.observe(dict(zip(chosen, taken, strict=True)))
            took, arrived = outcome.seconds, int(outcome.arrived.sum())
            assert record["terms"] == {k: v if np.isfinite(v) else None for k, v in choice.terms.items()}
        clock += took
        assert (record["members"], record["latency"], record["arrived"]) == (chosen, took, arrived)
        assert record["seconds"] == clock
        assert record["max_leakage"] == schedule.spent(selector.cohort.picks).max()
    return len(seen) == s["run.rounds"]


# The laws: training and noise from the parts.


def data_of(s: Settings) -> ClientData:
    dataset, seed, cpu = load_dataset(s["data.name"]), s["run.seed"], torch.device("cpu")
    chosen = training_pool(dataset, s["data.train_size"], seed)
    images, labels = dataset.train_images[chosen], dataset.train_labels[chosen]
    clients, concentration = s["network.clients"], s["data.concentration"]
    parts: dict[str, Callable[[np.random.Generator], Any]] = {
        "iid": lambda rng: iid(labels, clients, rng),
        "sizes": lambda rng: by_sizes(labels, clients, rng, concentration, s["data.dominant"]),
        "labels": lambda rng: by_labels(labels, clients, rng, concentration),
        "natural": lambda _: natural(np.asarray(dataset.owners)[chosen], clients),
    }
    kinds: dict[str, Callable[[Any], Any]] = {
        "none": lambda found: normalised(found, cpu),
        "pool": lambda found: torch.from_numpy(pool(found))[:, None, None],
        "hog": lambda found: torch.from_numpy(hog(found))[:, None, None],
        "hog-centred": lambda found: torch.from_numpy(hog_centred(found))[:, None, None],
        f"{__name__}:row_sums": lambda found: torch.from_numpy(row_sums(found))[:, None, None],
    }
    seen = kinds[s["learning.features"]]
    return ClientData(
        seen(images), torch.from_numpy(labels), seen(dataset.test_images), torch.from_numpy(dataset.test_labels),
        parts[s["data.partition"]](stream(seed, "partition")),
    )  # fmt: skip


def mechanism_of(s: Settings) -> Any:
    clip = s["privacy.clip"]
    if s["privacy.mechanism"] == "laplace" and s["privacy.unit"] == "coordinate":
        return Laplace(unit="coordinate", width=s["privacy.width"])
    kinds: dict[str, Callable[[], Any]] = {
        "laplace": lambda: Laplace(unit="update", l1=clip),
        "gaussian": lambda: Gaussian(
            l2=clip,
            delta=s["privacy.delta"],
            unit="record" if s["privacy.unit"] == "record" else "update",
            account=s["privacy.account"] or ("zcdp" if s["privacy.unit"] == "record" else "sum"),
        ),
        "privunit": lambda: PrivUnit(l2=clip),
    }
    return kinds[s["privacy.mechanism"]]()


def learner_of(s: Settings, data: ClientData) -> Any:
    seed = s["run.seed"]
    net = build_model(s["learning.model"], data.shape, 10, int(stream(seed, "model").integers(2**62)))
    plan = LocalPlan(
        optimizer=Optimizer(kind=s["learning.optimizer"], lr=s["learning.lr"], momentum=s["learning.momentum"]),
        batch=s["learning.batch"], epochs=s["learning.epochs"], max_steps=s["learning.max_steps"] or None,
        optimizer_state=s["learning.optimizer_state"],
    )  # fmt: skip
    return learner_for(net, data, plan, seed=seed, most=s["network.clients"])


def retrained(s: Settings, seen: list[Any]) -> bool:
    """Each model is the one before plus the mean of what the chosen clients send: by size, or as the policy says."""
    data, network, schedule = data_of(s), network_of(s), schedule_of(s)
    learner, selector = learner_of(s, data), selector_of(s, data.sizes)
    assert np.array_equal(seen[0], learner.initial())
    first = 0.0
    for number in range(1, s["run.rounds"] + 1):
        chosen = selector.select()
        members, epsilons = np.array(chosen.members), []
        if s["privacy.enabled"]:
            epsilons = [schedule.epsilon(int(selector.cohort.picks[client]) + 1) for client in chosen.members]
        mechanism, budget, delta = mechanism_of(s), s["privacy.budget"], s["privacy.delta"]
        if getattr(mechanism, "account", None) == "zcdp":
            epsilons = [zcdp_epsilon(zcdp_within(budget, delta) * one / budget, delta) for one in epsilons]
        if s["privacy.unit"] == "record":
            deviations = np.array([mechanism.sigma(one, s["learning.epochs"]) for one in epsilons])
            updates = learner.train(seen[number - 1], members, number, RecordNoise(s["privacy.clip"], deviations))
        else:
            updates = learner.train(seen[number - 1], members, number)
            for place, (client, epsilon) in enumerate(zip(chosen.members, epsilons, strict=bool(epsilons))):
                noise = SimulatedNoise(stream(s["run.seed"], "noise", number, client))
                updates[place] = mechanism.release(updates[place], epsilon, noise).update
        parts = data.sizes[members] if chosen.weights is None else np.array([chosen.weights[k] for k in chosen.members])
        step = s["server.step"]
        if s["server.aggregation"] == "matched":
            ratios = mechanism_of(s).noise_to_signal(updates.shape[1], np.array(epsilons)) ** 2
            memory = 1.0 / (1.0 - s["server.average"])
            parts = parts / (ratios + memory)
            noise = (parts / parts.sum()) ** 2 @ ratios
            first = first or noise
            step *= min(1.0, max(first, memory) / noise)
        model = seen[number - 1] + step * (parts / parts.sum()) @ updates
        assert np.allclose(seen[number], model, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(model).max())))
        latencies = network.play(members, number).latency.tolist()
        sent = dict(zip(chosen.members, updates, strict=True)) if selector.policy.learns else None
        selector.observe(dict(zip(chosen.members, latencies, strict=True)), sent)
    learner.close()
    return True


def heard(config: Config) -> list[Any]:
    """The model that each round starts from, what clients have told of their loss by its end, and its record."""
    simulation, found = build(config), []
    try:
        for _ in range(config.run.rounds):
            model = simulation.model
            record = simulation.step()
            found.append((model, simulation.selector.cohort.column("loss").copy(), record))
        return found
    finally:
        simulation.close()


def retold(s: Settings, seen: list[Any]) -> bool:
    """Everybody tells its loss: clipped, noised with its own name, and charged together with the updates."""
    data, shared = data_of(s), s["signals.kind"] != "bare"
    tellings = s["signals.releases"] or min(20, s["privacy.releases"])
    part = s["signals.share"] if shared else 0.0
    budget, bound, threshold = s["privacy.budget"], s["signals.bound"], s["signals.threshold"]
    last = np.full(s["network.clients"], np.nan)
    for number, (model, told, record) in enumerate(seen, start=1):
        left = number <= tellings or not shared
        assert record["signals"] == ([0, 1, 2] if left else [])
        spent = number * (1.0 - part) / s["privacy.releases"] + min(number, tellings) * part / tellings
        assert record["max_leakage"] == pytest.approx(budget * spent)
        for client in range(s["network.clients"]) if left else ():
            pixels, labels = data.train_images[data.parts[client]].flatten(1), data.train_labels[data.parts[client]]
            weights, bias = np.split(model, [640])
            logits = pixels @ torch.from_numpy(weights.reshape(10, 64)).T + torch.from_numpy(bias)
            losses = nn.functional.cross_entropy(logits, labels, reduction="none").clamp(0.0, bound)
            loss, rng = float(losses.mean()), stream(s["run.seed"], "signal", number, client)
            epsilon = budget * part / tellings
            if s["signals.kind"] == "noised":
                size = bound / (len(labels) if s["privacy.unit"] == "record" else 1)
                noised = np.array([loss])
                SimulatedNoise(rng).laplace(noised, size, epsilon, coordinates=1)
                loss = float(np.clip(noised[0], 0.0, bound))
            elif s["signals.kind"] == "bit":
                wrong = 1.0 / (1.0 + np.exp(epsilon))
                high = bool(loss > threshold) != bool(rng.integers(2**62) / 2**62 < wrong)
                halves = (threshold / 2.0, (threshold + bound) / 2.0)
                loss = (1.0 - wrong) * halves[high] + wrong * halves[not high]
            last[client] = loss
        assert np.allclose(told, last, atol=1e-4)
    return True


def asked_first(s: Settings, seen: list[dict[str, Any]]) -> bool:
    """Being asked takes a share of the time that training would take."""
    network, clients, clock = network_of(s), s["network.clients"], 0.0
    for number, record in enumerate(seen, start=1):
        assert record["signals"] == list(range(clients - 3, clients)) and record["members"] == [0, 1, 2]
        asking = s["signals.seconds_share"] * network.play(np.arange(clients - 3, clients), number).latency.max()
        clock += asking + network.play(np.arange(3), number).seconds
        assert record["asking"] == asking and record["seconds"] == pytest.approx(clock)
    return True


def closed_early(s: Settings, seen: list[dict[str, Any]]) -> bool:
    """Some more are asked; the round ends at an answer or at the deadline; who is out is timed when it is back."""
    clients, network, selector = s["network.clients"], network_of(s), selector_of(s, np.ones(s["network.clients"]))
    clock, out, known, quantile = 0.0, dict[int, tuple[float, float]](), list[float](), s["server.deadline_quantile"]

    def come_back() -> None:
        for client in [k for k, (arrival, _) in out.items() if arrival <= clock]:
            latency = out.pop(client)[1]
            selector.expect({client: latency})
            known.append(latency)

    for number, record in enumerate(seen, start=1):
        come_back()
        there = np.array([k not in out for k in range(clients)])
        asked = int(np.ceil(s["server.over_select"] * s["selection.per_round"]))
        members = selector.select(there, allow_fewer=True, per_round=asked).members
        latency = dict(zip(members, network.play(np.array(members), number).latency.tolist(), strict=True))
        awaited = s["server.close_after"] or (s["selection.per_round"] if asked > s["selection.per_round"] else asked)
        took = sorted(latency.values())[min(awaited, len(members)) - 1]
        if quantile is not None and len(known) >= 5:
            recent = sorted(known[-500:])
            limit = s["server.deadline_slack"] * recent[int(np.ceil(quantile * len(recent))) - 1]
            took = min(took, max(limit, min(latency.values())))
        late, start = [k for k in members if latency[k] > took], clock
        clock += took
        come_back()
        out |= {k: (start + latency[k], latency[k]) for k in late}
        known += [latency[k] for k in members if k not in late]
        selector.observe({k: None if k in late else latency[k] for k in members}, late=late)
        assert (record["members"], record["arrived"]) == (list(members), len(members) - len(late))
        assert record["latency"] == pytest.approx(took) and record["seconds"] == pytest.approx(clock)
        assert record.get("wasted", 0) == len(late)
    return any("wasted" in record for record in seen) == (awaited < asked or quantile is not None)


def late_ones(config: Config) -> list[Any]:
    """In each round, how many late updates came into use, how many were lost, and the model."""
    simulation, found = build(config), []
    try:
        for _ in range(config.run.rounds):
            record = simulation.step()
            found.append((record.get("late", 0), record.get("wasted", 0), simulation.model))
        return found
    finally:
        simulation.close()


def scores(config: Config) -> list[Any]:
    """The global model after each round, and what was scored."""
    simulation = build(config)
    try:
        return [(simulation.step()["accuracy"], simulation.model, simulation.scored) for _ in range(config.run.rounds)]
    finally:
        simulation.close()


def averaged(s: Settings, seen: list[Any]) -> bool:
    """What is scored is a mean of the models so far, in which a share of the former mean stays."""
    learner, mean = learner_of(s, data_of(s)), 0.0
    for number, (accuracy, model, scored) in enumerate(seen, start=1):
        share = max(1.0 - s["server.average"], 17.0 / (number + 16.0))
        mean = (1.0 - share) * mean + share * model
        assert np.allclose(scored, mean, atol=1e-6)
        assert accuracy == learner.evaluate(scored).accuracy
    learner.close()
    return True


def tiny_images() -> tuple[Any, ...]:
    """Data of somebody's own."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 255, (120, 6, 6), dtype=np.uint8), np.arange(120) % 10
    return images[:90], labels[:90], images[90:], labels[90:]


def owned_images() -> tuple[Any, ...]:
    """Data that says who holds what."""
    return (*tiny_images(), np.arange(90) // 10 % 3)


def row_sums(images: Any) -> Any:
    """Features of somebody's own."""
    return np.float32(images.mean(axis=(1, 3)) / 255.0)


def with_batch_norm(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """A model of somebody's own."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(shape[1] * shape[2]), nn.Linear(shape[1] * shape[2], classes))


@dataclass(frozen=True)
class Table:
    """A CSV file, as a value of a key."""

    rows: Any

    def written(self, folder: Path) -> str:
        path = folder / f"{abs(hash(str(self.rows)))}.csv"
        np.savetxt(path, np.array(self.rows), delimiter=",")
        return str(path)


@dataclass(frozen=True)
class Key:
    """What is seen must differ between any two of the values, and follow the law for each of them."""

    name: str
    values: tuple[Any, ...]
    seen: Callable[[Config], Any]
    law: Callable[[Settings, Any], bool]
    given: Settings = field(default_factory=dict)


BASE = {
    "learning.enabled": False, "network.clients": 8, "selection.per_round": 3, "selection.policy": "pause",
    "run.rounds": 12,
}  # fmt: skip
TRAINING = {
    "learning.enabled": True, "data.train_size": 60, "network.clients": 3, "selection.policy": "all",
    "learning.batch": 8, "learning.max_steps": 4, "privacy.enabled": False, "run.rounds": 2,
}  # fmt: skip
PRIVATE = TRAINING | {"privacy.enabled": True}
NOISIER = PRIVATE | {
    "network.clients": 8, "selection.per_round": 3, "selection.policy": "random", "privacy.decay": 2.0, "run.rounds": 8,
}  # fmt: skip
CHOSEN = TRAINING | {"network.clients": 8, "data.partition": "sizes", "run.rounds": 8, "learning.max_steps": 1}
ANNEALED = {"selection.policy": "sa-pause", "selection.steps": 30, "selection.alpha": 1.0, "run.rounds": 30}
EVERYBODY = {"selection.policy": "all"}
GROUPS = {"network.clusters": 3}
DAYS = {"network.availability": "diurnal", "network.probability": 0.5}
TOLD = PRIVATE | {
    "selection.policy": f"{__name__}:Listening", "learning.model": "softmax", "learning.lr": 0.1, "run.rounds": 3,
    "privacy.schedule": "fixed-horizon", "privacy.releases": 5, "privacy.budget": 200.0, "data.partition": "sizes",
}  # fmt: skip
QUICK, SLOW = [[0.1] * 8, [0.2] * 8], [[0.6, *[0.3] * 7]]
HALF, OTHERS = [[1, 0] * 4], [[0, 1] * 4]

KEYS = (
    Key("data.name", ("digits", f"{__name__}:tiny_images"), models, retrained, TRAINING),
    Key("data.train_size", (60, 80, None), models, retrained, TRAINING),
    Key("data.partition", ("iid", "sizes", "labels"), models, retrained, TRAINING),
    Key("data.partition", ("natural", "iid"), models, retrained, TRAINING | {"data.name": f"{__name__}:owned_images"}),
    Key("data.concentration", (0.5, 3.0), models, retrained, TRAINING | {"data.partition": "sizes"}),
    Key("data.concentration", (0.5, 3.0), models, retrained, TRAINING | {"data.partition": "labels"}),
    Key("data.dominant", (0.0, 0.9), models, retrained, TRAINING | {"data.partition": "sizes"}),
    Key("network.clients", (4, 8), records, replayed, EVERYBODY),
    Key("network.latency", ("two-groups", "normal", "lognormal", "exponential", "pareto", "devices"), records,
        replayed),
    Key("network.latency", ("trace", "pareto"), records, replayed, {"network.trace": Table(QUICK)}),
    Key("network.tau_min", (0.02, 0.09), records, replayed, {"network.latency": "exponential"}),
    Key("network.mean", (0.3, 0.6), records, replayed, {"network.latency": "exponential"}),
    Key("network.mean", (0.3, 0.6), records, replayed, {"network.latency": "devices"}),
    Key("network.tau_min", (0.02, 0.3), records, replayed, {"network.latency": "devices"}),
    Key("network.slowest", (None, 2.0), records, replayed, {"network.latency": "pareto"}),
    Key("network.spread", (0.2, 0.7), records, replayed, {"network.latency": "lognormal"}),
    Key("network.spread", (0.2, 0.7), records, replayed, {"network.latency": "normal"}),
    Key("network.spread", (0.2, 0.7), records, replayed, {"network.latency": "devices"}),
    Key("network.trace", (Table(QUICK), Table(SLOW)), records, replayed, {"network.latency": "trace"}),
    Key("network.availability", ("always", "bernoulli", "on-off", "diurnal"), records, replayed, EVERYBODY),
    Key("network.probability", (0.2, 0.8), records, replayed, EVERYBODY | {"network.availability": "bernoulli"}),
    Key("network.probability", (0.2, 0.8), records, replayed, EVERYBODY | {"network.availability": "diurnal"}),
    Key("network.swing", (0.0, 0.2, 0.5), records, replayed, EVERYBODY | DAYS),
    Key("network.period", (2, 6, 24), records, replayed, EVERYBODY | DAYS),
    Key("network.leave", (0.2, 0.8), records, replayed, EVERYBODY | {"network.availability": "on-off"}),
    Key("network.back", (0.2, 0.8), records, replayed, EVERYBODY | {"network.availability": "on-off"}),
    Key("network.availability_trace", (Table(HALF), Table(OTHERS)), records, replayed,
        EVERYBODY | {"network.availability": "trace"}),
    Key("network.dropout", (0.0, 0.5), records, replayed, EVERYBODY),
    Key("network.late", (0.0, 0.3, 0.6), records, replayed, EVERYBODY),
    Key("network.late_by", (2, 9), records, replayed, EVERYBODY | {"network.late": 0.5}),
    Key("network.straggle", (0.0, 0.1, 0.6), records, replayed, EVERYBODY | {"network.deadline": 2.0}),
    Key("network.deadline", (None, 0.5), records, replayed, EVERYBODY),
    Key("network.clusters", (2, 5), records, replayed, EVERYBODY | {"network.congestion": 0.1}),
    Key("network.congestion", (0.1, 0.2), records, replayed, EVERYBODY | GROUPS),
    Key("network.jams", (0.0, 0.1, 0.5), records, replayed, EVERYBODY | GROUPS),
    Key("network.jam_factor", (2.0, 5.0), records, replayed, EVERYBODY | GROUPS | {"network.jams": 0.1}),
    Key("network.jam_rounds", (1, 4), records, replayed, EVERYBODY | GROUPS | {"network.jams": 0.1}),
    Key("network.drift_at", (None, 1, 5), records, replayed),
    Key("network.drift_share", (0.2, 0.6), records, replayed, {"network.drift_at": 5}),
    Key("network.drift_factor", (2.0, 30.0), records, replayed, {"network.drift_at": 5}),
    Key("network.rehearsal", (False, True), records, replayed, {"network.dropout": 0.2, "selection.zeta": 9.0}),
    Key("selection.policy", ("pause", "sa-pause", "random", "fastest", "all", "clustered", "clustered-similarity"),
        records, replayed, {"selection.steps": 5}),
    Key("selection.policy", ("brute", "random"), records, replayed),
    Key("selection.policy", ("cs-ucb", "cs-ucb-q", "rbcs-f", "bsfl", "fedcs"), records, replayed, {"run.rounds": 20}),
    Key("selection.policy", ("refl", "random"), records, replayed,
        {"run.rounds": 20, "network.availability": "bernoulli", "network.probability": 0.6}),
    Key("selection.policy", ("sa-pause", "sa-pause-as-published"), records, replayed, ANNEALED),
    Key("selection.policy", ("sa-pause", "sa-pause-as-published"), records, replayed,
        ANNEALED | GROUPS | {"selection.rho": 0.5}),
    Key("selection.policy", ("pause", "random", "clustered", "clustered-similarity"), models, retrained, CHOSEN),
    Key("selection.per_round", (2, 3), records, replayed),
    Key("selection.alpha", (0.0, 50.0), records, replayed),
    Key("selection.beta", (1.5, 3.0), records, replayed),
    Key("selection.gamma", (0.0, 50.0), records, replayed),
    Key("selection.zeta", (0.5, 2.0), records, replayed),
    Key("selection.rho", (0.0, 0.5), records, replayed, GROUPS),
    Key("selection.memory", (None, 2, 5), records, replayed,
        {"selection.alpha": 0.0, "selection.zeta": 50.0, "run.rounds": 30}),
    Key("selection.steps", (1, 40), records, replayed, ANNEALED),
    Key("selection.kappa", (0.01, 3000.0), records, replayed, ANNEALED),
    Key("selection.kappa", (0.01, 3000.0), records, replayed,
        ANNEALED | {"selection.policy": "sa-pause-as-published"}),
    Key("selection.options", ({"graph": "tailored"}, {"graph": "vanilla"}), records, replayed, ANNEALED),
    Key("selection.options", ({"metric": "l1"}, {"metric": "angle"}), models, retrained,
        CHOSEN | {"selection.policy": "clustered-similarity", "run.rounds": 16}),
    Key("selection.options", ({"step": 1}, {"step": 2}), records, replayed,
        {"selection.policy": f"{__name__}:EveryNth"}),
    Key("privacy.enabled", (True, False), models, retrained, TRAINING),
    Key("privacy.budget", (10.0, 40.0), records, replayed),
    Key("privacy.budget", (10.0, 40.0), models, retrained, PRIVATE),
    Key("privacy.schedule", ("geometric", "power-law", "fixed-horizon"), records, replayed),
    Key("privacy.schedule", ("geometric", "power-law", "fixed-horizon"), models, retrained, PRIVATE),
    Key("privacy.decay", (0.04, 0.5), records, replayed),
    Key("privacy.decay", (0.04, 0.5), models, retrained, PRIVATE),
    Key("privacy.exponent", (1.5, 3.0), records, replayed, {"privacy.schedule": "power-law"}),
    Key("privacy.releases", (2, 4), records, replayed, EVERYBODY | {"privacy.schedule": "fixed-horizon"}),
    Key("privacy.releases", (2, 4), models, retrained, PRIVATE | {"privacy.schedule": "fixed-horizon"}),
    Key("privacy.mechanism", ("laplace", "gaussian", "privunit"), models, retrained, PRIVATE),
    Key("privacy.unit", ("coordinate", "update"), models, retrained, PRIVATE),
    Key("privacy.unit", ("update", "record"), models, retrained, PRIVATE | {"privacy.mechanism": "gaussian"}),
    Key("privacy.unit", ("update", "record"), guarantee,
        lambda s, said: ("any one record replaced" in said) == (s["privacy.unit"] == "record"),
        PRIVATE | {"privacy.mechanism": "gaussian"}),
    Key("privacy.account", ("sum", "zcdp"), models, retrained, PRIVATE | {"privacy.mechanism": "gaussian"}),
    Key("privacy.account", ("sum", "zcdp"), models, retrained,
        PRIVATE | {"privacy.mechanism": "gaussian", "privacy.unit": "record", "learning.epochs": 2}),
    Key("privacy.account", (None, "sum"), guarantee, lambda s, said: ("by zCDP" in said) == (not s["privacy.account"]),
        PRIVATE | {"privacy.mechanism": "gaussian", "privacy.unit": "record"}),
    Key("privacy.width", (0.003, 0.1), models, retrained, PRIVATE),
    Key("privacy.clip", (0.5, 2.0), models, retrained, PRIVATE | {"privacy.mechanism": "gaussian"}),
    Key("privacy.clip", (0.5, 2.0), models, retrained, PRIVATE | {"privacy.mechanism": "privunit"}),
    Key("privacy.clip", (0.5, 2.0), models, retrained, PRIVATE | {"privacy.unit": "update"}),
    Key("privacy.delta", (1e-5, 1e-6), models, retrained, PRIVATE | {"privacy.mechanism": "gaussian"}),
    Key("privacy.delta", (1e-5, 1e-6), guarantee,
        lambda s, said: f"delta = {2 * s['privacy.delta']:g} after 2 releases" in said,
        PRIVATE | {"privacy.mechanism": "gaussian"}),
    Key("privacy.batch_norm", ("keep-local", "refuse"), refusal,
        lambda s, said: ("batch norms" in said) is (s["privacy.batch_norm"] == "refuse"),
        PRIVATE | {"learning.model": f"{__name__}:with_batch_norm"}),
    Key("signals.kind", ("bit", "noised", "bare"), heard, retold, TOLD),
    Key("signals.share", (0.1, 0.4), heard, retold, TOLD),
    Key("signals.share", (0.1, 0.4), heard, retold, TOLD | {"signals.kind": "noised"}),
    Key("signals.releases", (None, 1, 2), heard, retold, TOLD),
    Key("signals.bound", (2.0, 6.0), heard, retold, TOLD),
    Key("signals.bound", (2.0, 6.0), heard, retold, TOLD | {"signals.kind": "bare"}),
    Key("signals.threshold", (0.5, 2.0), heard, retold, TOLD),
    Key("signals.seconds_share", (0.0, 0.5), records, asked_first,
        {"selection.policy": f"{__name__}:Asking", "signals.releases": 30}),
    Key("learning.model", ("mlp", f"{__name__}:with_batch_norm"), models, retrained,
        CHOSEN | {"selection.policy": "all", "run.rounds": 2}),  # more of them train than per_round says
    Key("learning.enabled", (False, True), records,
        lambda s, seen: all(("accuracy" in record) is s["learning.enabled"] for record in seen), TRAINING),
    Key("learning.features", ("none", "pool", "hog", "hog-centred", f"{__name__}:row_sums"), models, retrained,
        TRAINING),
    Key("learning.model", ("mlp", "linear", "softmax"), models, retrained, TRAINING),
    Key("learning.optimizer", ("adam", "sgd"), models, retrained, TRAINING),
    Key("learning.lr", (0.01, 0.1), models, retrained, TRAINING),
    Key("learning.momentum", (0.0, 0.9), models, retrained, TRAINING | {"learning.optimizer": "sgd"}),
    Key("learning.batch", (0, 4, 8), models, retrained, TRAINING),
    Key("learning.epochs", (1, 2), models, retrained, TRAINING | {"learning.max_steps": 0}),
    Key("learning.max_steps", (0, 1, 2), models, retrained, TRAINING),
    Key("learning.optimizer_state", ("keep", "fresh"), models, retrained, TRAINING),
    Key("learning.device", ("cpu", "abacus"), refusal,
        lambda s, said: (s["learning.device"] in said) is (s["learning.device"] != "cpu"), TRAINING),
    Key("server.aggregation", ("plain", "matched"), models, retrained, NOISIER),
    Key("server.step", (0.5, 1.0), models, retrained, TRAINING),
    Key("server.step", (0.5, 1.0), models, retrained, NOISIER | {"server.aggregation": "matched"}),
    Key("server.average", (0.0, 0.5, 0.9), scores, averaged, TRAINING | {"run.rounds": 24, "learning.max_steps": 1}),
    Key("server.average", (0.5, 0.9), models, retrained,
        PRIVATE | {"server.aggregation": "matched", "privacy.decay": 1.0, "run.rounds": 8}),
    Key("server.over_select", (1.0, 1.3, 2.0), records, closed_early, {"selection.policy": "random"}),
    Key("server.close_after", (None, 1, 2), records, closed_early),
    Key("server.deadline_quantile", (None, 0.2, 0.5), records, closed_early, {"run.rounds": 20}),
    Key("server.deadline_slack", (1.0, 1.5), records, closed_early,
        {"run.rounds": 20, "server.deadline_quantile": 0.3}),
    Key("server.late", ("waste", "use"), late_ones,
        lambda s, seen: (any(late for late, _, _ in seen), any(lost for _, lost, _ in seen))
        == (s["server.late"] == "use", s["server.late"] == "waste"),
        NOISIER | {"server.close_after": 2}),
    Key("run.rounds", (3, 5), records, replayed),
    Key("run.seed", (0, 1), records, replayed, {"selection.policy": "random", "network.clusters": 3}),
    Key("run.seed", (0, 1), records, replayed, {"network.latency": "devices", **DAYS}),
    Key("run.seed", (0, 1), models, retrained, PRIVATE | {"data.partition": "sizes"}),
    Key("run.evaluate_every", (1, 2), records,
        lambda s, seen: [r["round"] for r in seen if "accuracy" in r]
        == [n for n in range(1, 6) if n == 5 or n % s["run.evaluate_every"] == 0],
        TRAINING | {"run.rounds": 5}),
    Key("run.checkpoint_every", (2, 3), checkpoints,
        lambda s, seen: seen == [n if n == 7 else n - n % s["run.checkpoint_every"] for n in range(1, 8)],
        {"run.rounds": 7}),
)  # fmt: skip


def flat(config: Config) -> dict[str, Any]:
    return {
        f"{section}.{key}": value for section, values in config.model_dump().items() for key, value in values.items()
    }


def configured(settings: Settings) -> Config:
    sections: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        if value is not None:
            sections.setdefault(section, {})[key] = value
    return make_config(sections)


@pytest.mark.parametrize("row", KEYS, ids=lambda row: f"{row.name}-{row.seen.__name__}")
def test_a_key_changes_what_it_should(row: Key, tmp_path: Path) -> None:
    seen = []
    for value in row.values:
        settings = {**BASE, **row.given, row.name: value}
        settings = {k: v.written(tmp_path) if isinstance(v, Table) else v for k, v in settings.items()}
        config = configured(settings)
        seen.append(row.seen(config))
        assert row.law({**flat(make_config({})), **settings}, seen[-1])
    assert len({_text(one) for one in seen}) == len(seen)


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    assert {row.name for row in KEYS} == set(flat(make_config({})))


def _text(seen: Any) -> str:
    return json.dumps(seen, default=lambda array: array.tolist())
