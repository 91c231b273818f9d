"""A browser at a fresh server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from web_client import open_browser


@pytest.fixture(autouse=True)
def _stubs(monkeypatch):
    """Let child processes find web_stubs."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


@pytest.fixture
def browser(tmp_path):
    with open_browser(tmp_path / "home") as browser:
        yield browser


@pytest.fixture
def files_left(tmp_path):
    """The job directories on disk."""
    return lambda: list((tmp_path / "home" / "jobs").iterdir())
