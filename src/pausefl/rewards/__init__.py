"""What a choice is worth: speed, generalization, privacy left, clusters; and set functions of your own."""

from pausefl.rewards.congestion import collisions
from pausefl.rewards.diversity import LabelDiversity
from pausefl.rewards.generalization import underuse
from pausefl.rewards.latency import upper_confidence
from pausefl.rewards.privacy import budget_left
from pausefl.rewards.reward import Reward, Terms

__all__ = ["LabelDiversity", "Reward", "Terms", "budget_left", "collisions", "underuse", "upper_confidence"]
