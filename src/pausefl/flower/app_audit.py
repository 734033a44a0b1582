"""An app of somebody's own in the audit: two data sets that differ in one record, and what tells them apart best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from flwr.app import ArrayRecord, Context, Message

from pausefl.errors import ConfigError
from pausefl.flower.client import App, passing_through
from pausefl.flower.protocol import RECORD, arrays_in, tensors_of
from pausefl.flower.scratch_client import ScratchClient
from pausefl.owner.model_update import contributions, difference, rounding_share
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import Layers
from pausefl.privacy.audit.input_pairs import InputPair, bounded
from pausefl.privacy.mechanisms.tensor_rules import Tensor
from pausefl.system.import_path import reason
from pausefl.types import FloatArray

MakeApp: TypeAlias = Callable[[int], Any]
"""Returns an app with its data set 0, or 1, in which one record is replaced; or a tuple of it and the model to train.

The app is a ``ClientApp`` or a function of message and context; a model is an ``ArrayRecord``, or numpy arrays by name.
"""

_SCALES = (0.01, 1.0, 100.0)
"""How large the numbers of the models are with which rows are compared, beside the given one."""
_KEPT = 7
"""How many numbers of a release are looked at by themselves."""


class TwoApps:
    """The app with each of its data sets, and the pair of what they add to the model before any noise.

    Of a release only its largest differences are looked at, and the projection of all numbers on the difference: a
    model may be large, and training takes its time, so that there are few trials.
    """

    def __init__(self, client: ScratchClient, make: MakeApp) -> None:
        if client.owner.mechanism.guarantee.unit == "coordinate":
            raise ConfigError(
                "--app is for owners who protect records or whole updates, because no two data sets of an app are "
                "known to "
                "differ in one coordinate of the update; leave it out"
            )
        self._client = client
        (first, model), (second, _) = _made(make, 0), _made(make, 1)
        if model is not None:
            client.model = dict(model)
        self.apps = {"the first set": first, "the second set": second}
        means, errors = zip(*map(self._added, self.apps.values()), strict=True)
        self.fails_once = "" if bool(errors[0]) == bool(errors[1]) else errors[0] or errors[1]
        if all(errors):
            raise ConfigError(f"the app fails with both data sets, so only noise would be audited: {errors[0]}")
        gap = means[0] - means[1]
        self.stretch = self._stretch(means)
        self.changed_rows = self._changed_rows() if client.owner.rows else 0
        self._places = np.argsort(-np.abs(gap))[:_KEPT]
        self._along = gap / (float(np.linalg.norm(gap)) or 1.0)
        self.pair = InputPair("the app's two data sets", self._few(means[0]), self._few(means[1]))

    def _stretch(self, means: Sequence[FloatArray]) -> float:
        """Return how far the replaced record moves what is noised, over how far the noise reckons with.

        It is exact, and needs no trials.  0 where it cannot be told: for whole updates, or if training draws at random.
        """
        owner, model = self._client.owner, self._client.model
        guarantee = owner.mechanism.guarantee
        again = [self._added(app)[0] for app in self.apps.values()]
        if guarantee.unit != "record" or not all(map(np.array_equal, means, again)):
            return 0.0
        layers = Layers.of(model, batch_norm=owner.batch_norm)
        share = 1.0 if owner.rows else rounding_share(model, layers, guarantee.bound, owner.examples)
        return float(np.linalg.norm(means[0] - means[1])) * share * owner.examples / (2.0 * guarantee.bound)

    def _changed_rows(self) -> int:
        """Return how many rows of one data set the other one lacks; 0 if training draws at random, or fails.

        One is right.  Matrix products round a row in another way if it stands in another place, or beside longer ones,
        and a server can send a model in which the last digit of a row decides about all of it.  With a model of zeros
        no digit shows, so others are tried too.
        """
        given, rng, found = self._client.model, np.random.default_rng(0), 0
        models = [given] + [
            {name: (scale * rng.standard_normal(tensor.shape)).astype(tensor.dtype) for name, tensor in given.items()}
            for scale in _SCALES
        ]
        try:
            for self._client.model in models:
                found = max(found, self._changed_by_one())
        finally:
            self._client.model = given
        return found

    def _changed_by_one(self) -> int:
        tables: list[FloatArray] = []
        for app in (first_app := self.apps["the first set"], first_app, self.apps["the second set"]):
            try:
                tables.append(self._rows(app))
            except Exception as error:
                fault = reason(error, app)
        if len(tables) in (1, 2):
            self.fails_once = fault
        if len(tables) < 3:
            return 0  # if both fail, such a model is refused
        first, again, second = tables
        one, other = (Counter(row.tobytes() for row in table + 0.0) for table in (first, second))
        return max((one - other).total(), (other - one).total()) if np.array_equal(first, again) else 0

    def trial(self, updates: Sequence[FloatArray]) -> FloatArray:
        """Train with the data sets to which these belong, and release, from an empty ledger."""
        self._client.renew()
        first, second = self.apps.values()
        apps = [first if update is self.pair.first else second for update in updates]
        return np.stack([self._few(self._client.released(app, number)) for number, app in enumerate(apps, 1)])

    def _few(self, numbers: FloatArray) -> FloatArray:
        return np.append(numbers[self._places], numbers @ self._along)

    def _added(self, app: App) -> tuple[FloatArray, str]:
        """Return what the gate would noise, and why it is zeros if training fails."""
        owner, model = self._client.owner, self._client.model
        guarantee = owner.mechanism.guarantee
        parts = {name: np.zeros(tensor.size) for name, tensor in model.items()}
        try:
            layers = Layers.of(model, batch_norm=owner.batch_norm)
            if owner.rows:
                mean = bounded(self._rows(app), guarantee, owner.examples)
            else:
                change = difference(model, self._trained(app), layers, mean=owner.clipped_by == "app")
                mean = bounded(np.concatenate([part.ravel() for part in change.values()]), guarantee)
        except Exception as error:
            return np.concatenate(list(parts.values())), reason(error, app)
        names = layers.released()
        cuts = np.cumsum([parts[name].size for name in names])[:-1]
        parts |= dict(zip(names, np.split(mean, cuts), strict=True))
        return np.concatenate(list(parts.values())), ""

    def _rows(self, app: App) -> FloatArray:
        """Return what the app returns for each record, as the gate takes it."""
        owner, model = self._client.owner, self._client.model
        given = contributions(model, self._trained(app), Layers.of(model, batch_norm=owner.batch_norm), owner.examples)
        rows = np.concatenate([part.reshape(len(part), -1) for part in given.values()], axis=1, dtype=float)
        rows[~np.isfinite(rows).all(axis=1)] = 0.0
        return rows

    def _trained(self, app: App) -> Mapping[str, Tensor]:
        message, context = self._client.message("train", TrainingRequest("audit", 1))
        del message.content[RECORD]
        return arrays_in(app(message, context).content)[1]


def _made(make: MakeApp, which: int) -> tuple[App, Mapping[str, Tensor] | None]:
    """Return the app, which no second mod shall noise, and its model."""
    try:
        made = make(which)
    except Exception as error:
        raise ConfigError(f"--app cannot make the app of data set {which}: {reason(error, make)}") from error
    own, model = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(own):
        raise ConfigError(
            f"--app made {own!r:.100} of data set {which}, but must make a ClientApp, or a function of message and "
            "context; or a tuple of it and the model"
        )
    call = cast(App, own)

    def app(message: Message, context: Context) -> Message:
        with passing_through():
            return call(message, context)

    return app, tensors_of(model) if isinstance(model, ArrayRecord) else model
