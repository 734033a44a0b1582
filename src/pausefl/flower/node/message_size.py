"""How large a message is beside its model: what a server can add to it takes time to read, for the node and the app."""

from __future__ import annotations

from typing import Any

from flwr.app import Array, Context, Message, RecordDict

from pausefl.flower.protocol import view_of

_EACH, _PLAIN, _HEAD, _DIMENSION = 8, 64, 128, 24
"""Bytes as which each value counts at least; letters for the type of a tensor that need not count; bytes that numpy
writes before the numbers, and for each dimension."""


def bytes_beside(message: Message, context: Context) -> int:
    """Return about how many bytes a message and its settings hold beside the numbers of the model.

    Flower's own count leaves out what is empty, of which there can be millions.
    """
    size = sum(_EACH + _length(key) + _length(value) for key, value in context.run_config.items())
    about = message.metadata
    size += sum(map(_length, (about.group_id, about.message_id, about.reply_to_message_id, about.message_type)))
    for record_name, record in (message.content if message.has_content() else RecordDict()).items():
        size += _EACH + _length(record_name)
        for name, value in record.items():
            if isinstance(value, Array):  # its name and its true shape count with the noise that it takes
                size += max(0, len(value.dtype) + len(value.stype) - _PLAIN) + _padding(value)
            else:
                values = value if isinstance(value, list) else [value]
                size += _EACH + _length(name) + sum(map(_length, values))
    return size


def _padding(array: Array) -> int:
    """Return how many bytes of an array are neither its numbers nor what numpy says of them: numpy ignores those.

    It also ignores the shape that Flower sends beside them.
    """
    try:
        numbers = view_of(array)
    except Exception:
        return len(array.data) + _EACH * len(array.shape)
    behind = len(array.data) - numbers.nbytes - _HEAD - _DIMENSION * numbers.ndim
    return max(0, behind) + _EACH * max(0, len(array.shape) - numbers.ndim)


def _length(value: Any) -> int:
    return _EACH + len(value) if isinstance(value, str | bytes) else _EACH
