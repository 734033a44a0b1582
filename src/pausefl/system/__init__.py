"""Files, locks, processes, import paths and settings: nothing here knows what federated learning is."""
