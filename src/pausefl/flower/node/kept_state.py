"""What an app keeps for its next message: bytes of a fixed number, whatever it keeps, and whether or not it failed.

Between two messages the SuperNode has them.  The server decides how much memory is left there, and would see if more
bytes did not fit: so their number must not depend on the data.
"""

from __future__ import annotations

import struct

from flwr.app import ConfigRecord, RecordDict

from pausefl.flower.node.box import MOST_STATE, BoxError

_STATE, _STATE_OF = "pausefl-state", "pausefl-state-of"
"""The names by which the bytes are kept, and the hash of the app that they belong to."""
_SIZE = struct.Struct("!Q")


def state_in(kept: RecordDict, app: str) -> bytes:
    """Return the state of the app with this hash; nothing if there is none, or that of another app."""
    record = kept.config_records.get(_STATE, ConfigRecord())
    value = record.get(_STATE, b"")
    if record.get(_STATE_OF) != app or not isinstance(value, bytes) or len(value) < _SIZE.size:
        return b""
    return value[_SIZE.size :][: _SIZE.unpack_from(value)[0]]


def kept_state(state: bytes | memoryview, app: str) -> RecordDict:
    """Return what the SuperNode gets to keep of the app with this hash; it is never read outside of the box."""
    if len(state) > MOST_STATE:
        raise BoxError(f"the app has a state of {len(state)} bytes, but the node keeps at most {MOST_STATE}")
    padded = b"".join((_SIZE.pack(len(state)), state, bytes(MOST_STATE - len(state))))
    return RecordDict({_STATE: ConfigRecord({_STATE: padded, _STATE_OF: app})})
