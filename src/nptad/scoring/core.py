"""The score of a table that contains the anomalies: views learn from its core, the rows that look ordinary.

Views that learn from the whole table learn its anomalies too: a row of a group of equal anomalies has a near neighbour
in the group. So a first pass that such a group cannot fool (:mod:`nptad.scoring.first_pass`) ranks the rows, and the
views are fitted on the lower part of them. Rows of the core are scored as if they had been left out, all others as new
rows.

How large should the core be? A small one leaves out large groups of anomalies, a large one shows what is odd among
normal rows of many kinds. No signal that needs no labels has told which of both a table has, so the scores on cores of
three sizes are averaged, and that with the first pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nptad.scoring.first_pass import first_pass
from nptad.scoring.surprise import Surprise
from nptad.scoring.view_score import MOST_ROWS, ViewScore
from nptad.tables.layout import CellLayout

CORES = (0.6, 0.75, 0.9)
"""Shares of the table that the cores are."""
