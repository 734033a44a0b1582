"""The data owner's node: it runs reviewed apps only, each in a box, with the owner's gate outside of it."""

from importlib.util import find_spec

from pausefl.errors import MissingExtraError

if find_spec("flwr") is None:
    raise MissingExtraError("pausefl node needs the 'flower' extra; run: pip install 'pausefl[flower,private]'")
