"""Random draws whose numbers belong to the clients, so that permuting the clients permutes what is drawn.

References: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006): the smallest keys E/w, with an
exponential number E and a weight w each, are a draw without replacement in proportion to the weights.
"""

from __future__ import annotations

import numpy as np

from pausefl.rng import tickets
from pausefl.selection.policy_contract import Candidates
from pausefl.types import FloatArray, IntArray


def uniforms(candidates: Candidates, purpose: str) -> FloatArray:
    """Return a number above 0 and below 1 for each candidate; other purposes give other, independent numbers."""
    own = candidates.tickets(np.arange(len(candidates)))
    mixed = tickets(0, purpose, candidates.round_number, own)
    # The upper 52 bits, in the middle of their interval: neither 0 nor 1, whatever the rounding.
    numbers: FloatArray = (mixed >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53
    return numbers


def drawn(
    candidates: Candidates, purpose: str, count: int, among: IntArray, log_weights: FloatArray | None = None
) -> IntArray:
    """Draw positions out of ``among`` without replacement, first drawn first; all of them if they are fewer.

    ``log_weights`` are the logarithms of the weights of those in ``among``; -inf comes last.  None: equal weights.
    """
    luck = uniforms(candidates, purpose)[among]
    # The logarithm of E/w, so that neither a large nor a small weight leaves the range of floats.
    keys = np.log(-np.log(luck)) - (0.0 if log_weights is None else log_weights)
    return among[np.lexsort((luck, keys))[:count]]


def highest(candidates: Candidates, values: FloatArray, count: int, among: IntArray | None = None) -> IntArray:
    """Return the positions of the highest values, highest first; ties go to the smaller ticket.

    ``values`` are those of the positions in ``among``; None: those of all candidates.
    """
    positions = np.arange(len(candidates)) if among is None else among
    return positions[np.lexsort((candidates.tickets(positions), -values))[:count]]


def tied_ranks(values: FloatArray) -> tuple[IntArray, IntArray]:
    """Return for each value how many are higher, and how many are equal to it, itself included."""
    _, group, size = np.unique(-values, return_inverse=True, return_counts=True)
    higher = np.cumsum(size) - size
    return higher[group], size[group]
