"""Why a node is no candidate, in words that say what to do about it: one sentence for all nodes with the same fault."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flwr.app import Message
from flwr.common.constant import ErrorCode

from pausefl.flower.protocol import Refusal
from pausefl.owner.request_and_reply import SENTENCES

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TOLD = 3
"""How many names a message lists."""

_MOD = (
    "if you want privacy, write ClientApp(mods=[PrivateUpdate()]) in the app; for selection without privacy, pass "
    "names='node'"
)
_TODO = {
    "no mod": _MOD,
    "unready": (
        "name the owner's file: PrivateUpdate(owner=FILE) in a simulation, --node-config 'pausefl-owner=\"FILE\"' for "
        "a SuperNode; 'pausefl owner init' creates one, and 'pausefl owner check FILE' says what is wrong with it"
    ),
    "not loaded": "install what the app imports on the nodes, and start the run again",
    "registered": "names='registered' needs SuperNodes with keys: flwr supernode register KEY --name NAME",
    "shared name": "register each SuperNode under a name of its own, or pass names='key'",
    "key": "names='key' needs SuperNodes with keys: flower-superlink --enable-supernode-auth",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a node: ``kind`` is the same for nodes that need the same remedy, ``said`` is for a person."""

    kind: str
    said: str


def fault_of(message: Message, node: int) -> Fault:
    """Return what is wrong with a node that answered "who are you?" without a name.

    An app without the mod takes the question for training without a model.  It fails, or answers without a note.
    """
    if not message.has_error():
        return Fault("no mod", "answered without pausefl's mod")
    reason, code = _last_line(str(message.error.reason)), message.error.code
    if message.metadata.src_node_id != node:  # the SuperLink's own errors tell of the way there, not of the node
        return Fault("unreachable", f"gave no name: {reason!r:.200}")
    refusal = Refusal.of(message.error)
    if refusal is not None:
        return Fault(refusal.why, f"gave no name: pausefl refuses ({refusal.why}): {SENTENCES[refusal.why]}")
    kinds = {ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "not loaded", ErrorCode.CLIENT_APP_RAISED_EXCEPTION: "no mod"}
    said = "has an app without pausefl's mod, which failed" if kinds.get(code) == "no mod" else "gave no name"
    return Fault(kinds.get(code, f"error {code}"), f"{said}: Flower's error {code}: {reason!r:.200}")


def _last_line(reason: str) -> str:
    """Return the end of an error's text: of a traceback the exception itself, without colours of a terminal."""
    lines = [line.strip() for line in _COLOUR.sub("", reason).splitlines() if line.strip(" '<>")]
    return lines[-1] if lines else ""


def explained(faults: Sequence[Fault], names: str, known: Collection[str], silent: int = 0) -> str:
    """Say in one line what keeps the nodes out, each kind of fault once, and what to do about it.

    ``silent`` is how many were asked for their names and have not answered yet.
    """
    parts = []
    if silent:
        have = "node has" if silent == 1 else "nodes have"
        parts.append(f"{silent} connected {have} not said their names yet; wait longer, for example with wait=600.0")
    for kind, count in Counter(fault.kind for fault in faults).most_common(_TOLD):
        said = next(fault.said for fault in faults if fault.kind == kind)
        nodes = "1 connected node is left out: it" if count == 1 else f"{count} connected nodes are left out: each"
        todo = _TODO.get(names if kind == "unnamed" else kind, "")
        if kind == "unknown":
            first = ", ".join(repr(name)[:50] for name in list(known)[:_TOLD])
            todo = f"the selector knows {first}{', …' if len(known) > _TOLD else ''}"
            todo += "; give it the names of the nodes, or pass newcomers='join'"
        parts.append(f"{nodes} {said}" + (f"; {todo}" if todo else ""))
    return "; ".join(parts)
