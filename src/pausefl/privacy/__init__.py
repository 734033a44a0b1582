"""How much leaks: schedules that spread a lifetime budget over releases."""

from pausefl.privacy.schedule import FixedHorizon, Geometric, PowerLaw, Schedule

__all__ = ["FixedHorizon", "Geometric", "PowerLaw", "Schedule"]
