"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from pausefl.errors import InvalidValueError
from pausefl.selection.baselines import All, Fastest, Random
from pausefl.selection.brute import Brute
from pausefl.selection.clustered import ClusteredBySimilarity, ClusteredBySize
from pausefl.selection.exact import Pause
from pausefl.selection.policy import Policy
from pausefl.selection.sa_pause import SaPause, SaPauseAsPublished

POLICIES: dict[str, Callable[[], Policy]] = {
    kind.name: kind
    for kind in (Pause, SaPause, SaPauseAsPublished, Brute, Random, All, ClusteredBySize, ClusteredBySimilarity)
}


def policy_by_name(name: str) -> Policy:
    """Return a policy with its default settings."""
    if name in POLICIES:
        return POLICIES[name]()
    if name == Fastest.name:
        raise InvalidValueError(
            "policy is 'fastest', which must know the latencies; pass pausefl.Fastest(expected={id: seconds})"
        )
    names = [*POLICIES, Fastest.name]
    close = get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "or pass a Policy object"
    raise InvalidValueError(f"policy is {name!r}, but must be one of {', '.join(names)}; {hint}")
