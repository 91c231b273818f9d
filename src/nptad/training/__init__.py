"""The training loop and the processes that train together."""
