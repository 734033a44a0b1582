"""What a search varies: each key with its values, as ``--vary KEY=VALUES`` spells them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TypeAlias

from pausefl.errors import InvalidValueError, PauseError, is_finite, require, shown

Value: TypeAlias = str | int | float
Values: TypeAlias = Mapping[str, Value]
"""A value per key; a text stands for itself, as after ``--set KEY=``."""

_EXAMPLE = "e.g. --vary selection.alpha=0.1..100:log or --vary selection.gamma=0,1,5"
_MOST_COMBINATIONS = 10_000
_MOST_INTEGER = 2**53
_TRIED = 64
"""With so many settings of the other keys a value is tried before it is refused."""


class Choices(ABC):
    """The values of one key."""

    key: str
    text: str

    @property
    @abstractmethod
    def ends(self) -> Sequence[Value]:
        """The values that must be possible: all of a list, both ends of a range."""


@dataclass(frozen=True, slots=True)
class Listed(Choices):
    """A few values, each as it was spelled.

    >>> read_choices("selection.gamma=0, 1, 5").ends
    ('0', '1', '5')
    """

    key: str
    text: str
    values: tuple[str, ...]

    @property
    def ends(self) -> Sequence[str]:
        """All values."""
        return self.values


@dataclass(frozen=True, slots=True)
class Range(Choices):
    """All numbers from ``low`` to ``high``: whole ones if both ends are spelled so; by their logarithm with ``:log``.

    >>> read_choices("selection.alpha=0.1..100:log")
    Range(key='selection.alpha', text='0.1..100:log', low=0.1, high=100.0, log=True)
    """

    key: str
    text: str
    low: int | float
    high: int | float
    log: bool

    @property
    def ends(self) -> Sequence[int | float]:
        """The smallest and the largest value."""
        return (self.low, self.high)


Space: TypeAlias = Sequence[Listed | Range]


def read_space(texts: Sequence[str]) -> Space:
    """Return what is varied, each key once."""
    require(len(texts) > 0, "--vary", "missing", "given for one key or more", _EXAMPLE)
    space = [read_choices(text) for text in texts]
    keys = [choices.key for choices in space]
    for key in keys:
        require(keys.count(key) == 1, "--vary", f"{key} twice", "given once for each key", "put all values into one")
    return space


def read_choices(text: str) -> Listed | Range:
    """Return the key and the values that ``KEY=LOW..HIGH``, ``KEY=LOW..HIGH:log`` or ``KEY=V1,V2,…`` stands for."""
    key, found, values = (part.strip() for part in text.partition("="))
    require(
        bool(found and values) and all(key.split(".")) and "." in key, "--vary", text, "SECTION.KEY=VALUES", _EXAMPLE
    )
    require(key != "run.seed", "--vary", text, "another key than run.seed", "use --seed and --seeds")
    if ".." in values:
        return _range(key, values)
    require(not values.endswith(":log"), f"--vary {key}", values, "a range LOW..HIGH to be followed by :log", _EXAMPLE)
    listed = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    require(len(listed) > 0, f"--vary {key}", values, "one value or more", "separate them by commas")
    return Listed(key, ",".join(listed), listed)


def _range(key: str, values: str) -> Range:
    name, (ends, _, scale) = f"--vary {key}", values.partition(":")
    require(scale in ("", "log"), name, values, "LOW..HIGH or LOW..HIGH:log", "leave the rest out")
    low, high = (_number(name, values, end.strip()) for end in ends.split("..", 1))
    if isinstance(low, float) or isinstance(high, float):
        low, high = float(low), float(high)
    require(low < high, name, values, "a range that begins below its end", "swap the two numbers, or list the values")
    require(
        scale != "log" or low > 0, name, values, "above 0 where it begins to be followed by :log", "raise its beginning"
    )
    return Range(key, values, low, high, scale == "log")


def _number(name: str, values: str, text: str) -> int | float:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if is_finite(number) and (kind is float or abs(number) <= _MOST_INTEGER):
            return number
    raise InvalidValueError(
        f"{name} is {shown(values)}, but must be two finite numbers with .. between them; {_EXAMPLE}"
    )


def combinations(space: Space) -> list[dict[str, str]] | None:
    """Return every combination of lists, the last key changing fastest; None if some key has a range."""
    lists = [choices for choices in space if isinstance(choices, Listed)]
    if len(lists) < len(space):
        return None
    count = math.prod(len(choices.values) for choices in lists)
    require(
        count <= _MOST_COMBINATIONS, "--vary", f"{count:,} combinations", f"at most {_MOST_COMBINATIONS:,}",
        "list fewer values, or give ranges and --trials",
    )  # fmt: skip
    keys = [choices.key for choices in lists]
    return [dict(zip(keys, values, strict=True)) for values in product(*(choices.values for choices in lists))]


def require_possible(space: Space, use: Callable[[Values], object]) -> None:
    """Refuse a value that no setting of the other keys makes possible; ``use`` raises an error for what is not.

    A value may need one of another key (momentum needs an optimiser that has it), so one that fails alone is tried
    with others.  The error is that of the value alone.
    """
    for choices in space:
        others = [other for other in space if other is not choices]
        for value in choices.ends:
            try:
                use({choices.key: value})
            except PauseError:
                settings = product(*(other.ends for other in others))
                tried = [
                    dict(zip((o.key for o in others), setting, strict=True)) for setting in islice(settings, _TRIED)
                ]
                if not any(_works(use, {choices.key: value, **setting}) for setting in tried if setting):
                    raise


def _works(use: Callable[[Values], object], values: Values) -> bool:
    try:
        use(values)
    except PauseError:
        return False
    return True
