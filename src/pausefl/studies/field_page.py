"""The page that compares all policies, from the rows of the study ``field``: a table, tests, and when to use which."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pausefl.report.seed_statistics import holm, t_half_width, t_test
from pausefl.report.time_to_target import EXPLAINED
from pausefl.studies.measured.field import by_policy, by_setting, log_ratios, seconds_to_target
from pausefl.studies.study import Rows

OURS, TOLD = "pause-auto", "fastest"
"""The policy that the others are compared with, and the one that is told what nobody knows."""

USE_WHEN = {
    "fastest": "never in a real network: it shows what perfect knowledge of the network would gain",
    "pause-auto": "when you want the shortest time to a good model and have no weights to set",
    "rbcs-f": "when rounds should be short and every client is promised the same share of them",
    "bsfl": "when budgets are no concern and you set the weights by hand",
    "pause": "when you want to say yourself what speed, data and privacy are worth",
    "cs-ucb": "when all clients have the same kind of data and only speed counts",
    "oort": "when losses may leave the clients un-noised; here they cost budget, and 6 runs fail",
    "fedcs": "when rounds have a hard deadline and all clients hold the same kind of data",
    "cs-ucb-q": "when each client is promised a share of the rounds that fits its data",
    "tifl": "when clients fall into clear classes of speed and accuracies may leave them un-noised",
    "clustered": "when data is very unequal and the network is so rough that nobody can know who is fast",
    "random": "as the baseline, and when you want to judge other policies later by your logs",
    "refl": "when clients are rarely there and there is no time to measure them",
    "rpow-d": "when losses may leave the clients un-noised and data is unequal; it asks for the fewest of them",
    "afl": "when losses may leave the clients un-noised and every client must stay in reach",
    "pow-d": "when losses may leave the clients un-noised, and asking before each round costs little",
    "cpow-d": "as `pow-d`, when computing the loss of all data is too much work",
    "all": "when clients are few, fast and always there; here it spends all budgets in a few rounds",
}
"""A sentence for each policy, written by hand after reading the rows."""

_INTRODUCTION = """\
# The field: which policy, when privacy costs

Made with `{made_with}`. Every policy plays the same {settings} settings with the same {seeds} seeds. A client has the
same budget for life under every policy: epsilon 10 for its whole update, or epsilon 1 for any one record (delta 1e-5).
Some policies need losses or accuracies. They get them with noise, and the clients pay for them from that budget. [Which
policy](policies.md) says what each of them needs.

The target of a setting is 95 % of the accuracy that `random` reaches in the end with another seed. A setting with a
rough network has the same target as the one with a stable network. In a rough network clients come and go, some answers
never arrive, and some clients become slower for ever. Seconds are those of the virtual clock, and a rehearsal counts.
In the column *times as long*, a run that never gets to the target counts with the time of the longest run in that
setting. This makes such a run look better
than it is. `fastest` is told the true mean latencies, which nobody knows in a real network. So it only shows what would
be possible, and is not ranked.

**`{ours}` is first in {ahead} of {settings} settings.** Its three numbers were chosen by trials on MNIST, which half of
these settings use. [The rule was changed once](weights.md) after the runs of this page had been seen for the first
time. With the rule before that change it was first in 11 of them.

## All policies

*Times as long*: how many times as long as `{ours}` a policy needs to the target, with the same seed (geometric mean
over settings, 95 % interval over settings). *By chance*: if two policies were equally fast, how likely so large a
difference would be (Student's t on logarithms, Holm's correction for {others} comparisons). *Worst tenth*: the accuracy
on the tenth of the clients that the final model serves worst.
""".splitlines()

_BY_SETTING = f"Seconds to the target. {EXPLAINED}"

_WHY_NOT = """\
## Where pause-auto is not first, and the likely reason

- **Rough network, whole update protected** (3 settings). A twentieth of all answers never arrives. With 15 members more
  than half of the rounds wait for the deadline, whoever is chosen. So no choice makes rounds much shorter, and most
  policies lie close together. With equal data `refl` is first: it needs no rehearsal. With unequal data `clustered` is
  first: it draws the most even sample, while `pause-auto` gives up evenness for a speed that it does not get. In such a
  network, ask more clients than you wait for (`server.over_select`, `server.close_after`).
- **Unequal data, rough network, single records protected** (2 settings). Speed gains little here, too. Policies that
  promise a share of the rounds (`rbcs-f`) or look for clients that the model serves badly (`rpow-d`, `afl`, `pow-d`)
  use the data better. Protecting single records takes little noise, so a noised loss still says something.
- **Stable network, single records protected, Fashion-MNIST** (2 settings). `fedcs` with equal data and `oort` with
  unequal data are ahead by less than a second.

