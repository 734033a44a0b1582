"""How much leaks: schedules that spread a lifetime budget over releases."""

from pausefl.privacy.schedule import FixedHorizon, Geometric, PowerLaw, Schedule

SCHEDULES: dict[str, type[Schedule]] = {kind.__name__: kind for kind in (Geometric, PowerLaw, FixedHorizon)}

__all__ = ["SCHEDULES", "FixedHorizon", "Geometric", "PowerLaw", "Schedule"]
