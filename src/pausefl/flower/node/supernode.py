"""The SuperNode of a node, and the options of it that are not the caller's to choose."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.common.config import parse_config_args
from flwr.supercore.utils import disable_process_dumping, get_flwr_home

from pausefl.errors import ConfigError
from pausefl.flower.client import NODE_KEY

_supernode: Any = import_module("flwr.supernode.cli.flower_supernode")
_OURS = ("isolation", "superexec_auth_secret_file", "host", "port", "ssl_certfile", "ssl_keyfile", "ssl_ca_certfile")


def check_options(options: Sequence[str]) -> tuple[Path, ...]:
    """Refuse options that would undo the guard; return the folders of the SuperNode's own secrets."""
    # Parsed as Flower does it, which also takes the beginnings of options.
    given = _supernode._parse_args_run_supernode().parse_args(list(options), Namespace(**dict.fromkeys(_OURS)))
    for name in _OURS:
        if getattr(given, name) is not None:
            option = "--" + name.replace("_", "-")
            raise ConfigError(f"{option} is set by pausefl node itself, or an app could run past it; leave it out")
    if given.runtime_dependency_install:
        raise ConfigError("packages are not installed by apps here; leave --allow-runtime-dependency-installation out")
    if NODE_KEY in parse_config_args([given.node_config] if given.node_config else None):
        raise ConfigError(f"--node-config names {NODE_KEY!r}, but --owner does; leave it out")
    key = given.auth_supernode_private_key
    return (get_flwr_home(), *([Path(key).expanduser().absolute().parent] if key else []))


def run_supernode(port: str, *options: str) -> None:
    """Be the SuperNode, until the parent ends; the executor's secret is read from stdin."""
    disable_process_dumping(strict=False)
    own = ["--isolation", "process", "--superexec-auth-secret-file", "/dev/stdin"]
    # The last ones count.
    sys.argv = ["flower-supernode", *options, *own, "--host", "127.0.0.1", "--port", port]
    _supernode.flower_supernode()
