"""The server's side: a strategy that wraps any other, and what it stands on."""
