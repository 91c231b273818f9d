"""Generators of hostile cases.

A module is a kind: ``case(seed, folder)`` makes one case from its seed, checks everything that must hold, and returns
which of the outcomes in ``outcomes.py`` it had; ``SAMPLE`` are the seeds that `make test` runs, ``MANY`` is how many
`make torture` runs.
"""

import sys
from pathlib import Path

WEB = str(Path(__file__).parents[1] / "web")
sys.path.insert(0, WEB)  # the client of the page is among the tests of the page
