"""A detector small enough to be fitted in many tests."""

from typing import Any

from nptad import NPTAD


def tiny(**parameters: Any) -> NPTAD:
    """A detector of two members, five steps and eight dimensions; ``parameters`` change or add settings."""
    return NPTAD(**{"n_members": 2, "n_steps": 5, "embedding_dim": 8, "random_state": 0} | parameters)
