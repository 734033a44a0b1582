"""One run: its configuration, how it is built and played, its folder, and its numbers."""
