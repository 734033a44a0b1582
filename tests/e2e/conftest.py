"""The hostile server app is no test: it is sent to a SuperLink."""

collect_ignore = ["hostile_server.py"]
