"""Real tables that nobody here made: what is understood of every column, and what is found in them.

tests/gallery/README.md says where they come from.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.metrics import average_precision_score

from nptad import NPTAD, TableWarning, detect_table
from nptad.explain.sentences import reasons_text
from nptad.io.read import read_table
from nptad.tables.frames import read_columns
from nptad.tables.schema import learn_columns

GALLERY = Path(__file__).parent / "gallery"

# For every table, the columns by what they are; all others are numbers.
UNDERSTOOD = {
    "airports": {"identifier": "faa", "names": "name", "category": "dst, tzone"},
    "cars": {"names": "Name", "time": "Year", "category": "Origin"},
    "diamonds": {"category": "cut, color, clarity"},
    "economics": {"sequence": "date"},
    "flights": {"category": "year, carrier, tailnum, origin, dest", "time": "time_hour"},
    "midwest": {"identifier": "PID", "names": "county", "category": "state, inmetro, category"},
    "mpg": {"category": "manufacturer, model, year, trans, drv, fl, class"},
    "msleep": {"identifier": "name", "names": "genus", "category": "vore, order, conservation"},
    "penguins": {
        "category": "studyName, Species, Region, Island, Stage, Individual ID, Clutch Completion, Sex, Comments",
        "time": "Date Egg",
    },
    "planes": {"identifier": "tailnum", "category": "type, manufacturer, model, engine"},
    "seattle-weather": {"sequence": "date", "category": "weather"},
    "txhousing": {"category": "city"},
    "weather": {"category": "origin, year", "time": "time_hour"},
}


def table(name):
    return read_table(GALLERY / f"{name}.csv.gz")


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".csv.gz") for path in GALLERY.glob("*.gz")))
def test_every_column_is_understood(name):
    columns = learn_columns(read_columns(table(name)))
    kinds = [column.role or (column.content if column.kind == "numeric" else "category") for column in columns]
    understood: dict[str, str] = {}
    for column, kind in zip(columns, kinds, strict=True):
        if kind != "number":
            understood[kind] = f"{understood.get(kind, '')}, {column.name}".removeprefix(", ")
    assert understood == UNDERSTOOD[name]
    assert not any(column.unreadable for column in columns)


def test_diamonds_without_a_size_are_found_and_explained_by_their_zeros():
    rows = table("diamonds")
    sizes = np.stack([rows[name].to_numpy() for name in ("x", "y", "z")], axis=1)
    wrong = (sizes == 0).any(axis=1) | (sizes > 20).any(axis=1)
    assert wrong.sum() == 23
    found = detect_table(rows, NPTAD(random_state=0))
    assert average_precision_score(wrong, found.detection.score) >= 0.9
    assert found.detection.anomaly.sum() <= 30
    zeros = (sizes == 0).all(axis=1)
    assert found.detection.anomaly[zeros].all()
    said = [reasons_text(why) for why in found.explanation if zeros[why.row]]
    in_one_sentence = [re.search(r"([xyz]), ([xyz]) and ([xyz]) are 0; similar rows have about", text) for text in said]
    assert sum(named is not None for named in in_one_sentence) >= 6  # of seven


def test_a_flight_of_five_minutes_over_544_miles_is_flagged():
    rows = table("flights")
    place = pc.index(rows["distance"], 544).as_py()
    flight = rows.slice(place, 1).to_pylist()[0]
    assert flight["air_time"] == 97
    others = rows.take([row for row in range(len(rows)) if row != place])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        detector = NPTAD(random_state=0).fit(others)
    planted = pa.Table.from_pylist([{**flight, "air_time": 5}, flight], schema=rows.schema)
    assert detector.detect(planted).anomaly.tolist() == [True, False]
    assert reasons_text(detector.explain(planted)[0]).startswith("air_time is 5; similar rows have about ")
