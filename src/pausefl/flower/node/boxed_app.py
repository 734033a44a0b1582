"""Inside the box: load the app of one bundle, let it answer one message, and write down its answer."""

from __future__ import annotations

import os
import sys
import tempfile
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from flwr.app import RecordDict
from flwr.clientapp.client_app import LoadClientAppError
from flwr.common.serde import context_from_proto, message_from_proto, recorddict_from_proto, recorddict_to_proto
from flwr.proto.message_pb2 import Context as ContextBytes
from flwr.proto.message_pb2 import Message as MessageBytes
from flwr.proto.recorddict_pb2 import RecordDict as RecordBytes
from flwr.supercore.object_ref import load_app
from flwr.supercore.task_identity import TaskIdentity

from pausefl.flower.client import pass_through
from pausefl.flower.node.array_bytes import to_bytes
from pausefl.flower.node.box import MOST_STATE, pack, unpack
from pausefl.flower.node.bundle import read_bundle
from pausefl.flower.protocol import arrays_in


def main(*, records: bool = False, mean: bool = False) -> None:
    """Read bundle, message, context and state from stdin; write the trained tensors, and the state, to stdout."""
    # What the app prints is for the owner's log: stdout is for the answer alone.
    with os.fdopen(os.dup(1), "wb") as out, tempfile.TemporaryDirectory() as folder:
        os.dup2(2, 1)
        content, given, known, state = map(bytes, unpack(sys.stdin.buffer.read(), 4))
        message = message_from_proto(MessageBytes.FromString(given))
        context = context_from_proto(ContextBytes.FromString(known))
        context.state = _state(state)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, context.node_id, 1
        bundle = read_bundle(content)
        code, empty = Path(folder, "app"), Path(folder, "empty")
        for place in (code, empty):
            place.mkdir()
        bundle.unpack(code)
        os.chdir(empty)  # some packages read settings from where they are, without any code that names them
        pass_through()
        send_torch_by_value()
        _, model = arrays_in(message.content)
        app = load_app(bundle.components["clientapp"], LoadClientAppError, str(code))
        answer = app(message=message, context=context)
        _, trained = arrays_in(answer.content)
        tensors = to_bytes(model, trained, records=records, mean=mean)
        out.write(pack(tensors, _kept(context.state, state)))


def _state(kept: bytes) -> RecordDict:
    """Return what the app kept; an app can have written anything, and one training must not spoil the next."""
    try:
        return recorddict_from_proto(RecordBytes.FromString(kept))
    except Exception as error:
        print(f"the kept state of the app cannot be read ({error}); the app begins without it", file=sys.stderr)
    return RecordDict()


def _kept(state: Any, before: bytes) -> bytes:
    """Return the state to keep; one that cannot be kept must not fail the training, so the one of before stays."""
    try:
        kept = recorddict_to_proto(state).SerializeToString()
        if len(kept) <= MOST_STATE:
            return bytes(kept)
        why = f"it has {len(kept)} bytes, and at most {MOST_STATE} are kept"
    except Exception as error:
        why = str(error)
    print(f"the state of the app cannot be kept ({why}); the one of before stays", file=sys.stderr)
    return before


def send_torch_by_value() -> None:
    """Let torch's loaders send tensors between processes as bytes: to share memory they connect, which no app can."""
    register: Any = reduction.register

    def by_value(kind: type, how: Any) -> None:
        if kind.__module__.partition(".")[0] != "torch":
            register(kind, how)

    reduction.register = by_value  # type: ignore[assignment]
