"""What an owner's terms mean: what has left, what the next releases may tell, and numbers that promise nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pausefl.errors import BudgetExceededError, ConfigError, PauseError
from pausefl.owner.data_records import count_records
from pausefl.owner.doubtful_records import doubtful_records
from pausefl.owner.kept_replies import ReplyStore, replies_folder
from pausefl.owner.ledger_identity import open_ledger
from pausefl.owner.noted_heads import noting, witness_path
from pausefl.owner.owner_file import Owner, read_owner
from pausefl.owner.request_and_reply import Reply
from pausefl.owner.second_note_place import forgetful_places
from pausefl.privacy.ledger.charge import RETIRED, Charge, Past, Reservation, alone_epsilon, next_charge
from pausefl.privacy.ledger.price import DELTA_LIMIT
from pausefl.privacy.mechanisms.base import PROTECTED
from pausefl.privacy.schedule import schedule_text
from pausefl.system.private_file import user_text
from pausefl.types import Epsilon

_AHEAD = 3
"""How many of the next releases are told."""
_MOST: Mapping[str, Epsilon] = {"record": 4.0, "update": 20.0}
"""Budgets above these promise little.  About a record, 4 lets a suspicion of 50 % become 98 %."""
_FAILING = 0.01
"""With a delta of more than this over the number of records, one record might be given away whole."""
_FAR_FEWER = 10
"""With so many times fewer records than the owner says, the data was probably cut in wrong places."""
_MANY = 1000
"""Releases to reckon with under a schedule that never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The terms of an owner's file, and the state of its ledger; of a simulation's file only the terms.

    ``second_note`` is where the ledger's head is noted once more, outside the owner's folder; None in a simulation.
    ``protected`` says in words what the promise is about, and ``odds`` what the budget means for a suspicion about it;
    None where it protects nothing.  ``records`` says where they are, if pausefl cuts the data.  ``retired`` is
    when the rest was spent for ever, None if it was not.  ``whole_budget`` is what the budget means for an update as a
    whole, None where nothing is promised about it; ``noise_to_signal`` is the length of the noise of the next release
    over the longest update, both if the ``dimension`` is known.  ``fixed`` says what can no longer be changed, or not
    after the first release.
    """

    name: str
    simulation: bool
    ledger: str
    second_note: str | None
    schedule: str
    mechanism: str
    unit: str
    protected: str
    odds: str | None
    records: str | None
    releases: int
    budget: Epsilon
    spent: Epsilon
    left: Epsilon
    retired: str | None
    next: tuple[Epsilon, ...]
    dimension: int | None
    whole_budget: Epsilon | None
    noise_to_signal: float | None
    fixed: str
    warnings: tuple[str, ...]


def check_owner(path: Path, dimension: int | None = None, *, look: bool = True) -> Check:
    """Read the file and open the ledger as a client would, or refuse with what the client would log.

    ``look`` says whether to look at the records themselves; without it they are only counted.
    """
    owner = read_owner(path)
    count = None if owner.records is None or owner.simulation else count_records(owner.records)
    charges = () if owner.simulation else _charges(owner)
    retired = charges[-1].when if charges and charges[-1].release == RETIRED else None
    releases = [one for one in charges if one.release != RETIRED]
    size = dimension or (releases[-1].dimension if releases else 0) or None
    ahead, unit = _next(owner, charges), owner.mechanism.guarantee.unit
    level = None
    if size and ahead:
        level = owner.mechanism.noise_level(size, alone_epsilon(ahead[0], owner.mechanism), owner.examples)
    budget, spent = owner.schedule.budget, math.fsum(one.epsilon for one in charges)
    whole = budget if unit == "update" else None
    if unit == "coordinate" and size:
        whole = owner.mechanism.guarantee.whole_update(budget, size)
    return Check(
        name=owner.name, simulation=owner.simulation, ledger=str(owner.ledger),
        second_note=None if owner.simulation else str(witness_path(owner.ledger_id)),
        schedule=schedule_text(owner.schedule), mechanism=repr(owner.mechanism), unit=unit,
        protected=_protected(owner), odds=_odds(owner),
        records=None if count is None else f"{count} in {owner.records}, handed to the app one at a time",
        releases=len(releases), budget=budget, spent=spent if retired is None else budget,
        left=max(0.0, budget - spent) if retired is None else 0.0, retired=retired,
        next=tuple(one.epsilon for one in ahead), dimension=size,
        whole_budget=whole, noise_to_signal=math.sqrt(level.noise / level.signal) if level else None,
        fixed=_fixed(owner, bool(charges)),
        warnings=tuple(_warnings(owner, size, count, begun=bool(charges), look=look)),
    )  # fmt: skip


def _protected(owner: Owner) -> str:
    """Say what nobody can tell, up to epsilon: between which two inputs."""
    guarantee = owner.mechanism.guarantee
    told = [PROTECTED[guarantee.unit]]
    if guarantee.delta:
        told.append(
            f"delta {guarantee.delta:g} {'for life' if owner.mechanism.composition == 'zcdp' else 'per release'}"
        )
    if guarantee.unit == "record":
        told.append(f"the number of records, {owner.examples}, is public")
    return "; ".join(told)


def _odds(owner: Owner) -> str | None:
    """Say how far a suspicion can grow with everything that ever leaves; the worst case, as docs/units.md has it."""
    unit, delta = owner.mechanism.guarantee.unit, owner.mechanism.guarantee.delta
    if owner.simulation or unit == "coordinate":
        return None
    about = "any one record" if unit == "record" else "your data"
    apart = " (apart from delta)" if delta else ""
    return f"a suspicion of 50 % about {about} can become {_at_most(owner.schedule.budget)}{apart}"


def _at_most(budget: Epsilon) -> str:
    wrong = 1.0 / (1.0 + math.exp(min(budget, 700.0)))  # an attacker's chance to be wrong
    return f"about {100.0 * (1.0 - wrong):.0f} % at most" if wrong > 0.01 else "near certainty"


def _charges(owner: Owner) -> Sequence[Charge]:
    """Open the ledger, and write what the gate writes before and with every charge, without charging anything."""
    ledger = open_ledger(owner, "")
    ledger.verify()  # every row: an edit in the moment of a charge fits the seal
    with noting(ledger.path, ledger.id):
        folder = replies_folder(ledger.path)
    try:
        with ReplyStore(folder, owner.keep).place(owner.name, "check", "", Reply({}, {}, 0)):
            ledger.require_writable()
    except PauseError:
        raise
    except OSError as error:
        who = user_text(os.geteuid())
        raise ConfigError(
            f"{folder} cannot be written ({error.strerror}); give {who} the right to write in it"
        ) from None
    return ledger.charges(owner.name)


def _next(owner: Owner, charges: Sequence[Charge]) -> list[Charge]:
    """Return what the ledger's own rule would charge next; terms that it refuses are refused here too."""
    found = list(charges)
    for number in range(_AHEAD):
        wanted = Reservation(owner.name, f"next {number}", owner.schedule, owner.mechanism)
        try:
            found.append(next_charge(Past.of(found), wanted, 0.0))
        except BudgetExceededError:
            break
    return found[len(charges) :]


