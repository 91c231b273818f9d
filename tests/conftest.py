"""Makes the helpers in this folder importable; property tests take their time and the same examples every run."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

collect_ignore = ["torture/imported.py"]  # it makes scores cheap in the process that imports it

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("nptad", deadline=None, derandomize=True)
settings.load_profile("nptad")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 500 rows, so that small tables have several."""
    monkeypatch.setattr("nptad.io.read._SMALLEST_PART_ROWS", 500)
    monkeypatch.setattr("nptad.io.read._LARGEST_PART_ROWS", 500)
