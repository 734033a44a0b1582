"""For all tests: no deadlines; what pausefl notes in the user's state folder goes to a temporary one.

Where several workers share the tests, each takes the next test that nobody has.  Two kinds of tests stay with one
worker, and begin first, so that no worker is left alone with them at the end: the real deployments, which mostly wait,
and the files whose tests share something that is costly to make.  Each worker that plays a part of such a file makes it
anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # else an example of more than 200 ms fails its test
settings.load_profile("any machine")

DEPLOYMENTS = ("tests/e2e/test_flower.py", "tests/e2e/test_node.py", "tests/e2e/test_first_minutes.py")
SHARING = {
    "tests/docs/test_blocks.py": "a process that has imported everything, from which commands are forked",
    "tests/wiring/test_command_options.py": "a stock of files and runs, and the calls that are compared with others",
    "tests/e2e/test_report_in_chromium.py": "a browser, and runs to draw",
    "tests/e2e/test_watch_in_chromium.py": "a browser, and a run to follow",
    "tests/e2e/test_ray_cluster.py": "a cluster of two nodes",
    "tests/runs/test_off_policy.py": "runs of many seeds, from which several estimates are made",
    "tests/report/test_run_report.py": "runs to draw",
    "tests/robustness/test_damaged_files.py": "a run to damage",
}
"""Files that one worker plays, and what their tests share."""


def piece(nodeid: str) -> str:
    """Return the name of the piece of work that a test belongs to: its own, or that of a larger one."""
    if nodeid.startswith(DEPLOYMENTS):
        return "deployments"
    file = nodeid.partition("::")[0]
    return file if file in SHARING else nodeid


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a worker, put the large pieces first: they are handed out in this order."""
    if hasattr(config, "workerinput"):
        order = {name: number for number, name in enumerate(("deployments", *SHARING))}
        items.sort(key=lambda item: order.get(piece(item.nodeid), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out the large pieces whole, and all else test by test."""
    from xdist.scheduler import LoadScopeScheduling

    class LargePiecesFirst(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return piece(nodeid)

    config.option.loadscopereorder = False  # the number of tests says nothing of how long they take
    return LargePiecesFirst(config, log)


@pytest.fixture(autouse=True, scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def path_of_imports() -> Iterator[None]:
    """Put back where Python looks for code: a command that is called here adds the folder of its file."""
    before = sys.path.copy()
    yield
    sys.path[:] = before
