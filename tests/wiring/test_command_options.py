"""Every option and argument of every command is alive: one row each, with calls that differ in it and what must follow.

All calls are real ones.  Each works in a folder of its own beside a stock of files that none of them changes.
"""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import typer
from flwr.app import Message, RecordDict
from tensorboardX.proto.event_pb2 import Event

from pausefl import __version__
from pausefl.cli import app, main
from pausefl.flower import client_audit
from pausefl.learn import download
from pausefl.learn.datasets import Dataset, load_dataset, store_dataset
from pausefl.owner.owner_file import Owner, read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, PrivUnit, SimulatedNoise, SqliteLedger, suggest
from pausefl.privacy.audit import attack, audit
from pausefl.runs.config import Config, load_config
from pausefl.runs.play import run
from pausefl.studies.claims.page import judged as claims_of
from pausefl.studies.evidence import gather

Ask = Callable[[str], "Seen"]

APP = """
[project]
name = "{}"
version = "1.0"
[tool.flwr.app]
publisher = "p"
components = {{serverapp = "it:app", clientapp = "it:app"}}
"""
REVIEWED = """
[[app]]
sha256 = "{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}1111111111111111aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb"
publisher = "p"
name = "{0}"
version = "1"
reviewed = "2026-01-01"
files = {{}}
"""
FILES = {
    "run.toml": """
        learning.enabled = false
        network.clients = 6
        selection = {policy = "random", per_round = 2}
        run.rounds = 3""",
    "longer.toml": "learning.enabled = false\nrun.rounds = 4",
    "mnist.toml": """
        data.name = "mnist"
        network.clients = 2
        selection.per_round = 1
        learning.model = "linear"
        run.rounds = 1""",
    "study.toml": """
        study = {title = "Mine", policies = ["random", "all"], seeds = 2, half = ["run.rounds=2"]}
        learning.enabled = false
        network.clients = 12
        selection.per_round = 3
        run.rounds = 3""",
    "other.toml": 'study = {title = "Yours", policies = ["pause"]}\nlearning.enabled = false\nrun.rounds = 2',
    "mnist-study.toml": """
        study = {title = "Images", policies = ["random"]}
        data.name = "mnist"
        network.clients = 2
        selection.per_round = 1
        learning.model = "linear"
        run.rounds = 1""",
    "trained.toml": """
        data.train_size = 100
        network.clients = 4
        selection = {policy = "random", per_round = 2}
        privacy.enabled = false
        run.rounds = 6""",
    "app/pyproject.toml": APP.format("wombat"),
    "other-app/pyproject.toml": APP.format("quokka"),
    "app/it.py": "app = None",
    "other-app/it.py": "app = None",
    "none.toml": "app = []",
    "apps.toml": REVIEWED.format("a") + REVIEWED.format("b"),
    "withdrawn-1.toml": REVIEWED.format("a") + REVIEWED.format("b"),
    "withdrawn-2.toml": REVIEWED.format("a") + REVIEWED.format("b"),
    "visits.csv": "who,where,day,dose\na,x,2026-03-01,2.0\nb,x,2026-04-01,007\nb,y,2026-05-01,\n",
    "more-visits.csv": "who,where,day,dose\nc,z,2026-03-01,1\n",
    "semicolons.csv": "who;dose\na;2,5\n",
    "tabs.csv": "who\tdose\na\t2\n",
    "written-over.jsonl": '[{"dose":1}]\n',
    "written-over.jsonl.form": '{"person": "who", "columns": ["dose"], "text": [], "missing": [], '
    '"decimal": ".", "encoding": "utf-8"}',
    "wombat.csv": "round,seconds,accuracy,max_leakage\n1,0.5,10,1\n2,1.0,20,2\n",
    "quokka.csv": "round,seconds,accuracy,max_leakage\n1,0.5,10,1\n2,1.0,20,2\n",
}


@dataclass(frozen=True)
class Seen:
    """What came of a call: exit code, outputs, its folder, and the time its child processes have worked."""

    code: int
    out: str
    err: str
    folder: Path
    children: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def config(self, place: str = "out") -> Config:
        return load_config(self.folder / place / "config.toml")

    def summary(self, place: str = "out") -> Any:
        return json.loads((self.folder / place / "summary.json").read_text())

    def page(self, place: str = "out/report.html") -> str:
        return (self.folder / place).read_text()

    def runs(self, place: str = "out") -> list[str]:
        """The folders of runs below this one."""
        top = self.folder / place
        return sorted(str(path.parent.relative_to(top)) for path in top.rglob("config.toml"))


def images(name: str, count: int) -> Dataset:
    rng = np.random.default_rng(count)
    train, test = (rng.integers(0, 256, (n, 1, 28, 28), dtype=np.uint8) for n in (count, 20))
    return Dataset(name, train, np.arange(count) % 10, test, np.arange(20) % 10)


