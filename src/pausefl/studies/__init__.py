"""Whole runs from one file: configuration, putting the parts together, running and resuming."""
