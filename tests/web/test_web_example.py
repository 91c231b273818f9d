"""The example of the page: what is wrong in it stands out without a share."""

from __future__ import annotations

import numpy as np

from nptad import NPTAD, detect_table
from nptad.web.example import example_table


def test_wrong_parcels_of_the_example_stand_out():
    table = example_table()
    found = detect_table(table, NPTAD(random_state=0), ignore=["parcel", "booking"]).detection.anomaly
    wrong = np.array(table["booking"].to_pylist()) == "wrong"
    assert (found & wrong).sum() >= 3
    assert (found & ~wrong).sum() <= 1
