"""What a choice is worth: speed, generalization, privacy left, clusters; and set functions of your own."""

from pausefl.rewards.reward import Reward, Terms
from pausefl.rewards.set_rewards import LabelDiversity, collisions
from pausefl.rewards.terms import budget_left, speed_bonus, underuse, upper_confidence

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
