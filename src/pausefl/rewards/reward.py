"""The whole reward of a round, as numbers per client: speed bound, generalization, privacy, and their weighted score.

Reference: PAUSE, eq. (reward func) with the averages of eq. (specialCase) and the cluster penalty of eq. (GenLoss);
eq. (ucb definition), and eq. (generalization reward), after Ben Ami et al. (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.rewards.budgets import Budgets
from pausefl.types import BudgetSchedule, FloatArray, IntArray, Seconds


def upper_confidence(mean_speed: FloatArray, picks: IntArray, rounds: int, m: int, zeta: float = 1.0) -> FloatArray:
    """Return zeta·mean + sqrt((m+1) log t / T) after ``rounds`` rounds; infinity for clients never picked.

    Args:
        mean_speed: The mean of tau_min / latency of each client.
        picks: How often each client was timed.  A latency that was known without a pick counts too.
        rounds: How many rounds were played.
        m: How many clients take part in a round.
        zeta: Amplifies the mean speed.

    >>> upper_confidence(np.array([0.5, 0.0]), np.array([4, 0]), rounds=10, m=3).round(3).tolist()
    [2.017, inf]
    """
    return zeta * mean_speed + speed_bonus(picks, rounds, m)  # PAUSE, eq. (ucb definition)


def speed_bonus(picks: IntArray, rounds: int, m: int) -> FloatArray:
    """Return sqrt((m+1) log t / T), by which a client may be faster than its mean; infinity if never timed.

    Args:
        picks: How often each client was timed.
        rounds: How many rounds were played.
        m: How many clients take part in a round.

    Deviation: log t is also 0 before the first round; in the paper there is no timing before it.

    >>> speed_bonus(np.array([4, 0]), rounds=10, m=3).round(3).tolist()
    [1.517, inf]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        bonus = np.sqrt((m + 1) * math.log(max(rounds, 1)) / picks)
    bonus[picks == 0] = np.inf  # also at first, where the logarithm is 0 and 0/0 no number
    return bonus


def underuse(shares: FloatArray, picks: IntArray, rounds: int, m: int, beta: float) -> FloatArray:
    """Return g_k = |d|^beta sign(d) with d = m·share - T/t; T/t is 0 before the first round.

    Args:
        shares: The share of all data that each client holds.
        picks: How often each client was picked.
        rounds: How many rounds were played.
        m: How many clients take part in a round.
        beta: How sharply the result separates little-used data from much-used data.

    Deviation: the paper bounds g by 1, which fails for a client that holds more than 1/m of all data; we keep the
    formula, and code that needs the range (the regret bound, the annealer) takes it from the data.

    >>> underuse(np.array([0.25, 0.75]), np.array([1, 0]), rounds=2, m=1, beta=2.0).tolist()
    [-0.0625, 0.5625]
    """
    gap = m * shares - (picks / rounds if rounds else 0.0)
    return np.sign(gap) * np.abs(gap) ** beta


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What each client would bring to a set.  Scores are divided by m, so the scores of a set simply add up.

    Attributes:
        ucb: How fast the client may be.
        generalization: How underused its data is.
        privacy: The share of its budget that is left.
        score: (alpha·generalization + gamma·privacy)/m.

    :meth:`Reward.terms` returns it, and has an example.
    """

    ucb: FloatArray
    generalization: FloatArray
    privacy: FloatArray
    score: FloatArray


@dataclass(frozen=True, slots=True)
class Reward:
    """The weights of the three aims, and how each is measured.

    Args:
        alpha: The weight of generalization.
        beta: The exponent of generalization, above 1.
        gamma: The weight of privacy.
        zeta: Amplifies measured speed.
        rho: What each collision within a cluster costs, times alpha.
        budgets: What is left of each client's budget.
        tau_min: The smallest possible latency in seconds; None is the smallest seen.

    >>> from pausefl import Selector
    >>> reward = Selector(sizes=[120, 300], per_round=1, clusters=[0, 0], rho=0.5, tau_min=0.05).reward
    >>> reward.collision, reward.mean_speed(np.array([10.0, 2.5]), fastest_seen=0.1).tolist()
    (50.0, [0.5, 0.125])
    """

    alpha: float
    beta: float
    gamma: float
    zeta: float
    rho: float
    budgets: Budgets
    tau_min: Seconds | None

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma", "zeta", "rho"):
            value = getattr(self, name)
            require(is_finite(value) and value >= 0, name, value, "a finite number from 0", "0 switches it off")
        require(
            is_finite(self.beta) and self.beta > 1.0, "beta", self.beta, "a finite number above 1", "the paper uses 2"
        )
        require(
            self.tau_min is None or (is_finite(self.tau_min) and self.tau_min > 0.0),
            "tau_min",
            self.tau_min,
            "a finite number of seconds above 0",
            "None takes the smallest latency seen so far",
        )

    @property
    def schedule(self) -> BudgetSchedule:
        """The schedule of all clients; it is an error if they have several."""
        return self.budgets.schedule

    @property
    def collision(self) -> float:
        """What each collision within a cluster costs."""
        return self.alpha * self.rho

    def set_range(self, m: int) -> float:
        """Return how far apart two sets of m can lie in all terms but speed: PAUSE, eq. (setting C)."""
        return self.alpha * (2.0 + self.rho * (m - 1)) + self.gamma

    def terms(
        self,
        speed: FloatArray,
        shares: FloatArray,
        picks: IntArray,
        releases: IntArray,
        timings: IntArray,
        *,
        rounds: int,
        m: int,
        rows: IntArray | slice | None = None,
    ) -> Terms:
        """Return the terms that decide round ``rounds + 1``; all of them are as of the end of round ``rounds``.

        Args:
            speed: The mean speed of each client.
            shares: The share of all data that each client holds.
            picks: How often each client was picked.
            releases: How many releases each client made.
            timings: How often each client was timed.
            rounds: How many rounds were played.
            m: How many clients take part in a round.
            rows: Which clients these are; None is all of them.

        >>> from pausefl import Selector
        >>> reward = Selector(sizes=[100, 300], per_round=1, alpha=100.0, gamma=5.0, tau_min=0.05).reward
        >>> first = np.array([1, 0])  # the first client was picked, timed, and has made a release
        >>> terms = reward.terms(np.array([0.5, 0.0]), np.array([0.25, 0.75]), first, first, first, rounds=1, m=1)
        >>> terms.ucb.tolist(), terms.generalization.tolist(), terms.privacy.round(2).tolist()
        ([0.5, inf], [-0.5625, 0.5625], [0.96, 1.0])
        >>> terms.score.round(2).tolist()
        [-51.45, 61.25]
        """
        generalization = underuse(shares, picks, rounds, m, self.beta)
        privacy = self.budgets.left(releases, rows)
        return Terms(
            ucb=upper_confidence(speed, timings, rounds, m, self.zeta),
            generalization=generalization,
            privacy=privacy,
            score=(self.alpha * generalization + self.gamma * privacy) / m,
        )

    def mean_speed(self, rate: FloatArray, fastest_seen: Seconds) -> FloatArray:
        """Return each client's mean of tau_min / latency, given its mean of 1 / latency."""
        tau_min = fastest_seen if self.tau_min is None else self.tau_min
        # Nobody has answered yet: every rate is 0, and so is every speed.
        return rate * (tau_min if math.isfinite(tau_min) else 0.0)
