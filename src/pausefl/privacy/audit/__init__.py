"""The audit: attack what releases updates, and bound from below what it must have leaked."""

from pausefl.privacy.audit.search import Audit, attack, audit, bound_for

__all__ = ["Audit", "attack", "audit", "bound_for"]
