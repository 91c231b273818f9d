"""The example of the page: what is wrong in it comes first."""

from __future__ import annotations

import numpy as np

from nptad import NPTAD, detect_table
from nptad.web.example import example_table


def test_wrong_parcels_of_the_example_come_first():
    table = example_table()
    found = detect_table(table, NPTAD(random_state=0), ignore=["parcel", "booking"]).detection
    wrong = np.array(table["booking"].to_pylist()) == "wrong"
    assert wrong[np.argsort(-found.score)[:6]].sum() >= 5
    assert not (found.anomaly & ~wrong).any()
