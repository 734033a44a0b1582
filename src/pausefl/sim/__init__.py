"""A virtual network, and what happens on it."""
