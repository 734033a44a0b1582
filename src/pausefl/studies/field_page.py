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
    "pause-auto": "when you want the shortest time to a good model and do not want to set weights",
    "rbcs-f": "when rounds should be short and every client is promised the same share of the rounds",
    "bsfl": "when you do not care about budgets and you set the weights by hand",
    "pause": "when you want to set the weights of speed, data and privacy yourself",
    "cs-ucb": "when all clients have the same kind of data and only speed counts",
    "oort": "when clients may send losses without noise; here losses cost budget, and 6 runs miss the target",
    "fedcs": "when rounds have a hard deadline and all clients have the same kind of data",
    "cs-ucb-q": "when each client is promised a share of the rounds in proportion to its data",
    "tifl": "when clients fall into clear classes of speed and may send accuracies without noise",
    "clustered": "when data is very unequal and the network is so rough that nobody can know who is fast",
    "random": "as the baseline, and when you want to judge other policies later by your logs",
    "refl": "when clients are rarely available and there is no time to measure them",
    "rpow-d": "when clients may send losses without noise and data is unequal; it asks for the fewest losses",
    "afl": "when clients may send losses without noise and every client must keep a chance to be picked",
    "pow-d": "when clients may send losses without noise, and asking them before each round costs little",
    "cpow-d": "like `pow-d`, when it is too much work to compute the loss of all data",
    "all": "when there are few clients, all of them fast and always available; here it soon spends all budgets",
}
"""A sentence for each policy, written by hand after reading the rows."""

_INTRODUCTION = """\
# Which policy is fastest when privacy costs

A policy is the rule that picks the clients of a round. This page compares the policies of pausefl that choose by
different rules. The command
`{made_with}` makes it from the rows of the study `field`.

Every policy plays the same {settings} settings with the same {seeds} seeds. A seed is the number from which all random
numbers of a run follow. Under every policy a client has the same budget for its whole life: epsilon 10 if its whole
update is protected, or epsilon 1 if single records are protected (delta 1e-5). [Units](units.md) explains epsilon and
delta. Some policies need losses or accuracies from the clients. The clients send them with noise, and pay for them from
the same budget. [Policies](policies.md) says what each policy needs.

We measure the time to a target, in seconds of the simulator's clock:

- The target of a setting is 95 % of the accuracy that `random` reaches in the end with another seed. A rough network
  has the same target as the stable network.
- In a rough network clients come and go, some answers never arrive, and some clients become slower for ever.
- Policies that need latencies begin with a rehearsal. It measures all clients before the first round, and its seconds
  count. Other policies begin at once.
- `fastest` is told the true mean latencies. Nobody knows these in a real network. So `fastest` only shows what would be
  possible, and is not ranked.

**`{ours}` is first in {ahead} of {settings} settings.** We chose its three numbers by trials on MNIST, and half of
these settings use MNIST. We [changed the rule once](weights.md) after we had seen the first runs of this page. With
the rule before that change, `{ours}` was first in 11 settings.

## All policies

The columns are:

- *First in*: in how many settings the policy is first.
- *Gets there*: how many runs reach the target.
- *Times as long*: how many times as long as `{ours}` the policy needs to the target, with the same seed. This is the
  geometric mean over settings, with its 95 % interval over settings. A run that never reaches the target counts with
  the time of the longest run in that setting. So such a run looks better than it is.
- *By chance*: how likely so large a difference would be if the two policies were equally fast. This is the p-value of
  Student's t test on logarithms, with Holm's correction for {others} comparisons.
- *Worst tenth*: the accuracy on the tenth of the clients that the final model serves worst.
""".splitlines()

_BY_SETTING = f"The numbers are seconds to the target. {EXPLAINED}"

_WHY_NOT = """\
## Where pause-auto is not first, and possible explanations

- **Rough network, whole update protected** (3 settings). One in twenty answers never arrives. With 15 clients per
  round, more than half of the rounds wait until the deadline, whichever clients are picked. So no policy can make
  rounds much shorter, and most policies are close together. With equal data `refl` is first, because it needs no
  rehearsal. With unequal data `clustered` is first. It draws the most even sample of the data. `pause-auto` accepts a
  less even sample to gain speed, but gains little here. In such a network, ask more clients than you wait for
  (`server.over_select`, `server.close_after`).
- **Rough network, unequal data, single records protected** (2 settings). Here, too, speed gains little. Some policies
  use the data better: `rbcs-f` promises every client a share of the rounds, and `rpow-d`, `afl` and `pow-d` look for
  clients that the model serves badly. To protect single records takes little noise, so a loss with noise is still
  useful.
- **Stable network, single records protected, Fashion-MNIST** (2 settings). `fedcs` with equal data and `oort` with
  unequal data are ahead by less than a second.

Where the whole update is protected, `pow-d`, `rpow-d` and `afl` are slower than `random` in every setting. They look at
losses alone. With this budget a client can afford only one bit per loss, and what the bit costs is missing for updates.
`oort` and `tifl` also look at speed. In the stable network their median time is shorter than that of `random`, but some
of their runs with unequal data miss the target. In the rough network their median time is longer. `cpow-d` equals
`pow-d` in all these runs. `cpow-d` computes the loss of one minibatch, and here the clients train on all of their data
at once, so one minibatch is all of the data.
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
