"""What a choice is worth: speed, generalization, privacy left, clusters; and set functions of your own."""

from pausefl.rewards.budgets import budget_left
from pausefl.rewards.reward import Reward, Terms, speed_bonus, underuse, upper_confidence
from pausefl.rewards.set_rewards import LabelDiversity, collisions

__all__ = [
    "LabelDiversity",
    "Reward",
    "Terms",
    "budget_left",
    "collisions",
    "speed_bonus",
    "underuse",
    "upper_confidence",
]
