"""Low-latency, privacy-aware client selection for federated learning: PAUSE (Peleg et al., 2025) made into software."""

__version__ = "0.1.0"
