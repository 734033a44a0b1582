"""Who takes part: the solvers as functions, and every policy behind one contract."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from pausefl.errors import InvalidValueError, did_you_mean
from pausefl.selection.annealing import Annealer, anneal
from pausefl.selection.baselines import All, Fastest, Random
from pausefl.selection.brute import Brute, solve_brute
from pausefl.selection.clustered import ClusteredBySimilarity, ClusteredBySize
from pausefl.selection.exact import Pause, solve_exact
from pausefl.selection.objective import Objective, Solution
from pausefl.selection.pause_auto import PauseAuto
from pausefl.selection.peers import (
    ActiveFL,
    BanditScheduling,
    CPowD,
    CsUcb,
    CsUcbQ,
    FedCS,
    Oort,
    PowD,
    RbcsF,
    Refl,
    RPowD,
    TiFL,
)
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.selection.sa_pause import PUBLISHED_KAPPA, SaPause, SaPauseAsPublished

__all__ = [
    "POLICIES",
    "PUBLISHED_KAPPA",
    "ActiveFL",
    "All",
    "Annealer",
    "BanditScheduling",
    "Brute",
    "CPowD",
    "Candidates",
    "ClusteredBySimilarity",
    "ClusteredBySize",
    "CsUcb",
    "CsUcbQ",
    "Fastest",
    "FedCS",
    "Objective",
    "Oort",
    "Pause",
    "PauseAuto",
    "Policy",
    "PowD",
    "RPowD",
    "Random",
    "RbcsF",
    "Refl",
    "SaPause",
    "SaPauseAsPublished",
    "Solution",
    "TiFL",
    "anneal",
    "check_options",
    "option_names",
    "policy_by_name",
    "solve_brute",
    "solve_exact",
]

POLICIES: dict[str, Callable[..., Policy]] = {
    Pause.name: Pause,
    PauseAuto.name: PauseAuto,
    SaPause.name: SaPause.of,
    SaPauseAsPublished.name: SaPauseAsPublished,
    Brute.name: Brute,
    Random.name: Random,
    All.name: All,
    ClusteredBySize.name: ClusteredBySize,
    ClusteredBySimilarity.name: ClusteredBySimilarity,
    Oort.name: Oort,
    PowD.name: PowD,
    CPowD.name: CPowD,
    RPowD.name: RPowD,
    ActiveFL.name: ActiveFL,
    TiFL.name: TiFL,
    CsUcb.name: CsUcb,
    CsUcbQ.name: CsUcbQ,
    RbcsF.name: RbcsF,
    BanditScheduling.name: BanditScheduling,
    Refl.name: Refl,
    FedCS.name: FedCS,
}
"""What makes a policy; its arguments are the policy's options."""


def policy_by_name(name: str) -> Policy:
    """Return a policy with its default settings."""
    if name in POLICIES:
        return POLICIES[name]()
    if name == Fastest.name:
        raise InvalidValueError(
            "policy is 'fastest', which must know the latencies; pass pausefl.Fastest(expected={id: seconds})"
        )
    names = [*POLICIES, Fastest.name]
    hint = did_you_mean(
        name,
        names,
        "use one of these names, or a class of your own: FILE:CLASS in a configuration, a Policy object in Python",
    )
    raise InvalidValueError(f"policy is {name!r}, but must be one of {', '.join(names)}; {hint}")


def option_names(kind: Callable[..., Policy]) -> list[str] | None:
    """Return the names of the arguments that make a policy; None if it takes any.

    >>> option_names(POLICIES["clustered-similarity"])
    ['metric']
    """
    parameters = signature(kind).parameters.values()
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return None
    return [one.name for one in parameters if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]


def check_options(name: str, known: Iterable[str] | None, options: Mapping[str, Any]) -> None:
    """Refuse options that a policy does not know; ``known`` is None if it takes any."""
    if known is None:
        return
    names = list(known)
    for option in options:
        if option not in names:
            takes = f"takes {', '.join(names)}" if names else "takes no options"
            close = get_close_matches(option, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"remove {option}"
            raise InvalidValueError(f"selection.options has {option!r}, but policy {name!r} {takes}; {hint}")
