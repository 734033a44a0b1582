"""How a policy looks: one colour, dash and marker for its name, on every page and whichever others stand beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

SHAPES = {
    "circle": "M-.8,0A.8,.8,0,1,1,.8,0A.8,.8,0,1,1,-.8,0Z",
    "diamond": "M0,-1L1,0L0,1L-1,0Z",
    "up": "M0,-.95L.9,.75L-.9,.75Z",
    "square": "M-.72,-.72H.72V.72H-.72Z",
    "cross": "M-.3,-.9H.3V-.3H.9V.3H.3V.9H-.3V.3H-.9V-.3H-.3Z",
    "down": "M0,.95L.9,-.75L-.9,-.75Z",
    "right": "M.95,0L-.75,.9L-.75,-.9Z",
    "left": "M-.95,0L.75,.9L.75,-.9Z",
}
"""Markers as paths in a box from -1 to 1, the same for charts and for the page's legend."""


@dataclass(frozen=True, slots=True)
class Look:
    """Colour for the screen, dash and marker for grey paper."""

    colour: str
    dash: tuple[int, ...]
    shape: str

    @property
    def path(self) -> str:
        """The marker as an SVG path."""
        return SHAPES[self.shape]


# Okabe and Ito's colours, which colour-blind readers tell apart.
KNOWN = {
    "pause": Look("#0072B2", (1, 0), "circle"),
    "sa-pause": Look("#56B4E9", (10, 3), "diamond"),
    "sa-pause-as-published": Look("#7F7FFF", (5, 2, 1, 2, 1, 2), "left"),
    "random": Look("#E69F00", (2, 2), "up"),
    "clustered": Look("#009E73", (7, 2, 2, 2), "square"),
    "fastest": Look("#CC79A7", (4, 3), "right"),
    "all": Look("#D55E00", (8, 3, 1, 3, 1, 3), "cross"),
    "all (no privacy)": Look("#000000", (1, 0), "down"),
}

STANDINGS = {
    "best": Look("#D55E00", (1, 0), "diamond"),
    "on the front": Look("#0072B2", (10, 3), "circle"),
    "behind the front": Look("#8C8C8C", (2, 2), "square"),
    "aim not met": Look("#CC79A7", (4, 3), "cross"),
    "stopped early": Look("#BDBDBD", (1, 3), "down"),
}
"""Where the trials of a search stand; the worst come last."""

# Tol's muted colours that stay clear of the ones above.
OTHERS = (
    Look("#332288", (3, 2), "left"),
    Look("#882255", (8, 3), "square"),
    Look("#8A8A2B", (1, 2), "diamond"),
    Look("#7A4A1E", (10, 2, 1, 2), "up"),
    Look("#6E6E6E", (6, 2, 2, 2), "circle"),
    Look("#AA4499", (4, 3, 1, 3), "cross"),
    Look("#44AA99", (12, 2), "right"),
)


REFERENCE = " (reference)"
"""How the names of other people's curves end: they come last, and never change the look of a policy."""

BOUND = "bound, "
"""How the name of a curve's bound begins: it has the curve's colour, a marker of its own, and no dashes."""


def ordered(names: Iterable[str]) -> list[str]:
    """Return names as readers expect them: PAUSE, its baselines, then the others by name."""
    places = [*KNOWN, *STANDINGS]
    return sorted(
        names, key=lambda name: (places.index(name) if name in places else len(places), name.endswith(REFERENCE), name)
    )


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look per name; an unknown name always gets the same one, unless another unknown name has it already.

    >>> looks(["mine", "pause"])["mine"] == looks(["random", "mine"])["mine"]
    True
    """
    every = ordered(names)
    plain = dict.fromkeys(name.removeprefix(BOUND) for name in every)
    fixed = KNOWN | STANDINGS
    own = [name for name in plain if name not in fixed]
    out = fixed | dict(zip(own, _apart(own), strict=True))
    shapes = list(SHAPES)
    for name in plain:
        curve = out[name]
        next_shape = shapes[(shapes.index(curve.shape) + 1) % len(shapes)]
        out[f"{BOUND}{name}"] = Look(curve.colour, (1, 0), next_shape)
    return {name: out[name] for name in every}


def _apart(names: Sequence[str]) -> Iterator[Look]:
    """Yield a look per name: when all are taken, colours come back with another dash and marker."""
    count = len(OTHERS)
    for number, name in enumerate(names):
        turn = number // count
        if number % count == 0:
            free = set(range(count))
        place = crc32(name.encode()) % count
        while place not in free:
            place = (place + 1) % count
        free.remove(place)
        other = OTHERS[(place + turn) % count]
        yield Look(OTHERS[place].colour, other.dash, other.shape)
