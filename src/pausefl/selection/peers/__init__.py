"""Policies of other papers, from their formulas and with their defaults, behind the same contract as ours."""

from pausefl.selection.peers.afl import ActiveFL
from pausefl.selection.peers.bsfl import BanditScheduling
from pausefl.selection.peers.cs_ucb import CsUcb, CsUcbQ
from pausefl.selection.peers.fedcs import FedCS
from pausefl.selection.peers.oort import Oort
from pausefl.selection.peers.power_of_choice import CPowD, PowD, RPowD
from pausefl.selection.peers.rbcs_f import RbcsF
from pausefl.selection.peers.refl import Refl
from pausefl.selection.peers.tifl import TiFL

__all__ = [
    "ActiveFL",
    "BanditScheduling",
    "CPowD",
    "CsUcb",
    "CsUcbQ",
    "FedCS",
    "Oort",
    "PowD",
    "RPowD",
    "RbcsF",
    "Refl",
    "TiFL",
]
