"""One page in the browser that follows a run while it is written; it only reads, and nothing of it runs on a client."""
