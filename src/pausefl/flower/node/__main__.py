"""The processes of a node, by name: supernode, executor, task, and in a box the app, or rooms for it."""

from __future__ import annotations

import os
import sys

from pausefl.system.child_processes import die_with_parent, follow_parent


def main(role: str, *words: str) -> None:
    """Be one of them; all but those in a box, which ends them, are told the parent that they end with."""
    if role == "app":
        from pausefl.flower.node.boxed_app import main as run

        run(records="records" in words, mean="mean" in words)
        return
    if role == "rooms":
        from pausefl.flower.node.boxed_rooms import main as make_rooms

        make_rooms(*words)
        return
    parent, *rest = words
    follow_parent()
    die_with_parent()  # the first one sees it only when Python has time, and a server can take that time away
    if os.getppid() != int(parent):
        sys.exit(1)  # it died before it could be followed
    if role == "supernode":
        from pausefl.flower.node.supernode import run_supernode

        run_supernode(*rest)
    else:
        from pausefl.flower.node import executor

        {"executor": executor.run_executor, "task": executor.run_task}[role](*rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
