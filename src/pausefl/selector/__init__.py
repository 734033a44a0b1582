"""Who takes part, decided round by round: what is known of the clients, what is to be decided, and the façade."""

from pausefl.selector.decision import Selection
from pausefl.selector.selector import Selector

__all__ = ["Selection", "Selector"]
