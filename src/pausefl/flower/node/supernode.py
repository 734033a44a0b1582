"""The SuperNode of a node, and the options of it that are not the caller's to choose."""

from __future__ import annotations

import os
import socket
import struct
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from logging import ERROR, WARNING
from pathlib import Path
from typing import Any

import httpcore
import httpx
from flwr.common.config import parse_config_args
from flwr.supercore import log
from flwr.supercore.utils import disable_process_dumping, get_flwr_home

from pausefl.errors import ConfigError
from pausefl.flower.client import NODE_KEY
from pausefl.flower.node.bundle import sha256
from pausefl.flower.node.clean_log import clean_log
from pausefl.flower.node.even_waits import wait_evenly
from pausefl.flower.node.reviewed_apps import ReviewedApps
from pausefl.flower.node.shared_limits import limit_own_memory
from pausefl.owner.owner_file import read_owner

_supernode: Any = import_module("flwr.supernode.cli.flower_supernode")
_messages: Any = import_module("flwr.supernode.start_client_internal")
_state: Any = import_module("flwr.supernode.nodestate.in_memory_nodestate").InMemoryNodeState
_client: Any = import_module("flwr.supercore.protobuf.client").ProtobufClient
_OURS = ("isolation", "superexec_auth_secret_file", "host", "port", "ssl_certfile", "ssl_keyfile", "ssl_ca_certfile")


def check_options(options: Sequence[str]) -> tuple[Path, ...]:
    """Refuse options that would undo the guard; return the SuperNode's own secrets, and their folders."""
    given = _parsed(options)
    for name in _OURS:
        if getattr(given, name) is not None:
            option = "--" + name.replace("_", "-")
            raise ConfigError(
                f"{option} is set by pausefl node itself, because otherwise an app could avoid the guard; leave it out"
            )
    if given.runtime_dependency_install:
        raise ConfigError("apps may not install packages here; leave --allow-runtime-dependency-installation out")
    if NODE_KEY in parse_config_args([given.node_config] if given.node_config else None):
        raise ConfigError(
            f"--node-config names {NODE_KEY!r}, but --owner already names the file; leave it out of --node-config"
        )
    key = given.auth_supernode_private_key
    named = Path(key).expanduser().absolute() if key else None
    return (get_flwr_home(), *((named.parent, named.resolve(), named.resolve().parent) if named else ()))


def node_settings(options: Sequence[str]) -> list[str]:
    """Return the names of the values that the owner hands to apps."""
    given = _parsed(options).node_config
    return sorted(parse_config_args([given] if given else None))


def _parsed(options: Sequence[str]) -> Namespace:
    """Parse options as Flower does it, which also takes the beginnings of options."""
    parsed: Namespace = _supernode._parse_args_run_supernode().parse_args(
        list(options), Namespace(**dict.fromkeys(_OURS))
    )
    return parsed


def run_supernode(port: str, reviewed: str, owner: str, *options: str) -> None:
    """Be the SuperNode, until the parent ends; the executor's secret is read from stdin."""
    disable_process_dumping(strict=False)
    clean_log()
    limit_own_memory(rooms=read_owner(Path(owner)).records is not None)
    read_reviewed_only(Path(reviewed))
    hide_durations()
    take_plain_answers_only()
    take_requests_only()
    wait_evenly(_messages)
    own = ["--isolation", "process", "--superexec-auth-secret-file", "/dev/stdin"]
    # The last ones count.
    sys.argv = ["flower-supernode", *options, *own, "--host", "127.0.0.1", "--port", port]
    try:
        _supernode.flower_supernode()
    except Exception as error:
        log(ERROR, "pausefl: the SuperNode failed", exc_info=error)
    # Its other threads would go on, without asking for messages any more.
    os._exit(1)


def hide_durations() -> None:
    """Tell no server how long a task took: Flower sends it with every reply, to the microsecond."""
    measure = _state.get_message_processing_duration

    def nothing(state: Any, message_id: str) -> float:
        measure(state, message_id)  # it also forgets what is old
        return 0.0

    _state.get_message_processing_duration = nothing


def take_plain_answers_only() -> None:
    """Follow no redirect to other services of this machine or its network; and unpack nothing that a server packed.

    Nothing is sent any more once the process has ended, or a connection was closed: otherwise the kernel would go on to
    send what the server did not take before.  A few packed bytes can keep a processor busy for long, and how fast that
    goes tells what else the machine does.
    """
    make = _client.__init__

    def made(client: Any, *words: Any, **named: Any) -> None:
        make(client, *words, **named)
        client._client.follow_redirects = False
        client._client.headers["accept-encoding"] = "identity"
        client._client.event_hooks = {"response": [_require_plain]}
        for transport in filter(None, (client._client._transport, *client._client._mounts.values())):
            transport._pool._network_backend = _DropsWhatWaits()

    _client.__init__ = made


def take_requests_only() -> None:
    """Leave messages alone that no ServerApp sends: odd ones ended the SuperNode, or kept it waiting for ever.

    And it sends a message that says it is a reply back at once, past the guard, so that the task of the next one finds
    it free while an app runs.
    """
    pull = _messages._pull_and_store_message

    def pulled(*, receive: Callable[[], Any], **named: Any) -> Any:
        return pull(receive=lambda: _request_from(receive), **named)

    _messages._pull_and_store_message = pulled


def _request_from(receive: Callable[[], Any]) -> Any:
    """Return a message and the names of its parts; None if there is none, or if it is no request."""
    try:
        received = receive()
    except (ValueError, TypeError, LookupError) as error:
        log(WARNING, "pausefl: a message cannot be read, so it is left alone", exc_info=error)
        return None
    if received is None:
        return None
    message, parts = received
    if message.metadata.reply_to_message_id or message.metadata.message_id != parts.object_id:
        log(WARNING, "pausefl: a message is a reply, or has another number than its content, so it is left alone")
        return None
    return received


class _DropsWhatWaits(httpcore.SyncBackend):
    """Makes connections of which the kernel drops what was not sent when they end."""

    def connect_tcp(self, *words: Any, **named: Any) -> httpcore.NetworkStream:
        stream = super().connect_tcp(*words, **named)
        stream.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return stream


def _require_plain(answer: httpx.Response) -> None:
    if answer.headers.get("content-encoding", "identity") != "identity":
        answer.close()
        raise httpx.RemoteProtocolError("the server packed its answer, but was asked not to")


def read_reviewed_only(reviewed: Path) -> None:
    """Keep the SuperNode from opening bundles that are not on the list: it would, and a broken one would end it."""
    read = _messages.get_fused_config_from_fab

    def read_config(bundle: bytes, run: Any) -> Any:
        try:
            if sha256(bundle) in ReviewedApps(reviewed):
                return read(bundle, run)
        except Exception as error:
            log(WARNING, "pausefl: the configuration of an app cannot be read", exc_info=error)
        return run.override_config  # the guard refuses the message, or what the app does not know of these settings

    _messages.get_fused_config_from_fab = read_config
