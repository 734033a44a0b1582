"""Who takes part: the solvers as functions, and every policy behind one contract."""

from pausefl.selection.annealing import Annealer, anneal
from pausefl.selection.baselines import All, Fastest, Random
from pausefl.selection.brute import Brute, solve_brute
from pausefl.selection.clustered import ClusteredBySimilarity, ClusteredBySize
from pausefl.selection.exact import Pause, solve_exact
from pausefl.selection.objective import Objective, Solution
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.selection.registry import POLICIES, check_options, option_names, policy_by_name
from pausefl.selection.sa_pause import PUBLISHED_KAPPA, SaPause, SaPauseAsPublished

__all__ = [
    "POLICIES",
    "PUBLISHED_KAPPA",
    "All",
    "Annealer",
    "Brute",
    "Candidates",
    "ClusteredBySimilarity",
    "ClusteredBySize",
    "Fastest",
    "Objective",
    "Pause",
    "Policy",
    "Random",
    "SaPause",
    "SaPauseAsPublished",
    "Solution",
    "anneal",
    "check_options",
    "option_names",
    "policy_by_name",
    "solve_brute",
    "solve_exact",
]