def _fixed(owner: Owner, begun: bool) -> str:
    delta = ", delta" if owner.mechanism.composition == "zcdp" else ""
    what = f"name, budget{delta}, schedule and unit"
    if owner.simulation:
        return "nothing, because every simulated run has a ledger of its own"
    return f"{what} for ever" if begun else f"{what}, from the first release on; after that, no file can change them"


def _warnings(
    owner: Owner, dimension: int | None, count: int | None, *, begun: bool, look: bool
) -> list[str]:  # fmt: skip
    budget, guarantee, found = owner.schedule.budget, owner.mechanism.guarantee, []
    in_rho = owner.mechanism.composition == "zcdp"
    if owner.simulation:
        found.append("simulation is true, so this file protects nothing, and a deployment refuses it")
    if guarantee.unit == "coordinate":
        whole = f"{dimension} x {budget:g} = {dimension * budget:g}" if dimension else f"d x {budget:g}"
        found.append(
            f"the unit is one coordinate, so for an update of d numbers the budget is {whole}, which protects nothing"
        )
    if count is not None and count > owner.examples:
        found.append(
            f"the data has {count} records, but replies.examples is {owner.examples}, so each training leaves some out "
            "at random; remove what is no record, or set replies.examples to the number of your records"
        )
    if count is not None and (count == 1 or count * _FAR_FEWER < owner.examples):
        found.append(
            f"the data was cut into {count} {'record' if count == 1 else 'records'}, and replies.examples is "
            f"{owner.examples}; if one record holds many persons, write each in a line, or a file, of its own: "
            "otherwise nothing can be learned"
        )
    elif guarantee.unit == "record" and owner.examples == 1:
        found.append(
            "replies.examples is 1, but the noise is for the sum of all records; set it to the number of your records"
        )
    times, span = (1, "for life") if in_rho else (owner.schedule.limit or _MANY, "per release")
    if guarantee.unit == "record" and guarantee.delta * times * owner.examples > _FAILING:
        more = "" if times == 1 else f" in each of {times} releases"
        todo = f"set it to {_rounded_down(_FAILING / times / owner.examples):g} or less"
        if begun and in_rho:
            few = math.floor(_FAILING / guarantee.delta)
            todo = f"it is fixed since the first release, so take part with {few} records at most"
        found.append(
            f"delta is {guarantee.delta:g}{more}, but must be far below 1 / {owner.examples}, the share of one record, "
            f"for life; {todo}"
        )
    if owner.rows and owner.records is None and not owner.simulation:
        found.append(
            "the app cuts the data into records by itself, so the promise holds only if it keeps them apart, which "
            "the gate cannot check; let pausefl cut the data: set path in the section [records]"
        )
    if look and owner.records is not None and not owner.simulation:
        found += doubtful_records(owner.records)
    if owner.clipped_by == "app":
        found.append(
            "clipped_by is 'app', so the promise holds only if the app clips every record's contribution, which the "
            "gate "
            "cannot check; attack the app with 'pausefl audit --owner FILE --app MODULE:MAKE'"
        )
    most = _MOST.get(guarantee.unit)
    if most is not None and budget > most:
        who = "for single records" if guarantee.unit == "record" else "for the whole update"
        found.append(
            f"the budget is {budget:g}, but {who} a budget above {most:g} protects little: a suspicion of 50 % can "
            f"become {_at_most(budget)}"
        )
    found += [] if owner.simulation else forgetful_places(owner.ledger)
    if guarantee.delta * times > DELTA_LIMIT / 2:
        found.append(f"delta is {guarantee.delta:g} {span}, which is near the limit of {DELTA_LIMIT:g} for life")
    return found


def _rounded_down(value: float) -> float:
    """Return the largest number with one digit that is not above this one."""
    unit = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.floor(value / unit * (1.0 + 1e-12)) * unit:.0e}")