Where the whole update is protected, `pow-d`, `rpow-d` and `afl` are behind `random` in every setting. They look at
losses alone, and a client can afford only one bit per loss there. The budget that the bit costs is missing for updates.
`oort` and `tifl` also look at speed. On the stable network their median time is shorter than that of `random`, though
some of their runs with unequal data fail. On the rough network it is longer. `cpow-d` equals `pow-d` in all these
runs, because their clients train on all of their data at once, so that one minibatch is all of it.
""".splitlines()


@dataclass(frozen=True, slots=True)
class Standing:
    """How one policy did beside ``pause-auto``, over all settings.

    ``log_ratio`` is the mean over settings of the mean over seeds of log(its seconds / ours), and ``half_width`` half
    of its 95 % interval over settings.  ``chance`` is how likely so large a
    difference is between equal policies, by Student's t over settings, corrected for the number of policies (Holm).
    """

    policy: str
    firsts: int
    there: int
    runs: int
    log_ratio: float
    half_width: float
    chance: float | None
    accuracy: float
    worst_tenth: float


def field_page(rows: Rows, made_with: str) -> str:
    """Return the page."""
    settings = {name: by_policy(found) for name, found in by_setting(rows).items()}
    standings = standing(settings)
    seeds = len({row["seed"] for row in rows})
    ahead = sum(_places(policies)[OURS] == 1 for policies in settings.values())
    lines = [line.format(
        made_with=made_with, settings=len(settings), seeds=seeds, ours=OURS, ahead=ahead, others=len(standings) - 1
    ) for line in _INTRODUCTION]  # fmt: skip
    columns = "policy", "first in", "gets there", "times as long", "by chance", "final accuracy (%)", "worst tenth (%)"
    lines += ["", *_head(*columns), *(_line(one, len(settings)) for one in standings)]
    lines += ["", "## When to use which", "", *_head("policy", "use it")]
    lines += [f"| `{one.policy}` | {USE_WHEN.get(one.policy, '')} |" for one in standings]
    lines += ["", "## Setting by setting", "", _BY_SETTING, ""]
    lines += _head("setting", "target (%)", "first", "second", "third", f"`{OURS}`", "`random`")
    lines += [_setting_line(name, policies) for name, policies in settings.items()]
    return "\n".join([*lines, "", *_WHY_NOT, ""])


def _head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def standing(settings: Mapping[str, Mapping[str, Rows]]) -> list[Standing]:
    """Return how each policy did, the quickest first."""
    policies = list(dict.fromkeys(policy for found in settings.values() for policy in found))
    ratios = {policy: [_log_ratio(found, policy) for found in settings.values()] for policy in policies}
    others = [policy for policy in policies if policy != OURS]
    chances = dict(zip(others, holm([t_test(ratios[policy]) for policy in others]), strict=True))
    found = []
    for policy in policies:
        rows = [row for named in settings.values() for row in named[policy]]
        found.append(Standing(
            policy,
            sum(_places(named).get(policy) == 1 for named in settings.values()),
            sum(math.isfinite(row["seconds"]) for row in rows),
            len(rows),
            float(np.mean(ratios[policy])),
            t_half_width(ratios[policy]),
            chances.get(policy),
            float(np.mean([row["accuracy"] for row in rows])),
            float(np.mean([row["worst_tenth"] for row in rows])),
        ))  # fmt: skip
    return sorted(found, key=lambda one: one.log_ratio)


def _places(policies: Mapping[str, Rows]) -> dict[str, int]:
    return {policy: place for place, policy in enumerate((name for name in policies if name != TOLD), 1)}


def _log_ratio(policies: Mapping[str, Rows], policy: str) -> float:
    longest = max(row["all_seconds"] for rows in policies.values() for row in rows)
    return float(np.mean(log_ratios(policies[policy], policies[OURS], longest)))


def _line(one: Standing, settings: int) -> str:
    place = "a bound" if one.policy == TOLD else f"{one.firsts} of {settings}"
    low, high = (math.exp(one.log_ratio + side * one.half_width) for side in (-1, 1))
    times = "1" if one.policy == OURS else f"{math.exp(one.log_ratio):.2f} ({low:.2f} to {high:.2f})"
    chance = "" if one.chance is None else "below 0.001" if one.chance < 0.001 else f"{one.chance:.3f}"
    return (
        f"| `{one.policy}` | {place} | {one.there} of {one.runs} | {times} | {chance} | {one.accuracy:.1f} | "
        f"{one.worst_tenth:.1f} |"
    )


def _setting_line(name: str, policies: Mapping[str, Rows]) -> str:
    best = [policy for policy in policies if policy != TOLD][:3]
    first = [f"`{policy}` {seconds_to_target(policies[policy])}" for policy in best]
    target = next(iter(policies.values()))[0]["target"]
    shown = [str(seconds_to_target(policies[policy])) for policy in (OURS, "random")]
    return f"| {' | '.join([name, f'{target:.1f}', *first, *shown])} |"
