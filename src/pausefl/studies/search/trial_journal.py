"""The trials of a search, by Optuna: what is tried next, and a journal that survives a kill and goes on to the bit.

The journal is Optuna's file of lines; one that a kill cut short is dropped.  The sampler is TPE (Bergstra et al., 2011)
or, for lists, every combination in order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError, MissingExtraError, shown
from pausefl.rng import stream
from pausefl.studies.search.space import Listed, Space, Value

try:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler, TPESampler
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
    from optuna.trial import FrozenTrial, Trial, TrialState
except ImportError:
    raise MissingExtraError("a search needs the 'tune' extra; run: pip install 'pausefl[tune]'") from None

__all__ = ["FrozenTrial", "Trial", "TrialJournal", "TrialState"]

JOURNAL = "search.journal"
_NAME, _ABOUT = "pausefl", "search"


class TrialJournal:
    """What was tried, in one file; only one process may hold it at a time.

    Args:
        folder: where the file is, or will be.
        space: what is varied.
        objectives: how many numbers a trial is judged by, each smaller for better ones.
        seed: the values of trial n are a function of this, of n and of the trials before it.
        about: settings of the search; a journal of other ones is refused.
        grid: every combination, to be tried in order; None to let the sampler choose.
    """

    def __init__(
        self,
        folder: Path,
        space: Space,
        *,
        objectives: int,
        seed: int,
        about: Mapping[str, Any],
        grid: Sequence[Mapping[str, Value]] | None,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        path = folder / JOURNAL
        _drop_broken_end(path)
        lock = JournalFileOpenLock(str(path))
        path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)  # of a killed process: we are the only one
        try:
            storage = JournalStorage(JournalFileBackend(str(path), lock))
            self._study = optuna.create_study(
                study_name=_NAME,
                storage=storage,
                sampler=_Repeatable(seed),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
                directions=["minimize"] * objectives,
                load_if_exists=True,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is damaged ({shown(error)}); pass another folder with --out") from None
        self._single = objectives == 1
        self._space = space
        self._grid = grid
        self._require_same(folder, about)

    def _require_same(self, folder: Path, about: Mapping[str, Any]) -> None:
        kept = self._study.user_attrs.get(_ABOUT)
        if kept is None:
            self._study.set_user_attr(_ABOUT, dict(about))
            return
        other = {
            name: (kept.get(name), about.get(name)) for name in {**kept, **about} if kept.get(name) != about.get(name)
        }
        if other:
            said = "; ".join(
                f"{name} = {shown(there)} there, {shown(here)} here" for name, (there, here) in other.items()
            )
            raise ConfigError(f"{folder} holds another search ({said}); pass another folder with --out")

    def trials(self) -> list[FrozenTrial]:
        """Return all trials so far, by number; those that wait for their turn are not among them."""
        return [t for t in self._study.get_trials(deepcopy=False) if t.state != TrialState.WAITING]

    def unfinished(self) -> list[Trial]:
        """Return the trials that a killed search has left behind."""
        found = [Trial(self._study, t._trial_id) for t in self.trials() if t.state == TrialState.RUNNING]
        for trial in found:
            self._choose(trial)
        return found

    def ask(self) -> Trial:
        """Return the next trial, with its values."""
        every = self._study.get_trials(deepcopy=False)
        if self._grid is not None and not any(t.state == TrialState.WAITING for t in every):
            tried = [t.system_attrs.get("fixed_params", t.params) for t in every]
            self._study.enqueue_trial(dict(next(values for values in self._grid if values not in tried)))
        trial = self._study.ask()
        self._choose(trial)
        return trial

    def _choose(self, trial: Trial) -> None:
        for choices in self._space:
            if isinstance(choices, Listed):
                trial.suggest_categorical(choices.key, choices.values)
            elif isinstance(choices.low, int) and isinstance(choices.high, int):
                trial.suggest_int(choices.key, choices.low, choices.high, log=choices.log)
            else:
                trial.suggest_float(choices.key, choices.low, choices.high, log=choices.log)

    def report(self, trial: Trial, step: int, score: float) -> bool:
        """Note how a trial stands on the way; return whether it is worse than the median of those before it."""
        if not self._single:
            return False
        if step not in self._kept(trial).intermediate_values:
            trial.report(score, step)
        return trial.should_prune()

    def _kept(self, trial: Trial) -> FrozenTrial:
        """Return what the journal knows of a trial, perhaps from before a kill; Optuna warns of what is said twice."""
        return self._study.get_trials(deepcopy=False)[trial.number]

    def tell(
        self, trial: Trial, state: TrialState, scores: Sequence[float] | None, attributes: Mapping[str, Any],
        violation: float = 0.0,
    ) -> None:  # fmt: skip
        """Note how a trial has ended."""
        for name, value in attributes.items():
            trial.set_user_attr(name, value)
        if violation > 0.0 and "leakage" not in self._kept(trial).constraints:
            trial.set_constraint("leakage", violation)
        self._study.tell(trial, scores if state == TrialState.COMPLETE else None, state)


class _Repeatable(BaseSampler):
    """TPE whose random numbers belong to the number of the trial, so that a resumed search goes on as it would have."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def _sampler(self, trial: FrozenTrial, key: str = "") -> TPESampler:
        return TPESampler(seed=int(stream(self._seed, "search", trial.number, key).integers(2**32)))

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        # A generator for each key: a search that was killed between two keys then draws the second one all the same.
        return self._sampler(trial, param_name).sample_independent(study, trial, param_name, param_distribution)


def _drop_broken_end(path: Path) -> None:
    """Cut a line off that a kill has left without its end; otherwise the next one would be glued to it."""
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
            os.fsync(file.fileno())
