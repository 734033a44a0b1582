"""A search over several keys of a run: what is varied, what is aimed at, the trials, and what came of them."""
