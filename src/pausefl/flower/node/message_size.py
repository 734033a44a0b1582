"""How large a message is beside its model: what a server can add to it takes time to read, for the node and the app."""

from __future__ import annotations

from typing import Any

from flwr.app import Array, Context, Message, RecordDict

_EACH, _PLAIN = 8, 64
"""Bytes as which each value counts at least; letters for the type of a tensor that need not count."""


def bytes_beside(message: Message, context: Context) -> int:
    """Return about how many bytes a message and its settings hold beside the numbers of the model.

    Flower's own count leaves out what is empty, of which there can be millions.
    """
    size = sum(_EACH + _length(key) + _length(value) for key, value in context.run_config.items())
    for record_name, record in (message.content if message.has_content() else RecordDict()).items():
        size += _EACH + _length(record_name)
        for name, value in record.items():
            if isinstance(value, Array):  # its name and its shape count with the noise that it takes
                size += max(0, len(value.dtype) + len(value.stype) - _PLAIN)
            else:
                values = value if isinstance(value, list) else [value]
                size += _EACH + _length(name) + sum(map(_length, values))
    return size


def _length(value: Any) -> int:
    return _EACH + len(value) if isinstance(value, str | bytes) else _EACH
