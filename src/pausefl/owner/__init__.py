"""The data owner's side, whatever the framework: the owner's file, the gate that updates leave by, kept replies."""
