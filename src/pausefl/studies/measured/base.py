"""What a measurement is: validated settings, and rows that follow from them (times also from the machine)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from pausefl.system.settings import Section

Row = dict[str, Any]
Progress = Callable[[float], None]
"""Told the share that is done, from 0 to 1."""


class Measurement(Section):
    """Settings of one measurement; every field has the value of the full study as its default."""

    @abstractmethod
    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Measure, and yield one row after the other, all with the same columns."""
