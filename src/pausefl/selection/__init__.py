"""Who takes part."""

from pausefl.selection.base import Candidates, Objective, Policy, Solution
from pausefl.selection.brute import Brute, solve_brute
from pausefl.selection.exact import Pause, solve_exact

__all__ = ["Brute", "Candidates", "Objective", "Pause", "Policy", "Solution", "solve_brute", "solve_exact"]
