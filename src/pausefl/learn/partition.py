"""Who holds which images: disjoint, covering and seeded.

Reference: PAUSE, Section V-A (sizes from a Dirichlet distribution, a dominant label of about a quarter of the data).
"""

from __future__ import annotations

import numpy as np

from pausefl.errors import require
from pausefl.types import IntArray


def iid(labels: IntArray, clients: int, rng: np.random.Generator) -> list[IntArray]:
    """Deal the images out at random, in equal parts (to within one).

    >>> [len(part) for part in iid(np.zeros(7, dtype=np.int64), 3, np.random.default_rng(0))]
    [3, 2, 2]
    """
    _require_enough(labels, clients)
    return [np.sort(part) for part in np.array_split(rng.permutation(len(labels)), clients)]


def by_sizes(
    labels: IntArray, clients: int, rng: np.random.Generator, concentration: float, dominant: float
) -> list[IntArray]:
    """Deal out sizes from Dirichlet(concentration), a ``dominant`` share of each client's images from one label.

    Labels are dominant in turn, so that all are used; where a label runs out, other images take its place.
    """
    _require_enough(labels, clients)
    require(concentration > 0, "concentration", concentration, "above 0", "the paper uses 2 and 3")
    require(0 <= dominant <= 1, "dominant", dominant, "from 0 to 1", "the paper uses about 0.25")
    sizes = _whole_sizes(rng.dirichlet(np.full(clients, concentration)), len(labels))
    classes = int(labels.max()) + 1
    piles = [list(rng.permutation(np.flatnonzero(labels == label))) for label in range(classes)]
    favourite = rng.permutation(np.arange(clients) % classes)
    parts: list[list[int]] = [[] for _ in range(clients)]
    for client in rng.permutation(clients):
        pile = piles[favourite[client]]
        for _ in range(min(round(dominant * int(sizes[client])), len(pile))):
            parts[client].append(int(pile.pop()))
    _fill_up(parts, sizes, favourite, piles, rng)
    return [np.sort(np.array(part, dtype=np.int64)) for part in parts]


def _fill_up(
    parts: list[list[int]], sizes: IntArray, favourite: IntArray, piles: list[list[int]], rng: np.random.Generator
) -> None:
    """Deal out what is left, each client from other labels than its own as long as there are any."""
    for client in rng.permutation(len(parts)):
        own = int(favourite[client])
        for _ in range(int(sizes[client]) - len(parts[client])):
            left = np.array([0 if label == own else len(pile) for label, pile in enumerate(piles)])
            if not left.any():
                left[own] = len(piles[own])
            label = int(np.searchsorted(np.cumsum(left), rng.integers(left.sum()), side="right"))
            parts[client].append(int(piles[label].pop()))


def by_labels(labels: IntArray, clients: int, rng: np.random.Generator, concentration: float) -> list[IntArray]:
    """Share each label out by its own Dirichlet(concentration): the field's usual non-i.i.d. setting."""
    _require_enough(labels, clients)
    require(concentration > 0, "concentration", concentration, "above 0", "0.1 is harsh, 1 is mild")
    owner = np.empty(len(labels), dtype=np.int64)
    for label in range(int(labels.max()) + 1):
        images = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.cumsum(rng.dirichlet(np.full(clients, concentration)))[:-1] * len(images)
        for client, part in enumerate(np.split(images, np.round(cuts).astype(np.int64))):
            owner[part] = client
    # A client without a single image cannot take part: the largest lends one.
    counts = np.bincount(owner, minlength=clients)
    for poor in np.flatnonzero(counts == 0):
        rich = int(np.argmax(counts))
        owner[np.flatnonzero(owner == rich)[0]] = poor
        counts[rich] -= 1
        counts[poor] += 1
    return [np.flatnonzero(owner == client) for client in range(clients)]


def natural(owners: IntArray, clients: int) -> list[IntArray]:
    """Leave the images where they are: ``owners`` says who holds each.

    >>> [part.tolist() for part in natural(np.array([1, 0, 1]), 2)]
    [[1], [0, 2]]
    """
    counts = np.bincount(owners, minlength=clients)
    empty = int((counts == 0).sum())
    require(
        empty == 0, "train_size", len(owners), f"so large that each of the {clients} natural clients keeps an image",
        f"leave it out, because {empty} would have none",
    )  # fmt: skip
    return np.split(np.argsort(owners, kind="stable"), np.cumsum(counts)[:-1])


def _whole_sizes(shares: np.ndarray, total: int) -> IntArray:
    """Round shares of a total to whole numbers of at least 1 that add up to it."""
    spare = total - len(shares)
    exact = shares * spare
    sizes = np.floor(exact).astype(np.int64)
    order = np.argsort(sizes - exact, kind="stable")
    sizes[order[: spare - int(sizes.sum())]] += 1
    whole: IntArray = sizes + 1
    return whole


def _require_enough(labels: IntArray, clients: int) -> None:
    require(
        1 <= clients <= len(labels),
        "clients",
        clients,
        f"from 1 to the {len(labels)} images",
        "use fewer clients, or more images",
    )
