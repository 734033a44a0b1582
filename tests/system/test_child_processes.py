"""Children end with their parent, whatever they are doing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

CHILD = "from pausefl.system.child_processes import {how}; {how}(); print('ready', flush=True); input()"
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
input()
"""


def test_a_child_that_cannot_look_after_its_parent_dies_with_it() -> None:
    """A server kept a SuperNode busy in one long call, and a reply left after the owner had stopped and retired."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD.format(how="die_with_parent")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        over = os.pidfd_open(child)
        try:
            parent.kill()
            assert select.select([over], [], [], 30.0)[0], "the child lives on"
        finally:
            os.close(over)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
