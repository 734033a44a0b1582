"""What a measurement is: validated settings, rows that follow from them, and the report drawn from the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from pausefl.report.contents import Report
from pausefl.studies.study import Progress
from pausefl.system.validated_sections import Section

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Mapping[str, Any]]


class Measurement(Section):
    """One measurement: its fields are its settings, each with the value of the full study as its default.

    A new one is a class in a file of its own, and a line in ``KINDS`` of this package.
    """

    kind: ClassVar[str]
    """The name in ``[study] measures``, and of the section with the settings."""
    columns: ClassVar[Mapping[str, type[float] | type[str]]]
    """The columns of its rows, and whether they are numbers or words; no other measurement may have all of them."""

    @abstractmethod
    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Measure, and yield one row after the other (times depend on the machine, all else on the settings)."""

    @classmethod
    @abstractmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return the report of such rows."""
