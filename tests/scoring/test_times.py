"""Times of day and weekdays that hardly any row has."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD, load
from nptad.explain.sentences import reasons_text
from nptad.scoring.views import OddTimes
from nptad.tables.encode import encode
from nptad.tables.schema import learn_schema


def office(n_rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Bookings on working days between 8 and 18 o'clock."""
    random = np.random.default_rng(seed)
    days = pd.Series(pd.bdate_range("2024-01-01", periods=60))[random.integers(0, 60, n_rows)].reset_index(drop=True)
    times = days + pd.to_timedelta(random.integers(8 * 60, 18 * 60, n_rows), "min")
    return pd.DataFrame({"booked": times, "price": random.normal(100, 10, n_rows)})


def fitted(table: pd.DataFrame) -> tuple[OddTimes, np.ndarray, object]:
    schema = learn_schema(table)
    view, scores = OddTimes.fit(encode(schema, table), schema.layout, np.zeros((1, len(table)), dtype=bool))
    return view, scores, schema


def test_the_view_counts_hours_and_weekdays_as_python_does():
    table = office()
    view, scores, _ = fitted(table)
    moments = [when.to_pydatetime() for when in table["booked"]]

    def cost(counts: dict[int, float], place: int, n_rows: int, n_places: int) -> float:
        share = (counts.get(place, 0) + 0.5) / (n_rows + n_places / 2)
        return max(0.0, np.log(0.2 / (share * n_places)))

    for row in range(0, 400, 7):
        others = [moment for place, moment in enumerate(moments) if place != row]
        hours, weekdays = {}, {}
        for moment in others:
            weekdays[moment.weekday()] = weekdays.get(moment.weekday(), 0) + 1
            for hour, part in ((moment.hour, 0.5), (moment.hour - 1, 0.25), (moment.hour + 1, 0.25)):
                hours[hour % 24] = hours.get(hour % 24, 0) + part
        expected = cost(hours, moments[row].hour, 399, 24) + cost(weekdays, moments[row].weekday(), 399, 7)
        assert scores[row] == pytest.approx(expected, abs=1e-9)
    assert view.weekdays[0].argsort()[-2:].tolist() in ([5, 6], [6, 5])
    assert (view.hours[0, [0, 1, 2, 3, 23]] > view.hours[0, 12]).all()


def test_a_booking_at_night_and_one_on_a_sunday_are_found_and_explained(tmp_path):
    detector = NPTAD(random_state=0).fit(office())
    new = office(100, seed=1)
    new.loc[3, "booked"] = datetime(2024, 2, 7, 3, 10)
    new.loc[4, "booked"] = datetime(2024, 2, 11, 12, 0)
    found = detector.detect(new)
    assert {3, 4} < set(found.ranking()[:6].tolist())
    assert (detector.detect(office(100, seed=1)).score[[3, 4]] < 2).all()  # as they were before
    for why in detector.explain(new.iloc[[3, 4]]):
        assert (why.reasons[0].column, why.reasons[0].view) == ("booked", "hour and weekday")
        assert "an hour or a weekday that hardly any row has" in reasons_text(why)
    detector.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").detect(new).score, found.score)


def test_tables_without_times_have_no_such_view():
    table = office()[["price"]].assign(weight=1.0 + office()["price"] ** 2)
    names = [view.name for view in NPTAD(random_state=0).fit(table).model_.scorer.views]
    assert OddTimes.name not in names


def test_a_few_days_say_nothing_about_hours_and_weekdays():
    table = office()
    one_day = table["booked"].dt.normalize().iloc[0]
    table["booked"] = one_day + (table["booked"] - table["booked"].dt.normalize())
    view, scores, _ = fitted(table)
    assert not view.hours.any()
    assert not view.weekdays.any()
    assert not scores.any()


def test_gaps_and_times_that_cannot_be_read_add_nothing():
    view, _, schema = fitted(office())
    x = encode(schema, office(4, seed=2))
    x[0, view.columns[0]], x[1, view.columns[0]] = np.nan, np.inf
    assert not view.explain(x)[:2].any()
