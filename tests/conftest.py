"""Makes the helpers in this folder importable; property tests take their time and the same examples every run."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("nptad", deadline=None, derandomize=True)
settings.load_profile("nptad")
