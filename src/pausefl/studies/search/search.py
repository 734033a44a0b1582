"""A search is played: trials one after the other or side by side, several seeds each, and stopped where hopeless."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pausefl.errors import ConfigError, InvalidValueError, PauseError
from pausefl.runs.config import Config, flat
from pausefl.runs.parallel import processes
from pausefl.runs.play import run
from pausefl.runs.policy import is_own, known_options, try_policy
from pausefl.runs.run_data import RunData
from pausefl.selection import check_options
from pausefl.studies.search.aim import Aim, Found, Quantity, objectives, pareto_front
from pausefl.studies.search.space import Space, Value, Values, combinations, require_possible
from pausefl.studies.search.subject import Subject
from pausefl.studies.search.trial_journal import FrozenTrial, Trial, TrialJournal, TrialState
from pausefl.system.lock import only_writer
from pausefl.system.state_file import write_whole

State: TypeAlias = Literal["finished", "stopped early", "refused"]
Watcher: TypeAlias = Callable[[int, "TrialResult | None"], None]
"""Told how many trials have ended, and the best one that met the aim."""

TRIALS = 40
"""How many trials a search has, unless every combination is tried."""
_LOOKS = 8
"""How often a trial is compared with others on its way."""
_SAME = "same values as before"
_NOT_THE_SEARCH = frozenset({"run.checkpoint_every", "run.seed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One trial that has ended: its values, its numbers, and why it was stopped or refused."""

    number: int
    values: Values
    state: State
    found: Found | None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search has found; ``best`` met the aim, ``nearest`` came closest where none did."""

    aim: Aim
    keys: Sequence[str]
    quantities: Sequence[Quantity]
    trials: Sequence[TrialResult]

    @cached_property
    def finished(self) -> list[TrialResult]:
        """The trials that were played to their end."""
        return [trial for trial in self.trials if trial.state == "finished"]

    @cached_property
    def best(self) -> TrialResult | None:
        """The best trial that met the aim; of a front, the most accurate, or else the fastest."""
        met = [trial for trial in self.finished if trial.found and self.aim.is_met(trial.found)]
        return min(met, key=self._rank, default=None)

    @cached_property
    def nearest(self) -> TrialResult | None:
        """The trial that violates the least bound, and is best among such."""
        played = [trial for trial in self.trials if trial.found]
        return min(played, key=lambda t: (max(0.0, self.aim.violation(t.found)), self._rank(t)), default=None)  # type: ignore[arg-type]

    @cached_property
    def front(self) -> list[TrialResult]:
        """The trials that met the aim and that no other one beats in everything, the fastest first."""
        met = [trial for trial in self.finished if trial.found and self.aim.is_met(trial.found)]
        points = [objectives(trial.found, self.quantities) for trial in met if trial.found]
        return [met[i] for i in sorted(pareto_front(points), key=lambda i: (points[i], met[i].number))]

    def _rank(self, trial: TrialResult) -> tuple[float, ...]:
        if trial.found is None:
            return (math.inf,)
        return (self.aim.score(trial.found), *objectives(trial.found, self.quantities), trial.number)


@dataclass(frozen=True, kw_only=True)
class Search:
    """Several keys of a run, searched for one aim.

    Attributes:
        subject: the run, or the study, that is tuned.
        space: what is varied.
        aim: what is sought.
        seeds: runs of each trial, whose mean counts.
        seed: the first of these seeds, which also names the random numbers of the search.
        trials: how many trials in all; None for every combination of lists, or else 40.
        prune: whether hopeless trials are stopped; None means that all combinations of lists are played to their end.
    """

    subject: Subject
    space: Space
    aim: Aim
    seeds: int = 1
    seed: int = 100
    trials: int | None = None
    prune: bool | None = None

    @cached_property
    def grid(self) -> list[dict[str, str]] | None:
        """Every combination, if all are to be tried."""
        every = combinations(self.space)
        return every if every is not None and (self.trials is None or self.trials >= len(every)) else None

    @cached_property
    def base(self) -> Config:
        """One run of the search, for what all of them have in common."""
        for values in [{c.key: c.ends[0] for c in self.space}, {c.key: c.ends[-1] for c in self.space}]:
            try:
                return self.subject.config(values, self.seed)
            except PauseError:
                continue
        return self.subject.config({}, self.seed)

    @property
    def total(self) -> int:
        """How many trials there will be."""
        return len(self.grid) if self.grid is not None else self.trials or TRIALS

    def play(
        self, out: Path, *, data_dir: Path | None = None, jobs: int = 1, watch: Watcher = lambda _done, _best: None
    ) -> SearchResult:
        """Play the search into a folder, with each run in a folder of its own; called again, it goes on.

        With no more processes than seeds, trials come one after the other, and the same call always finds the same.
        """
        require_possible(self.space, self._try)
        self.aim.require_possible(self.base)
        out.mkdir(parents=True, exist_ok=True)
        with only_writer(out / "lock", out, "pass another folder with --out"), processes(jobs) as pool:
            result = _Play(self, out, data_dir, jobs, pool, watch).everything()
            if result.trials and all(trial.state == "refused" for trial in result.trials):
                raise ConfigError(
                    f"none of the {len(result.trials)} trials could be run; the first one failed because "
                    f"{result.trials[0].why}"
                )
            self._write_files(result, out)
        return result

    def config(self, values: Values, seed: int) -> Config:
        """Return one run of a trial; values that do not go together are refused."""
        config = self.subject.config(values, seed)
        check_options(config.selection.policy, known_options(config.selection), config.selection.options)
        return config

    def _try(self, values: Values) -> None:
        """Refuse values that cannot be run, and classes of the user's own that fail, before anything is trained."""
        config = self.config(values, self.seed)
        if is_own(config.selection):
            try_policy(config)

    def about(self) -> dict[str, Any]:
        """Return what makes it this search and no other one."""
        varied = {choices.key: choices.text for choices in self.space}
        settings = {key: value for key, value in flat(self.base, _NOT_THE_SEARCH).items() if key not in varied}
        aim = {"aim": str(self.aim), "seeds": self.seeds, "seed": self.seed, "stops hopeless trials": self.stops}
        return {**settings, **{f"--vary {key}": text for key, text in varied.items()}, **aim}

    @property
    def stops(self) -> bool:
        """Whether hopeless trials are stopped."""
        return combinations(self.space) is None if self.prune is None else self.prune

    def _write_files(self, result: SearchResult, out: Path) -> None:
        """Write a run's file for the best trial, and for each one of the front."""
        wanted = {} if result.best is None else {out / "best.toml": result.best}
        wanted |= {out / "front" / f"trial-{trial.number}.toml": trial for trial in result.front}
        for path in [out / "best.toml", *(out / "front").glob("trial-*.toml")]:
            if path not in wanted:  # of a search that has gone on since
                path.unlink(missing_ok=True)
        for path, trial in wanted.items():
            path.parent.mkdir(exist_ok=True)
            write_whole(path, self._file(trial))

    def _file(self, trial: TrialResult) -> str:
        config, found = self.subject.config(trial.values), trial.found
        said = [f"Trial {trial.number} of a search for: {self.aim}."]
        if found is not None and self.aim.has_ended(found):
            config = config.model_copy(update={"run": config.run.model_copy(update={"rounds": found.rounds})})
            said.append(
                f"It ends after {found.rounds} rounds, when the last of {self.seeds} seeds had reached the target."
            )
        return "".join(f"# {line}\n" for line in said) + config.toml()


