"""How an update is bounded and noised before it leaves."""
