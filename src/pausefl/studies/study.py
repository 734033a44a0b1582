"""What every study has, and every measurement: settings, and a way to play it that ends with a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from pausefl.report.report_files import Report
from pausefl.runs.parallel import Task
from pausefl.runs.run_data import RunData
from pausefl.system.toml_sections import Section

Scale: TypeAlias = Literal["full", "half", "smoke"]
Trainer: TypeAlias = Callable[[Sequence[Task]], Sequence[RunData]]
"""Plays runs, each in its folder, and returns them."""
Progress: TypeAlias = Callable[[float], None]
"""Called with the share that is done, from 0 to 1."""

_SMALLER = {"full": "", "half": " (half scale)", "smoke": " (smoke scale: a trial in small)"}


class About(Section):
    """What every ``[study]`` section has; ``half`` are the overrides that make it an evening's work on two cores."""

    title: str
    figures: list[str] = Field(default=[])
    half: list[str] = Field(default=[])

    def title_at(self, scale: Scale) -> str:
        """Return the title with the scale: only at full scale the study is what its title says."""
        return self.title + _SMALLER[scale]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of a study: into which folder, at which scale, and which part of it."""

    out: Path
    scale: Scale = "full"
    seeds: int | None = None
    policies: Sequence[str] = ()
    overrides: Sequence[str] = ()
    references: Sequence[Path] = ()
    """CSV files with curves of others, to be drawn beside ours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a study: its report, rows of numbers for another program, and the runs if anything was trained."""

    report: Report
    rows: Sequence[Mapping[str, Any]]
    runs: Sequence[RunData] = ()


class Study(ABC):
    """A study with or without training; both are played in the same way."""

    name: str
    about: About

    @abstractmethod
    def play(self, order: Order, train: Trainer, progress: Progress = lambda _: None) -> Outcome:
        """Play the study into its folder; ``train`` plays its runs, ``progress`` is called while it measures."""


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

    resumable: ClassVar[bool] = False
    """Whether ``rows`` takes ``known``, the rows that were measured before and are not wanted again."""

    @abstractmethod
    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Measure, and yield one row after the other (times depend on the machine, all else on the settings)."""

    @classmethod
    def seeds_played(cls, rows: Rows) -> str:
        """Say with how many seeds such rows were measured; nothing if they have none."""
        return f"{len({row['seed'] for row in rows})} seeds" if "seed" in rows[0] else ""

    @classmethod
    @abstractmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return the report of such rows."""
