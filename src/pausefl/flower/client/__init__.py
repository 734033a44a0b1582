"""The client's side: a mod that puts the owner's gate around any app."""
