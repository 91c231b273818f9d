"""Generators of hostile cases.

A module is a kind: ``case(seed, folder)`` makes one case from its seed, checks everything that must hold, and returns
which of the outcomes in ``outcomes.py`` it had; ``SAMPLE`` are the seeds that `make test` runs, ``MANY`` is how many
`make torture` runs.
"""

import sys
from pathlib import Path

WEB = str(Path(__file__).parents[1] / "web")
sys.path[:0] = [WEB, str(Path(__file__).parents[1] / "models")]  # helpers that are among the tests of their room
