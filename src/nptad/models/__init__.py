"""A fitted model and its directory on disk."""
