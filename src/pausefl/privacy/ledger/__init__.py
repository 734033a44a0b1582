"""Who has leaked how much, written down before anything leaves."""
