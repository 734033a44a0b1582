"""Real training: data, models, local optimisation (the only place that imports torch)."""
