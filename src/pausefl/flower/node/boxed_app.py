"""Inside the box: load the app of one bundle, let it answer one message, and write down its answer."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from flwr.clientapp.client_app import LoadClientAppError
from flwr.common.serde import context_from_proto, message_from_proto, recorddict_from_proto, recorddict_to_proto
from flwr.proto.message_pb2 import Context as ContextBytes
from flwr.proto.message_pb2 import Message as MessageBytes
from flwr.proto.recorddict_pb2 import RecordDict as RecordBytes
from flwr.supercore.object_ref import load_app
from flwr.supercore.task_identity import TaskIdentity

from pausefl.flower.client import pass_through
from pausefl.flower.node.box import pack, unpack
from pausefl.flower.node.bundle import read_bundle


def main() -> None:
    """Read bundle, message, context and state from stdin; write the content of the answer, and the state, to stdout."""
    # What the app prints is for the owner's log: stdout is for the answer alone.
    with os.fdopen(os.dup(1), "wb") as out, tempfile.TemporaryDirectory() as folder:
        os.dup2(2, 1)
        content, given, known, state = unpack(sys.stdin.buffer.read(), 4)
        message = message_from_proto(MessageBytes.FromString(given))
        context = context_from_proto(ContextBytes.FromString(known))
        context.state = recorddict_from_proto(RecordBytes.FromString(state))
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, context.node_id, 1
        bundle = read_bundle(content)
        bundle.unpack(Path(folder))
        os.chdir(folder)
        pass_through()
        app = load_app(bundle.components["clientapp"], LoadClientAppError, folder)
        answer = app(message=message, context=context)
        parts = [recorddict_to_proto(records) for records in (answer.content, context.state)]
        out.write(pack(*(part.SerializeToString() for part in parts)))
