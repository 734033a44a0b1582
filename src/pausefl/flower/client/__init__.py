"""The client's side: a mod around any app."""
