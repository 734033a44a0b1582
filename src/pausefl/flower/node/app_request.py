"""What an app in its box is asked: the model's numbers and a short request, written anew from a server's message."""

from __future__ import annotations

from dataclasses import replace

from flwr.app import DEFAULT_TTL, Array, ArrayRecord, Context, Message, RecordDict
from flwr.app.message.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.serde import array_to_proto, context_to_proto, recorddict_to_proto
from flwr.common.serde_utils import metadata_to_proto

from pausefl.errors import require
from pausefl.flower.client import NODE_KEY
from pausefl.flower.protocol import DATA, RECORD, record_of, view_of, views_of

_MOST_BESIDE, _MOST_LAYOUT = 1 << 16, 1 << 21
"""Bytes of a message beside its model; and for the names, types and shapes of the model's tensors."""
_HEAD, _DIMENSION = 128, 24
"""Bytes that numpy writes before the numbers of a tensor, and for each dimension."""


def check_size(message: Message, context: Context) -> None:
    """Refuse a message that holds much beside the numbers of its model.

    All that a server adds takes memory and time, from the node and so from the app: then one record more could decide
    whether a training fails.  What counts is what Protocol Buffers need for it, where even an empty value has a size.
    """
    content = message.content if message.has_content() else RecordDict()
    arrays = {name: record for name, record in content.items() if isinstance(record, ArrayRecord)}
    others = RecordDict({name: record for name, record in content.items() if name not in arrays})
    bare = replace(context, state=RecordDict(), node_config={})
    parts = recorddict_to_proto(others), metadata_to_proto(message.metadata), context_to_proto(bare)
    beside = sum(part.ByteSize() for part in parts)
    layout = recorddict_to_proto(RecordDict({name: ArrayRecord() for name in arrays})).ByteSize()
    for record in arrays.values():
        for name, array in record.items():
            empty = Array(dtype=array.dtype, shape=array.shape, stype=array.stype, data=b"")
            layout += len(name.encode()) + array_to_proto(empty).ByteSize()
            beside += _padding(array)
    for what, size, most in (("beside its model", beside, _MOST_BESIDE), ("for its layout", layout, _MOST_LAYOUT)):
        require(size <= most, f"size of a message {what}", size, f"at most {most} bytes", "send less with a run")


def app_request(message: Message, context: Context, made: float) -> tuple[Message, Context]:
    """Return message and context for the app, written anew: what the app has no use for is not handed over.

    ``made`` is the time of day that it bears, in seconds since 1970.

    A tensor is written from the numbers that numpy finds in it.  Of the metadata, only the type, the sender and the
    group, by which servers number rounds, are the server's.  Flower would hand over more, such as for how long the
    message is good, and bytes of a tensor that nothing reads.
    """
    about = message.metadata
    fresh = Metadata(
        run_id=context.run_id, message_id="", src_node_id=about.src_node_id, dst_node_id=context.node_id,
        reply_to_message_id="", group_id=about.group_id, created_at=made, ttl=DEFAULT_TTL,
        message_type=about.message_type,
    )  # fmt: skip
    content = {
        name: record_of(views_of(record)) if isinstance(record, ArrayRecord) else record
        for name, record in message.content.items()
        if name not in (RECORD, DATA)
    }
    own = {key: value for key, value in context.node_config.items() if key != NODE_KEY}
    asked = make_message(fresh, RecordDict(content))
    return asked, replace(context, node_config=own, state=RecordDict())


def _padding(array: Array) -> int:
    """Return how many bytes of an array are neither its numbers nor what numpy says of them: numpy ignores those."""
    numbers = view_of(array)
    return max(0, len(array.data) - numbers.nbytes - _HEAD - _DIMENSION * numbers.ndim)
