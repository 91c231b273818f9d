"""A browser at a fresh server."""

from __future__ import annotations

import pytest
from web_client import open_browser


@pytest.fixture
def browser(tmp_path):
    with open_browser(tmp_path / "home") as browser:
        yield browser


@pytest.fixture
def files_left(tmp_path):
    """The job directories on disk."""
    return lambda: list((tmp_path / "home" / "jobs").iterdir())