@dataclass(eq=False)
class _Active:
    """A trial that is being played, and the trials that turned out to have the same values."""

    trial: Trial
    configs: Sequence[Config]
    looks: list[int]
    runs: dict[int, RunData] = field(default_factory=dict)
    same: list[Trial] = field(default_factory=list)


class _Play:
    def __init__(
        self, search: Search, out: Path, data_dir: Path | None, jobs: int, pool: Executor, watch: Watcher
    ) -> None:
        self.search, self.out, self.data_dir, self.pool, self.watch = search, out, data_dir, pool, watch
        self.aim, self.quantities = search.aim, search.aim.quantities(search.base)
        self.single = self.aim.kind != "front"
        self.journal = TrialJournal(
            out, search.space, objectives=1 if self.single else len(self.quantities), seed=search.seed,
            about=search.about(), grid=search.grid,
        )  # fmt: skip
        side_by_side = jobs if search.grid is not None else math.ceil(jobs / search.seeds)
        self.most = side_by_side if jobs > 1 else 1
        self.active: list[_Active] = []
        self.futures: dict[Future[RunData], tuple[_Active, int]] = {}

    def everything(self) -> SearchResult:
        left = self.journal.unfinished()
        while True:
            while len(self.active) < self.most:
                if left:
                    self._begin(left.pop(0))
                elif len(self.journal.trials()) < self.search.total:
                    self._begin(self.journal.ask())
                else:
                    break
            if not self.active:
                return self.result()
            done, _ = wait(self.futures, return_when=FIRST_COMPLETED)
            for future in done:
                active, seed = self.futures.pop(future)
                active.runs[seed] = future.result()
                if len(active.runs) == len(active.configs):
                    self._look(active)

    def result(self) -> SearchResult:
        ended = [_result(t) for t in self.journal.trials() if t.state.is_finished() and _SAME not in t.user_attrs]
        keys = [choices.key for choices in self.search.space]
        return SearchResult(aim=self.aim, keys=keys, quantities=self.quantities, trials=ended)

    def _begin(self, trial: Trial) -> None:
        first = next(t for t in self.journal.trials() if t.params == trial.params)
        if first.number != trial.number:
            self._repeat(trial, first)
            return
        try:
            seeds = range(self.search.seed, self.search.seed + self.search.seeds)
            configs = [self.search.config(trial.params, seed) for seed in seeds]
        except (ConfigError, InvalidValueError) as error:
            self._end([trial], TrialState.FAIL, None, str(error))
            return
        active = _Active(trial, configs, self._looks(configs[0]))
        self.active.append(active)
        self._go_on(active)

    def _looks(self, config: Config) -> list[int]:
        """Return the rounds at which a trial is looked at: checkpoints, and the end."""
        every, rounds = config.run.checkpoint_every, config.run.rounds
        step = every * math.ceil(rounds / _LOOKS / every)
        return [*(range(step, rounds, step) if self.search.stops or self.aim.ends_there else ()), rounds]

    def _go_on(self, active: _Active) -> None:
        active.runs = {}
        for number, config in enumerate(active.configs):
            folder = self.out / f"trial-{active.trial.number}" / f"seed-{config.run.seed}"
            until = active.looks[0] if len(active.looks) > 1 else None
            future = self.pool.submit(run, config, folder, data_dir=self.data_dir, until=until)
            self.futures[future] = (active, number)

    def _look(self, active: _Active) -> None:
        """Compare a trial with the others at a checkpoint, and end it, or let it go on."""
        number = active.looks.pop(0)
        # A search that was killed may find more rounds than it had looked at; it must decide as it would have.
        runs = [replace(one, records=one.records[:number]) for _, one in sorted(active.runs.items())]
        found = self.aim.measure(runs)
        if self.aim.has_ended(found) or not active.looks:
            self.active.remove(active)
            self._end([active.trial], TrialState.COMPLETE, found, same=active.same)
            return
        why = self._hopeless(active, runs, number) if self.search.stops else None
        if why is None:
            self._go_on(active)
        else:
            self.active.remove(active)
            self._end([active.trial], TrialState.PRUNED, found, f"{why} after {number} rounds", same=active.same)

    def _hopeless(self, active: _Active, runs: Sequence[RunData], number: int) -> str | None:
        best = self.result().best
        score = self.aim.score(best.found) if best is not None and best.found is not None else None
        if (why := self.aim.is_hopeless(runs, score)) is not None or not self.single:
            return why
        so_far = replace(self.aim, kind="accuracy", reach=None).measure(runs)
        if so_far.accuracy is None:
            return None
        worse = self.journal.report(active.trial, number, 100.0 - so_far.accuracy)
        return "accuracy below the median" if worse and self.aim.kind == "accuracy" else None

    def _repeat(self, trial: Trial, first: FrozenTrial) -> None:
        """Let a trial with the values of an earlier one have its numbers, now or when that one has ended."""
        for active in self.active:
            if active.trial.number == first.number:
                active.same.append(trial)
                return
        known = _result(first)
        self._end([], first.state, known.found, known.why, same=[trial])

    def _end(
        self, trials: Sequence[Trial], state: TrialState, found: Found | None, why: str = "", same: Sequence[Trial] = ()
    ) -> None:
        scores, violation = None, 0.0
        if found is not None:
            scores = [self.aim.score(found)] if self.single else objectives(found, self.quantities)
            violation = self.aim.violation(found)
        about = {"found": None if found is None else asdict(found), "why": why}
        for trial in trials:
            self.journal.tell(trial, state, scores, about, violation)
        for trial in same:
            self.journal.tell(trial, state, scores, {**about, _SAME: True}, violation)
        self.watch(sum(t.state.is_finished() for t in self.journal.trials()), self.result().best)


def _result(trial: FrozenTrial) -> TrialResult:
    states: Mapping[TrialState, State] = {
        TrialState.COMPLETE: "finished", TrialState.PRUNED: "stopped early", TrialState.FAIL: "refused",
    }  # fmt: skip
    stored = trial.user_attrs["found"]
    values: dict[str, Value] = dict(trial.params)
    return TrialResult(
        number=trial.number, values=values, state=states[trial.state],
        found=None if stored is None else Found(**stored), why=trial.user_attrs["why"],
    )  # fmt: skip
