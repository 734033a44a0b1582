"""The processes of a node, by name: supernode, executor, task, and the app in its box; for ``pausefl node`` alone."""

from __future__ import annotations

import sys


def main(role: str, *words: str) -> None:
    """Be one of them."""
    if role == "app":
        from pausefl.flower.node.boxed_app import main as run

        run()
    elif role == "supernode":
        from pausefl.flower.node.supernode import run_supernode

        run_supernode(*words)
    else:
        from pausefl.flower.node import executor

        {"executor": executor.run_executor, "task": executor.run_task}[role](*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