def raw(data: Dataset) -> list[bytes]:
    return [
        b"\0" * 16 + data.train_images.tobytes(), b"\0" * 8 + data.train_labels.astype(np.uint8).tobytes(),
        b"\0" * 16 + data.test_images.tobytes(), b"\0" * 8 + data.test_labels.astype(np.uint8).tobytes(),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("stock")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    for name, count in (("small", 40), ("large", 60)):
        store_dataset(images("mnist", count), folder / name)
    for policy in ("random", "all"):
        run(
            load_config(folder / "trained.toml", [f"selection.policy={policy}"]),
            folder / "results" / "small-iid-r1" / policy,
        )
    run(load_config(folder / "trained.toml", ["run.seed=1"]), folder / "results-2" / "small-iid-r2" / "again")
    for name, releases in (("ledger.db", 3), ("longer.db", 5)):
        ledger = SqliteLedger.create(folder / name)
        for i in range(releases):
            ledger.reserve("a", f"run/{i}", Geometric(40.0, 0.04), mechanism=Laplace(unit="coordinate", width=1.0))
        ledger.reserve("b", "run/0", FixedHorizon(8.0, 4), mechanism=Gaussian(l2=1.0, delta=1e-5))
        closing = SqliteLedger.create(folder / f"closing-{name}")  # for commands that leave their mark
        for subject in "abcd":
            for i in range(releases):
                closing.reserve(subject, f"run/{i}", Geometric(40.0, 0.04))
    for name in ("one", "two"):
        SqliteLedger(init_owner(folder / name, name).ledger).backup(folder / f"{name}-backup.db")
    with pytest.MonkeyPatch.context() as patch:
        for name, count in (("mnist", 40), ("fashion-mnist", 60)):
            files = raw(images(name, count))
            for place in ("downloads", "elsewhere"):
                (folder / place / "raw" / name).mkdir(parents=True)
                for part, content in zip(download.IDX, files, strict=True):
                    (folder / place / "raw" / name / part).write_bytes(content)
            sums = tuple(download.md5(content).hexdigest() for content in files)
            patch.setitem(download.MD5, name, sums)  # they are checked against these instead of the published ones
        # The audits here are of sound mechanisms and clients, which need no thorough search.
        patch.setitem(attack.__kwdefaults__, "least", 40)
        patch.setattr(client_audit, "_TRIALS", 16)
        yield folder


@pytest.fixture(scope="module")
def ask(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    known: dict[str, Seen] = {}

    @contextmanager
    def first_user(line: str) -> Iterator[None]:
        """Let each ledger be the first of its user: no name gets a second one."""
        with pytest.MonkeyPatch.context() as patch:
            if line.startswith("owner init"):
                patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
            yield

    def called(line: str) -> Seen:
        if line not in known:
            folder, before = tmp_path_factory.mktemp("call"), Path.cwd()
            out, err, children = StringIO(), StringIO(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            os.chdir(folder)
            paths = sys.path.copy()
            try:
                with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stop, first_user(line):
                    main(shlex.split(line.replace("@", f"{stock}/")))
            finally:
                os.chdir(before)
                sys.path[:] = paths  # a command looks for the user's code in its folder
            worked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - children
            known[line] = Seen(int(stop.value.code or 0), out.getvalue(), err.getvalue(), folder, worked)
        return known[line]

    return called


@dataclass(frozen=True)
class Option:
    """``calls`` differ in the option alone; ``law`` is told what is seen of each.  ``@`` is the stock of files."""

    command: str
    name: str
    calls: tuple[str, ...]
    law: Callable[..., bool]


def alone(first: Seen, second: Seen) -> bool:
    """The first works in this process, the second in processes of its own."""
    return first.children == 0.0 < second.children and first.code == second.code == 0


def events(folder: Path) -> dict[tuple[str, int], float]:
    """What TensorBoard will show of a run: a number for each name and round."""
    found = {}
    [file] = (folder / "tensorboard").iterdir()
    content = file.read_bytes()
    while content:  # the length of an event, a checksum, the event, a checksum
        size = int.from_bytes(content[:8], "little")
        event, content = Event.FromString(content[12 : 12 + size]), content[16 + size :]
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
    return found


def not_a_client(here: Seen, elsewhere: Seen) -> bool:
    """An address of a Ray client is refused in one line; tests/e2e plays runs on a real cluster."""
    told = "pausefl: Ray address is 'ray://a:1', but must be HOST:PORT, 'auto' or 'local'"
    return (here.code, elsewhere.code, elsewhere.runs(".")) == (0, 2, []) and told in elsewhere.err


def table_or_json(plain: Seen, as_json: Seen) -> bool:
    return not plain.out.startswith(("[", "{")) and isinstance(as_json.json, (list, dict))


def make_app(which: int) -> Any:
    """Return an app that changes nothing, whatever its data."""
    return lambda message, context: Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)


def make_nothing(which: int) -> None:
    """Return no app."""


def attacked(seen: Seen, mechanism: Any = None, epsilon: float = 1.0, seed: int = 0, **options: Any) -> bool:
    """The finding is that of the audit called directly."""
    [found] = [one for one in seen.json if one["source"] == SimulatedNoise.name]
    target = mechanism or Laplace(unit="coordinate", width=1.0)
    settings = {"runs": 300, "error": 1.0 - 0.99, **options}
    return direct(target, epsilon, seed, tuple(settings.items())).items() <= found.items()


@cache
def direct(mechanism: Any, epsilon: float, seed: int, settings: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return asdict(audit(mechanism, epsilon, SimulatedNoise(np.random.default_rng(seed)), **dict(settings)))


def planned(**options: Any) -> Callable[..., bool]:
    """The second call's plan is the one of the library with these settings, and the first's is with those of PLAN."""
    plain = {"clients": 30, "per_round": 5, "dimension": 650, "budget": 4.0}
    plans = [asdict(suggest(**plain)), asdict(suggest(**plain | options))]
    return lambda *both: all(plan.items() <= one.json.items() for plan, one in zip(plans, both, strict=True))


def owned(seen: Seen) -> Owner:
    return read_owner(seen.folder / "a" / "owner.toml")


def recorded(seen: Seen, place: str = "out.jsonl") -> list[Any]:
    """What is in the records that a call has written, if it has written any."""
    path = seen.folder / place
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def listed(seen: Seen) -> list[str]:
    """The apps on the list that a call has made."""
    path = seen.folder / "list.toml"
    return [app["name"] for app in tomllib.loads(path.read_text())["app"]] if path.exists() else []


RECORDS, TABBED, COMMAS, OVER = (
    f"{table} --person who --columns dose --out {out}"
    for table, out in (
        ("@visits.csv", "out.jsonl"), ("@tabs.csv", "out.jsonl"), ("@semicolons.csv --delimiter ';'", "out.jsonl"),
        ("@visits.csv", "@written-over.jsonl"),
    )
)  # fmt: skip

# The SuperNode ends at once: its two options contradict each other.
START = "--owner @one/owner.toml {} -- --insecure --root-certificates x"


def started(*ends: str) -> Callable[..., bool]:
    """The law of a node that says these things of itself when it starts, and ends because its SuperNode does."""
    return lambda *all_: all(
        end in s.out + s.err and s.code == 2 and "the SuperNode does not listen" in s.err
        for end, s in zip(ends, all_, strict=True)
    )


def drawn(seen: Seen, what: str) -> list[float]:
    """The width of a drawing, or the sizes of its type."""
    found = re.findall(rf'\b{what}="([\d.]+)p[tx]"', (seen.folder / "fairness.svg").read_text())
    return sorted({float(number) for number in found})


def sizes(seen: Seen, place: str = "out") -> int:
    return int(sum(seen.summary(place)["clients"]["size"]))


def demo(seen: Seen) -> list[Config]:
    place = "there" if (seen.folder / "there").exists() else "runs/demo"
    return [seen.config(f"{place}/{one}") for one in seen.runs(place)]


def judged(folder: Path) -> list[Any]:
    evidence = gather(folder)
    found = claims_of(evidence)
    rows = [{"claim": c.text, "tested": c.test, "findings": [asdict(one) for one in some]} for c, some in found]
    return list(json.loads(json.dumps(rows)))


COMMITTED = Path(__file__).parents[2] / "results"
AUDIT = "--source simulated --json"
PLAN = "--clients 30 --per-round 5 --budget 4 --dimension 650 --json"
ATTACK = f"laplace --epsilon 1 --runs 300 {AUDIT}"
SMOKE = "@study.toml --scale smoke --seeds 1 --policy random --jobs 1 --out out"
TUNE = "@study.toml --vary network.dropout=0.1,0.3 --scale smoke --jobs 1 --out out"
TUNED = ["trial-0/seed-100", "trial-1/seed-100"]
CLOCK = "@run.toml --vary selection.per_round=1,6 --set run.rounds=40 --aim seconds --jobs 1 --out out --json"
DEMOS = ("--rounds 1 --jobs 1", "--rounds 2 --seed 5 --jobs 2 --out there --json")  # one for all: it is slow
PLAYED = "@results/small-iid-r1/random @results/small-iid-r1/all"
CHECK = "@results @results/small-iid-r1/all"
FIGURE = f"{PLAYED} --only fairness --format svg"
OFF = "@results/small-iid-r1/random --policy fastest --json"

OPTIONS = (
    Option("", "version", ("--version", "--help"),
           lambda version, rest: version.out == f"pausefl {__version__}\n" != rest.out),
    Option("run", "config", ("@run.toml --out out", "@longer.toml --out out"),
           lambda a, b: (a.summary()["rounds"], b.summary()["rounds"]) == (3, 4)),
    Option("run", "out", ("@run.toml --out out", "@run.toml --out in/there"),
           lambda a, b: (a.runs("."), b.runs(".")) == (["out"], ["in/there"])),
    Option("run", "overrides", ("@run.toml --out out", "@run.toml --out out --set run.rounds=5 --set run.seed=7"),
           lambda a, b: [(s.summary()["rounds"], s.summary()["seed"]) for s in (a, b)] == [(3, 0), (5, 7)]),
    Option("run", "overrides", ("@run.toml --out out", "@run.toml --out out --set privacy.enabled=false"),
           lambda *both: ["random (no privacy)" in s.out for s in both] == [False, True]),
    Option("run", "seeds", ("@run.toml --out out", "@run.toml --out out --seeds 2 --set run.seed=4"),
           lambda a, b: (a.runs(), b.runs()) == (["."], ["seed-4", "seed-5"]) and b.summary("out/seed-5")["seed"] == 5),
    Option("run", "jobs", ("@run.toml --out out --seeds 2 --jobs 1", "@run.toml --out out --seeds 2 --jobs 2"), alone),
    Option("run", "jobs", tuple(f"@mnist.toml --out out --data-dir @small --set learning.model=cnn3 --jobs {n}"
                                for n in (1, 2)), alone),  # one run: its clients train in two processes
    Option("run", "ray", ("@run.toml --out out", "@run.toml --out out --ray ray://a:1"), not_a_client),
    Option("run", "data_dir", ("@mnist.toml --out out --data-dir @small", "@mnist.toml --out out --data-dir @large"),
           lambda a, b: (sizes(a), sizes(b)) == (40, 60)),
    Option("run", "tensorboard", ("@run.toml --out out --seeds 2", "@run.toml --out out --seeds 2 --tensorboard"),
           lambda a, b: not list(a.folder.rglob("tensorboard"))
           and [events(b.folder / "out" / seed)["seconds", 3] for seed in ("seed-0", "seed-1")]
           == pytest.approx([b.summary(f"out/{seed}")["seconds"] for seed in ("seed-0", "seed-1")])),
    Option("run", "as_json", ("@run.toml --out out --seeds 2", "@run.toml --out out --seeds 2 --json"),
           lambda a, b: table_or_json(a, b) and b.json == [b.summary(f"out/seed-{n}") for n in (0, 1)]),
    Option("demo", "out", DEMOS, lambda a, b: len(a.runs("runs/demo")) == len(b.runs("there")) == 12
           and b.page("there/coordinate/report.html") != ""),
    Option("demo", "rounds", DEMOS, lambda *both: [{c.run.rounds for c in demo(s)} for s in both] == [{1}, {2}]),
    Option("demo", "seed", DEMOS, lambda *both: [{c.run.seed for c in demo(s)} for s in both] == [{0}, {5}]),
    Option("demo", "jobs", DEMOS, alone),
    Option("demo", "as_json", DEMOS,
           lambda a, b: table_or_json(a, b) and list(b.json) == ["whole-update", "coordinate"]
           and {tuple(one["time_to"]) for some in b.json.values() for one in some} == {("80.0", "90.0")}
           and a.out.count("s to 80 %") == a.out.count("s to 90 %") == 2),
    Option("study", "name", (SMOKE, SMOKE.replace("study", "other").replace("random", "pause")),
           lambda a, b: a.runs() == ["random/seed-0"] and b.runs() == ["pause/seed-0"] and "Yours" in b.page()),
    Option("study", "listed", ("--list", "--list --json"),
           lambda a, b: all(one["name"] in a.out and one["title"] in a.out for one in b.json) and len(b.json) >= 10),
    Option("study", "scale", (SMOKE, SMOKE.replace("smoke", "half"), SMOKE.replace("smoke", "full")),
           lambda *all_: [s.config("out/random/seed-0").run.rounds for s in all_] == [4, 2, 3]
           and ["scale" in s.out.splitlines()[-2] for s in all_] == [True, True, False]),
    Option("study", "seeds", (SMOKE, SMOKE.replace("--seeds 1", "--seeds 3"), SMOKE.replace("--seeds 1", "").replace(
           "smoke", "half")), lambda *all_: [len(s.runs()) for s in all_] == [1, 3, 2]),
    Option("study", "policies", (SMOKE, SMOKE.replace("--policy random", "")),
           lambda a, b: a.runs() == ["random/seed-0"] and b.runs() == ["all/seed-0", "random/seed-0"]),
    Option("study", "jobs", (f"{SMOKE} --seeds 2", f"{SMOKE} --seeds 2 --jobs 2"), alone),
    Option("study", "ray", (SMOKE, f"{SMOKE} --ray ray://a:1"), not_a_client),
    Option("study", "ray", ("g-function --scale smoke --out out", "g-function --scale smoke --out out --ray auto"),
           lambda a, b: (a.code, b.code) == (0, 2) and "has no runs for a cluster" in b.err),
    Option("study", "out", (SMOKE, SMOKE.replace("--out out", "")),
           lambda a, b: a.runs() == b.runs("runs/study-smoke") == ["random/seed-0"]),
    Option("study", "reference", (SMOKE, f"{SMOKE} --reference @wombat.csv --reference @quokka.csv"),
           lambda a, b: "wombat" not in a.page() and "wombat" in b.page() and "quokka" in b.page()),
    Option("study", "data_dir", tuple(f"@mnist-study.toml --scale full --seeds 2 --out out --data-dir @{d}" for d in (
           "small", "large --jobs 1")),  # else two seeds are played by two processes, which must know the folder too
           lambda *both: [sizes(s, f"out/random/seed-{n}") for s in both for n in (0, 1)] == [40, 40, 60, 60]),
    Option("study", "overrides", (SMOKE, f"{SMOKE} --set run.rounds=6"),
           lambda *both: [s.summary("out/random/seed-0")["rounds"] for s in both] == [4, 6]),
    Option("study", "as_json", (SMOKE, f"{SMOKE} --json"), table_or_json),
    Option("study", "as_json", (f"{SMOKE.replace('--policy random', '')} --json",),
           lambda seen: sorted(one["name"] for one in seen.json) == ["all", "random"]),
    Option("tune", "source", (*(TUNE.replace("smoke", "full").replace("study", name) for name in ("study", "other")),
           TUNE.replace("study", "run").replace("--scale smoke", "")),
           lambda *all_: [s.config("out/trial-0/seed-100").network.clients for s in all_] == [12, 30, 6]),
    Option("tune", "vary", (TUNE, TUNE.replace("network.dropout", "privacy.decay"), f"{TUNE} --vary privacy.decay=0.2"),
           lambda *all_: [[(s.config(f"out/{one}").network.dropout, s.config(f"out/{one}").privacy.decay)
                           for one in s.runs()] for s in all_]
           == [[(0.1, 0.04), (0.3, 0.04)], [(0.0, 0.1), (0.0, 0.3)], [(0.1, 0.2), (0.3, 0.2)]]),
    Option("tune", "reach", tuple(f"@trained.toml --vary learning.lr=0.02 --jobs 1 --out out --json --reach {n}"
                                  for n in (5, 100)),
           lambda a, b: a.json["best"]["found"]["rounds"] < 6 == b.json["trials"][0]["found"]["rounds"]
           and (b.json["best"], b.json["trials"][0]["found"]["seconds"]) == (None, None)),
    Option("tune", "most_leakage", tuple(f"{CLOCK} --most-leakage {n}" for n in (0.001, 100)),
           lambda a, b: (a.json["best"], a.json["front"]) == (None, []) and b.json["best"] is not None),
    Option("tune", "aim", (CLOCK, CLOCK.replace("seconds", "front")),
           lambda a, b: (a.json["aim"], b.json["aim"])
           == ("least seconds", "Pareto front of seconds, leakage and accuracy")),
    Option("tune", "aim", tuple(f"@trained.toml --vary selection.per_round=1,4 --jobs 1 --out out --json --aim {aim}"
                                for aim in ("seconds", "accuracy")),
           lambda a, b: a.json["best"]["values"] == {"selection.per_round": "1"}
           and b.json["best"]["found"]["accuracy"] == max(one["found"]["accuracy"] for one in b.json["trials"])),
    Option("tune", "trials", tuple(f"@run.toml --vary selection.alpha=0.1..9 --jobs 1 --out out --trials {n}"
                                   for n in (2, 3)), lambda *both: [len(s.runs()) for s in both] == [2, 3]),
    Option("tune", "seeds", (TUNE, f"{TUNE} --seeds 2"), lambda a, b: a.runs() == TUNED
           and [name.rpartition("-")[2] for name in b.runs()] == ["100", "101"] * 2),
    Option("tune", "seed", (TUNE, f"{TUNE} --seed 3"),
           lambda *both: [s.config(f"out/{s.runs()[0]}").run.seed for s in both] == [100, 3]),
    Option("tune", "prune", (CLOCK, f"{CLOCK} --prune", f"{CLOCK} --no-prune"),
           lambda *all_: [[one["state"] for one in s.json["trials"]] for s in all_]
           == [["finished", "finished"], ["finished", "stopped early"], ["finished", "finished"]]),
    Option("tune", "policy", (TUNE, f"{TUNE} --policy pause"),
           lambda *both: [s.config("out/trial-0/seed-100").selection.policy for s in both] == ["random", "pause"]),
    Option("tune", "policy", (CLOCK, f"{CLOCK} --policy fastest"),
           lambda *both: [s.config("out/trial-0/seed-100").selection.policy for s in both] == ["random", "fastest"]),
    Option("tune", "scale", (TUNE, TUNE.replace("smoke", "half"), TUNE.replace("smoke", "full")),
           lambda *all_: [s.config("out/trial-0/seed-100").run.rounds for s in all_] == [4, 2, 3]),
    Option("tune", "jobs", (TUNE, TUNE.replace("--jobs 1", "--jobs 2")), alone),
    Option("tune", "out", (TUNE, TUNE.replace("--out out", "")),
           lambda a, b: a.runs() == b.runs("runs/tune-study-network.dropout") == TUNED),
    Option("tune", "data_dir", tuple(f"@mnist-study.toml --vary learning.lr=0.1 --scale full --out out --data-dir @{d}"
           for d in ("small", "large")), lambda *both: [sizes(s, "out/trial-0/seed-100") for s in both] == [40, 60]),
    Option("tune", "overrides", (TUNE, f"{TUNE} --set run.rounds=6"),
           lambda *both: [s.summary("out/trial-0/seed-100")["rounds"] for s in both] == [4, 6]),
    Option("tune", "as_json", (TUNE, f"{TUNE} --json"),
           lambda a, b: table_or_json(a, b) and len(b.json["trials"]) == 2),
    Option("compare", "folders", (f"{PLAYED} --json", "@results/small-iid-r1/all --json", "@results-2 --json"),
           lambda *all_: [{p["name"]: p["seeds"] for p in s.json} for s in all_]
           == [{"random (no privacy)": 1, "all (no privacy)": 1}, {"all (no privacy)": 1}, {"random (no privacy)": 1}]),
    Option("compare", "target", (f"{PLAYED} --json --target 15", f"{PLAYED} --json --target 20 --target 25"),
           lambda *both: [sorted(s.json[0]["time_to"]) for s in both] == [["15.0"], ["20.0", "25.0"]]),
    Option("compare", "as_json", (PLAYED, f"{PLAYED} --json"), table_or_json),
    Option("compare", "form", tuple(f"{PLAYED} --format {form}" for form in ("table", "csv", "latex", "json")),
           lambda table, text, latex, as_json: table_or_json(table, as_json)
           and [row["policy"] for row in csv.DictReader(StringIO(text.out))] == [one["name"] for one in as_json.json]
           and "\\begin{tabular}" in latex.out),
    Option("compare", "paired", (f"{PLAYED} --json", f"{PLAYED} --json --paired"),
           lambda a, b: b.json["policies"] == a.json and b.json["paired"][0]["seeds"] == 1),
    Option("compare", "against", tuple(f"{PLAYED} --json --paired {more}" for more in (
           "", "--against 'random (no privacy)'")),
           lambda a, b: a.json["paired"][0]["difference"] == -b.json["paired"][0]["difference"]
           and b.json["paired"][0]["reference"] == "random (no privacy)"),
    Option("off-policy", "run", (OFF, OFF.replace("results/small-iid-r1/random", "results-2/small-iid-r2/again")),
           lambda a, b: a.json["played"] == b.json["played"] == "random" and a.json != b.json),
    Option("off-policy", "policy", (OFF, OFF.replace("fastest", "random")),
           lambda a, b: (a.json["policy"], b.json["policy"]) == ("fastest", "random") and a.json != b.json),
    Option("off-policy", "first", (OFF, f"{OFF} --first 4"),
           lambda a, b: (a.json["rounds"], b.json["rounds"]) == (6, 3)),
    Option("off-policy", "as_json", (OFF.removesuffix("--json"), OFF), table_or_json),
    Option("report", "folders", (PLAYED, "@results/small-iid-r1/all"),
           lambda a, b: "random" in a.page("report.html") and "random (no" not in b.page("report.html")),
    Option("report", "out", (PLAYED, f"{PLAYED} --out mine.html"),
           lambda a, b: a.page("report.html") == b.page("mine.html") and not (b.folder / "report.html").exists()),
    Option("report", "title", (PLAYED, f"{PLAYED} --title Marsupials"),
           lambda a, b: "<title>Marsupials" in b.page("report.html") and "Marsupials" not in a.page("report.html")),
    Option("report", "reference", (PLAYED, f"{PLAYED} --reference @wombat.csv"),
           lambda a, b: "wombat" in b.page("report.html") and "wombat" not in a.page("report.html")),
    Option("report", "images", (PLAYED, f"{PLAYED} --images drawn"),
           lambda a, b: not (a.folder / "drawn").exists() and {p.suffix for p in (b.folder / "drawn").iterdir()}
           == {".png", ".svg"}),
    Option("report", "only", (f"{PLAYED} --images drawn --only latency", f"{PLAYED} --images drawn --only fairness"),
           lambda *both: [{p.stem for p in (s.folder / "drawn").iterdir()} for s in both]
           == [{"latency"}, {"fairness"}]),
    Option("report", "form", tuple(f"{PLAYED} --only latency --format {form}" for form in ("html", "pdf", "svg")),
           lambda *all_: [p.name for s in all_ for p in s.folder.iterdir()]
           == ["report.html", "latency.pdf", "latency.svg"]
           and (all_[1].folder / "latency.pdf").read_bytes().startswith(b"%PDF")),
    Option("report", "width", (FIGURE, f"{FIGURE} --width 100mm"),
           lambda *both: [drawn(s, "width") for s in both]
           == [pytest.approx([252.0], abs=1), pytest.approx([283.5], abs=1)]),
    Option("report", "font_size", (FIGURE, f"{FIGURE} --font-size 10"),
           lambda *both: [drawn(s, "font-size") for s in both] == [[8.0], [10.0]]),
    Option("report", "label", (PLAYED, f"{PLAYED} --label all=Ours"),
           lambda a, b: "data-run='Ours'" in b.page("report.html") and "data-run='all (no privacy)'" not in
           b.page("report.html") and "data-run='all (no privacy)'" in a.page("report.html")),
    Option("watch", "run", ("@run.toml", "@results"),  # nothing that would go on for ever
           lambda a, b: "run.toml is not a Flower checkpoint" in a.err and "results holds 2 runs" in b.err),
    Option("watch", "port", tuple(f"@run --host 240.0.0.1 --port {port}" for port in (7001, 7002)),
           lambda *both: [f"port {port} cannot be opened" in s.err for port, s in zip((7001, 7002), both, strict=True)]
           == [True, True]),
    Option("watch", "host", tuple(f"@run --host 240.0.0.{last}" for last in (1, 2)),  # reserved: nobody has these
           lambda *both: [f"240.0.0.{last} port" in s.err for last, s in zip((1, 2), both, strict=True)]
           == [True, True]),
    Option("data fetch", "name", ("mnist --data-dir @downloads", "fashion-mnist --data-dir @downloads"),
           lambda *both: [len(load_dataset(name, Path(s.out.removeprefix("wrote ").strip()).parent).train_labels)
                          for s, name in zip(both, ("mnist", "fashion-mnist"), strict=True)] == [40, 60]),
    Option("data fetch", "data_dir", ("mnist --data-dir @downloads", "mnist --data-dir @elsewhere"),
           lambda *both: [Path(s.out.removeprefix("wrote ").strip()).parent.name for s in both]
           == ["downloads", "elsewhere"]),
    Option("data list", "data_dir", ("--data-dir @small --json", "--data-dir @nowhere --json"),
           lambda a, b: (a.json["data"]["mnist"], b.json["data"]["mnist"]) == (True, False)),
    Option("data list", "as_json", ("--data-dir @small", "--data-dir @small --json"), table_or_json),
    Option("owner init", "folder", ("a --name x", "b --name x"),
           lambda a, b: (a.folder / "a" / "owner.toml").exists() and (b.folder / "b" / "ledger.db").exists()),
    Option("owner init", "name", ("a --name x", "a --name y"),
           lambda *both: [owned(s).name for s in both] == ["x", "y"]),
    Option("owner init", "simulation", ("a --name x", "a --simulation"),
           lambda *both: [(owned(s).simulation, owned(s).name, (s.folder / "a" / "ledger.db").exists()) for s in both]
           == [(False, "x", True), (True, "client-{partition-id}", False)]),
    Option("owner init", "budget", ("a --name x", "a --name x --budget 4"),
           lambda *both: [owned(s).schedule for s in both] == [FixedHorizon(8.0, 8), FixedHorizon(4.0, 8)]),
    Option("owner init", "releases", ("a --name x", "a --name x --releases 4"),
           lambda *both: [owned(s).schedule for s in both] == [FixedHorizon(8.0, 8), FixedHorizon(8.0, 4)]),
    Option("owner init", "unit", ("a --name x --unit update", "a --name x --unit record --records 7"),
           lambda *both: [owned(s).mechanism.guarantee.unit for s in both] == ["update", "record"]),
    Option("owner init", "records", ("a --name x --records 7", "a --name x --records 8"),
           lambda *both: [owned(s).examples for s in both] == [7, 8]),
    Option("owner init", "records_from", ("a --name x --records-from @one", "a --name x --records-from @two"),
           lambda *both: [owned(s).records.name for s in both] == ["one", "two"] and owned(both[0]).examples > 0),
    Option("owner init", "delta", ("a --name x --records 7", "a --name x --records 7 --delta 1e-7"),
           lambda *both: [owned(s).mechanism for s in both]
           == [Gaussian(1.0, 1e-6, "record"), Gaussian(1.0, 1e-7, "record")]),
    Option("owner init", "clip", ("a --name x", "a --name x --clip 0.5"),
           lambda *both: [owned(s).mechanism for s in both] == [PrivUnit(1.0), PrivUnit(0.5)]),
    Option("owner records", "table", (RECORDS, RECORDS.replace("visits", "more-visits")),
           lambda *both: [recorded(s) for s in both]
           == [[[{"dose": 2}], [{"dose": None}, {"dose": 7}]], [[{"dose": 1}]]]),
    Option("owner records", "person", (RECORDS, RECORDS.replace("who", "where")),
           lambda *both: [[len(r) for r in recorded(s)] for s in both] == [[1, 2], [2, 1]]),
    Option("owner records", "columns", (RECORDS, RECORDS.replace("columns dose", "columns day --columns dose")),
           lambda *both: [list(recorded(s)[0][0]) for s in both] == [["dose"], ["day", "dose"]]),
    Option("owner records", "out", (RECORDS, RECORDS.replace("out.jsonl", "there.jsonl")),
           lambda a, b: recorded(a) == recorded(b, "there.jsonl") != [] == recorded(b)),
    Option("owner records", "text", (RECORDS, f"{RECORDS} --text dose"),
           lambda *both: [recorded(s)[0] for s in both] == [[{"dose": 2}], [{"dose": "2.0"}]]),
    Option("owner records", "missing", (RECORDS, f"{RECORDS} --missing 2"),
           lambda *both: [recorded(s)[0] for s in both] == [[{"dose": 2}], [{"dose": None}]]),
    Option("owner records", "delimiter", (TABBED, f"{TABBED} --delimiter tab"),
           lambda a, b: a.code == 2 and "--delimiter" in a.err and recorded(b) == [[{"dose": 2}]]),
    Option("owner records", "decimal", tuple(f"{COMMAS} --decimal {d}" for d in ".,"),
           lambda a, b: a.code == 2 and "--decimal" in a.err and recorded(b) == [[{"dose": 2.5}]]),
    Option("owner records", "encoding", (RECORDS, f"{RECORDS} --encoding utf-16"),
           lambda a, b: (a.code, b.code) == (0, 2) and "is not in UTF-16" in b.err),
    Option("owner records", "replace", (OVER, f"{OVER} --replace"),
           lambda a, b: (a.code, b.code) == (2, 0) and "--replace" in a.err),
    Option("owner check", "file", ("@one/owner.toml --json", "@two/owner.toml --json"),
           lambda a, b: (a.json["name"], b.json["name"]) == ("one", "two")),
    Option("owner check", "dimension", ("@one/owner.toml --json", "@one/owner.toml --json --dimension 100"),
           lambda a, b: (a.json["noise_to_signal"], b.json["noise_to_signal"])
           == (None, PrivUnit(1.0).noise_to_signal(100, FixedHorizon(8.0, 8).epsilon(1)))),
    Option("owner check", "as_json", ("@one/owner.toml", "@one/owner.toml --json"), table_or_json),
    Option("ledger show", "path", ("@ledger.db --json", "@longer.db --json"),
           lambda *both: [[one["releases"] for one in s.json] for s in both] == [[3, 1], [5, 1]]),
    Option("ledger show", "delta", ("@ledger.db --json --delta 1e-4", "@ledger.db --json --delta 1e-8"),
           lambda *both: [s.json[0]["tight_delta"] for s in both] == [1e-4, 1e-8]),
    Option("ledger show", "as_json", ("@ledger.db", "@ledger.db --json"), table_or_json),
    Option("ledger verify", "path", ("@ledger.db --json", "@longer.db --json"),
           lambda *both: [s.json["rows"] for s in both] == [4, 6]),
    Option("ledger verify", "head", ("@ledger.db --json", f"@ledger.db --json --head {'f' * 64}"),
           lambda a, b: (a.code, b.code) == (0, 2)),
    Option("ledger verify", "as_json", ("@ledger.db", "@ledger.db --json"), table_or_json),
    Option("ledger export", "path", ("@ledger.db", "@longer.db"), lambda *both: [len(s.json) for s in both] == [4, 6]),
    Option("ledger export", "form", ("@ledger.db", "@ledger.db --format csv"),
           lambda a, b: [r["release"] for r in csv.DictReader(b.out.splitlines())] == [r["release"] for r in a.json]),
    Option("ledger export", "as_json", ("@ledger.db --format csv", "@ledger.db --format csv --json"), table_or_json),
    Option("ledger retire", "path", ("@closing-ledger.db --subject a --yes", "@closing-longer.db --subject a --yes"),
           lambda a, b: (a.code, b.code) == (0, 0) and a.out != b.out),
    Option("ledger retire", "subject", ("@closing-ledger.db --yes --subject b", "@closing-ledger.db --yes --subject c"),
           lambda a, b: a.out.startswith("b is retired") and b.out.startswith("c is retired")),
    Option("ledger retire", "yes", ("@closing-ledger.db --subject d", "@closing-ledger.db --subject d --yes"),
           lambda a, b: (a.code, b.code) == (2, 0) and "--yes" in a.err),
    Option("ledger backup", "path", ("@ledger.db copy.db --json", "@longer.db copy.db --json"),
           lambda *both: [s.json["rows"] for s in both] == [4, 6]),
    Option("ledger backup", "target", ("@ledger.db one.db --json", "@ledger.db two.db --json"),
           lambda a, b: a.json == b.json and (a.folder / "one.db").exists() and (b.folder / "two.db").exists()),
    Option("ledger backup", "as_json", ("@ledger.db copy.db", "@ledger.db copy.db --json"), table_or_json),
    Option("ledger restore", "path", ("@one/ledger.db --json", "@two/ledger.db --json"),
           lambda a, b: a.code == b.code == 0 and a.json["head"] != b.json["head"]),
    Option("ledger restore", "backup", tuple(f"@one/ledger.db --from @{name}-backup.db" for name in ("one", "two")),
           lambda a, b: (a.code, b.code) == (0, 2) and "with the noted id" in b.err),
    Option("ledger restore", "releases", ("@one/ledger.db --releases 0", "@one/ledger.db --releases 1"),
           lambda a, b: (a.code, b.code) == (0, 2) and "releases is 1, but" in b.err),
    Option("ledger restore", "as_json", ("@one/ledger.db", "@one/ledger.db --json"), table_or_json),
    Option("audit", "mechanism", tuple(f"{name} --epsilon 1 --runs 300 {AUDIT}" for name in (
           "laplace", "laplace-update", "gaussian", "gaussian-zcdp", "gaussian-record", "privunit", "privunit-norm")),
           lambda *all_: [s.json[0]["mechanism"] for s in all_] == [repr(one) for one in (
               Laplace(unit="coordinate", width=1.0), Laplace(unit="update", l1=1.0), Gaussian(l2=1.0, delta=1e-5),
               Gaussian(l2=1.0, delta=1e-5, account="zcdp"), Gaussian(l2=1.0, delta=1e-5, unit="record"),
               PrivUnit(l2=1.0), PrivUnit(l2=1.0, norm="private"))]),
    Option("node review", "app", ("@app --apps list.toml --yes", "@other-app --apps list.toml --yes"),
           lambda *both: [listed(s) for s in both] == [["wombat"], ["quokka"]]),
    Option("node review", "owner", ("@app --owner @one/owner.toml", "@app --owner @nobody.toml"),
           lambda a, b: "SHA-256" in a.out and "nobody.toml does not exist" in b.err),
    Option("node review", "apps", ("@app --apps @none.toml", "@app --apps @apps.toml", "@app --apps @run.toml"),
           lambda a, b, c: "SHA-256" in a.out and a.out == b.out and "is not a known key" in c.err),
    Option("node review", "yes", ("@app --apps list.toml", "@app --apps list.toml --yes"),
           lambda a, b: a.code != 0 and "SHA-256" in a.out and [listed(s) for s in (a, b)] == [[], ["wombat"]]),
    Option("node list", "owner", ("--owner @one/owner.toml", "--owner @nobody.toml"),
           lambda a, b: "no app may run" in a.out and b.code == 2),
    Option("node list", "apps", ("--apps @none.toml --json", "--apps @apps.toml --json"),
           lambda *both: [[app["name"] for app in s.json] for s in both] == [[], ["a", "b"]]),
    Option("node list", "as_json", ("--apps @apps.toml", "--apps @apps.toml --json"), table_or_json),
    Option("node withdraw", "sha256", ("aaaaaaaa --apps @withdrawn-1.toml", "cccccccc --apps @withdrawn-1.toml"),
           lambda a, b: "p/a 1 may not run any more" in a.out and "of 0 hashes" in b.err),
    Option("node withdraw", "owner", ("aaaaaaaa --owner @one/owner.toml", "aaaaaaaa --owner @nobody.toml"),
           lambda a, b: "one/reviewed-apps.toml" in a.err and "nobody.toml does not exist" in b.err),
    Option("node withdraw", "apps", ("bbbbbbbb --apps @withdrawn-2.toml", "bbbbbbbb --apps @none.toml"),
           lambda a, b: "p/b 1 may not run any more" in a.out and "of 0 hashes" in b.err),
    Option("node start", "owner", (START.format(""), START.replace("@one", "@nobody").format("")),
           lambda a, b: started("in a box")(a) and "nobody/owner.toml does not exist" in b.err),
    Option("node start", "supernode", (START.format(""), f"{START.format('')} --port 99"),
           lambda a, b: started("in a box")(a) and "--port is set by pausefl node itself" in b.err),
    Option("node start", "apps", (START.format(""), START.format("--apps @apps.toml")),
           started("0 reviewed apps", "2 reviewed apps")),
    Option("node start", "data", (START.format(""), START.format("--data @small --data @large")),
           started("no data folder", "large")),
    Option("node start", "time_limit", (START.format(""), START.format("--time-limit 500")),
           started("at most 3600 seconds, and", "at most 500 seconds, and")),
    Option("node start", "answer_after", (START.format(""), START.format("--answer-after 50")),
           started("at most 3600 seconds, and", "folder\nevery answer leaves 50 seconds")),
    Option("node start", "memory_limit", (START.format(""), START.format("--memory-limit 9000")),
           started("3600 seconds, and", "3600 seconds and 9000 MiB per process, and")),
    Option("node start", "box_user", (START.format(""), START.format("--box-user nobody-knows")),
           lambda a, b: started("in a box,")(a) and "'nobody-knows' is not known on this machine" in b.err),
    Option("node start", "no_box", (START.format(""), START.format("--no-box")),
           started("in a box", "--no-box: an app can open connections")),
    *(Option("plan", name, (PLAN, f"{PLAN} --{name.replace('_', '-')} {value}"), planned(**{name: value}))
      for name, value in (("clients", 300), ("per_round", 10), ("budget", 40.0), ("dimension", 100), ("examples", 5),
                          ("accuracy", 50.0))),
    Option("plan", "mechanism", (PLAN, f"{PLAN} --mechanism gaussian"), planned(mechanism=Gaussian(1.0, 1e-5))),
    Option("plan", "delta", (PLAN, f"{PLAN} --mechanism gaussian --delta 0.0001"),
           planned(mechanism=Gaussian(1.0, 1e-4))),
    Option("plan", "unit", (PLAN, f"{PLAN} --mechanism laplace --unit coordinate"),
           planned(mechanism=Laplace(unit="coordinate", width=1.0))),
    Option("plan", "as_json", (PLAN.removesuffix("--json"), PLAN), table_or_json),
    Option("audit", "epsilon", (ATTACK, ATTACK.replace("--epsilon 1", "--epsilon 2")),
           lambda a, b: attacked(a) and attacked(b, epsilon=2.0)),
    Option("audit", "owner", (ATTACK, "--owner @nobody.toml --runs 100 --json"),  # made_by attacks a client
           lambda a, b: attacked(a) and b.code == 2 and "nobody.toml" in b.err),
    Option("audit", "made_by", tuple(
           f"--owner @one/owner.toml --runs 100 --json --app {__name__}:make_{what}" for what in ("app", "nothing")),
           lambda a, b: a.code == 0 and "the app's two data sets" in a.json[1]["event"] and "made None of" in b.err),
    Option("audit", "source", tuple(ATTACK.replace("simulated", s) for s in ("simulated", "secure", "both")),
           lambda *all_: [[one["private"] for one in s.json] for s in all_] == [[False], [True], [True, False]]),
    Option("audit", "runs", (ATTACK, ATTACK.replace("300", "400")), lambda a, b: attacked(a) and attacked(b, runs=400)),
    Option("audit", "delta", tuple(f"gaussian --epsilon 1 --runs 300 {AUDIT} {d}" for d in ("", "--delta 0.01")),
           lambda a, b: attacked(a, Gaussian(l2=1.0, delta=1e-5)) and attacked(b, Gaussian(l2=1.0, delta=0.01))),
    Option("audit", "confidence", (ATTACK, f"{ATTACK} --confidence 0.75"),
           lambda a, b: attacked(a) and attacked(b, error=0.25)),
    Option("audit", "seed", (ATTACK, f"{ATTACK} --seed 3"), lambda a, b: attacked(a) and attacked(b, seed=3)),
    Option("audit", "low_bits", tuple(ATTACK.replace("300", "10000") + b for b in (" --low-bits", " --no-low-bits")),
           lambda a, b: attacked(a, runs=10_000, low_bits=True) and attacked(b, runs=10_000, low_bits=False)
           and a.json != b.json),
    Option("audit", "as_json", (ATTACK.removesuffix("--json"), ATTACK),
           lambda a, b: a.out.startswith("Laplace") and isinstance(b.json, list)),
    Option("paper keep", "folders", (f"{PLAYED} --out kept", "@results/small-iid-r1/all --out kept"),
           lambda *both: [len(s.runs("kept")) for s in both] == [2, 1]),
    Option("paper keep", "out", ("@results/small-iid-r1/all --out kept", "@results/small-iid-r1/all --out there"),
           lambda a, b: a.runs("kept") == b.runs("there") and not (b.folder / "kept").exists()),
    Option("paper check", "published", (f"{CHECK} --json", "@results @results-2 --json"),
           lambda a, b: len(a.json["pairs"]) == 1 and b.code == 2 and "repeats none of" in b.err),
    Option("paper check", "repeated", (f"{CHECK} --json", "@results/small-iid-r1/all @results/small-iid-r1/all --json"),
           lambda a, b: len(a.json["not_repeated"]) > len(b.json["not_repeated"]) == 0),
    Option("paper check", "within", (f"{CHECK} --within 0", f"{CHECK} --within -1"),
           lambda a, b: a.code == 0 and b.code == 2 and "--within" in b.err),  # what it allows: test_repetition.py
    Option("paper check", "as_json", (CHECK, f"{CHECK} --json"), table_or_json),
    Option("paper claims", "folder", ("@results --json", f"{COMMITTED} --json"),
           lambda a, b: [c["claim"] for c in a.json] == [c["claim"] for c in b.json] and b.json == judged(COMMITTED)
           and not any(f["verdict"] == "holds" for c in a.json for f in c["findings"])),
    Option("paper claims", "out", ("@results", "@results --out page.md"),
           lambda a, b: b.page("page.md").replace(" --out page.md", "").strip() == a.out.strip()),
    Option("paper claims", "as_json", ("@results", "@results --json"), table_or_json),
    Option("paper field", "folder", (f"{COMMITTED}/field", f"{COMMITTED}/units"),
           lambda a, b: "# Which policy is fastest" in a.out and b.code == 2 and "has rows of 'units'" in b.err),
    Option("paper field", "out", (f"{COMMITTED}/field", f"{COMMITTED}/field --out page.md"),
           lambda a, b: b.page("page.md").replace(" --out page.md", "").strip() == a.out.strip()),
    Option("paper results", "folder", ("@results --out page.md", "@results-2 --out page.md"),
           lambda a, b: "`small-iid-r1`" in a.page("page.md") and "`small-iid-r2`" in b.page("page.md")),
    Option("paper results", "out", ("@results --out page.md", "@results --out in.md"),
           lambda a, b: a.page("page.md").replace("page.md", "in.md") == b.page("in.md")),
)  # fmt: skip

TYPERS_OWN = {("", "install_completion"), ("", "show_completion")}


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: f"{row.command} {row.name}".strip())
def test_an_option_does_what_it_should(row: Option, ask: Ask) -> None:
    if row.command == "node start" and subprocess.run(["unshare", "-r", "true"], check=False).returncode:
        pytest.skip("this machine allows no user namespaces, so a node does not start")
    seen = [ask(f"{row.command} {call}") for call in row.calls]
    assert row.law(*seen), "\n".join(f"{one.code}: {one.out[-800:]}{one.err[-800:]}" for one in seen)


def test_every_option_has_a_row_and_every_row_an_option() -> None:
    assert {(row.command, row.name) for row in OPTIONS} == set(_options(typer.main.get_command(app))) - TYPERS_OWN


def _options(command: click.Command, path: str = "") -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        yield path, str(parameter.name)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _options(inner, f"{path} {name}".strip())
