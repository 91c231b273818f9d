"""Models that change without a fit: updates, judgements, and both taken back, in memory and on disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import nptad
from nptad import NPTAD, InputError, ModelFileError
from nptad.models.records import MOST_RECORDS, Record, appended, records_from, upkeep
from nptad.tables.encode import encode
from saved_models import change_tensors, config_of, reseal
from tiny_detector import tiny


def table(n: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    numbers = random.normal(shift, 1, (n, 3))
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    frame["kind"] = random.choice(["x", "y", "z"], n)
    return frame


@pytest.fixture
def detector() -> NPTAD:
    return NPTAD(random_state=0).fit(table(200, 0))


NEW = table(300, 9)
ODD = table(20, 8, 5.0)


def scores(detector: NPTAD) -> list[float]:
    return [*detector.score_samples(NEW), *detector.score_samples(ODD)]


def test_an_update_is_a_fit_on_all_rows_with_the_same_columns(detector):
    schema = detector.schema_
    detector.update(table(100, 1))
    x = np.vstack([encode(schema, part) for part in (table(200, 0), table(100, 1))])
    slow = type(detector.model_.scorer).fit(x, schema.layout, detector.model_.scorer.seed)
    assert (-detector.score_samples(NEW)).tolist() == slow.score(encode(schema, NEW)).tolist()
    both = pd.concat([table(200, 0), table(100, 1)])
    assert (-detector.score_samples(both)).tolist() == slow.training_scores.tolist()
    assert detector.schema_.n_rows == 300


def test_with_a_budget_the_oldest_rows_leave(detector):
    detector.update(table(150, 1), most_rows=250).update(table(100, 2), most_rows=250)
    known = np.vstack([encode(detector.schema_, part) for part in (table(150, 1), table(100, 2))])
    assert detector.model_.compared_rows[1].tolist() == known.tolist()


def false_alarms(detector: NPTAD, seed: int, shift: float) -> tuple[int, int]:
    new = table(2000, seed, shift)
    return int(detector.detect(new).anomaly.sum()), len(new)


def test_the_false_alarm_rate_holds_after_five_updates_with_drifted_rows():
    stale = fresh = n_new = 0
    for seed in range(2):
        detector = NPTAD(random_state=seed).fit(table(300, seed))
        stale += false_alarms(detector, 50 + seed, 1.5)[0]
        for step in range(5):
            detector.update(table(120, 10 * (seed + 1) + step, 1.5), most_rows=600)
        found, n = false_alarms(detector, 50 + seed, 1.5)
        fresh, n_new = fresh + found, n_new + n
    # The rate given 600 calibration rows is itself random; then the number of flagged new rows is binomial.
    low, high = (beta_binomial(n_new, 600, 2, tail) for tail in (1e-4, 1 - 1e-4))
    assert low <= fresh <= high
    assert stale > 3 * high


def beta_binomial(n_new: int, n_calibration: int, n_samples: int, tail: float) -> int:
    """How many of ``n_new`` rows are flagged at a rate of 1 %, given how p-values of a training sample are spread."""
    random = np.random.default_rng(0)
    rate = random.beta(0.01 * (n_calibration + 1), 0.99 * (n_calibration + 1), (20_000, n_samples)).mean(axis=1)
    return int(np.quantile(random.binomial(n_new, rate), tail))


def test_new_categories_are_learnt(detector):
    new = table(60, 1).assign(kind="w")
    assert detector.detect(new).anomaly.mean() > 0.5
    detector.update(new[:40])
    assert detector.detect(new[40:]).anomaly.mean() < 0.2
    other = table(1, 2).assign(kind="v")
    assert detector.predict(other)[0] == -1


def test_everything_can_be_taken_back_bit_for_bit(detector):
    before = scores(detector)
    detector.update(table(100, 1))
    updated = scores(detector)
    fine = detector.accept(ODD[:3], "a new machine")
    accepted = scores(detector)
    bad = detector.reject(table(200, 0)[7:9].assign(kind="w"))
    assert len({tuple(part) for part in (before, updated, accepted, scores(detector))}) == 4
    assert [(r.id, r.kind, r.n_rows, r.reason) for r in detector.feedback_] == [
        (1, "update", 100, ""),
        (fine, "accept", 3, "a new machine"),
        (bad, "reject", 2, ""),
    ]
    assert scores(detector.undo(bad)) == accepted
    assert scores(detector.undo(fine)) == updated
    assert scores(detector.undo(1)) == before
    assert detector.feedback_ == ()


def test_a_change_that_fails_changes_nothing(detector):
    before = scores(detector)
    for change, what in (
        (lambda: detector.update(NEW.drop(columns="b")), "lacks the column.s. 'b'"),
        (lambda: detector.update(NEW, most_rows=299), "300 rows, more than the 299"),
        (lambda: detector.update(NEW, most_rows=1), "most_rows"),
        (lambda: detector.accept(NEW[:0]), "no rows"),
        (lambda: detector.accept(NEW[:1], reason="x" * 501), "reason must be"),
        (lambda: detector.accept(np.ones((1, 3))), "4 features"),
        (lambda: detector.undo(5), "no record 5; it has none"),
        (lambda: detector.accept(table(2001, 3)), "at most 2,000 judged rows"),
    ):
        with pytest.raises(InputError, match=what):
            change()
    assert scores(detector) == before


def test_the_same_update_twice_is_a_mistake(detector):
    detector.update(table(50, 1))
    with pytest.raises(InputError, match=r"since its last update .record 1."):
        detector.update(table(50, 1))


def test_a_row_like_many_training_rows_cannot_be_rejected():
    common = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0] * 50, "b": [5.0, 6.0, 7.0, 8.0] * 50})
    detector = NPTAD(random_state=0).fit(common)
    with pytest.raises(InputError, match="equals 50 rows of the 200"):
        detector.reject(common[:1])


def test_a_network_and_a_table_with_anomalies_say_what_they_cannot():
    trained = tiny().fit(table(60, 0))
    for change in (lambda: trained.update(NEW), lambda: trained.accept(ODD[:1]), lambda: trained.reject(ODD[:1])):
        with pytest.raises(InputError, match="A model with a network cannot be"):
            change()
    contaminated = NPTAD(random_state=0, training="contaminated").fit(table(200, 0))
    with pytest.raises(InputError, match=r"cannot be updated. Fit one on normal rows"):
        contaminated.update(NEW)
    contaminated.accept(ODD[:10])
    assert contaminated.detect(ODD[10:]).anomaly.mean() < 0.2


def test_a_judged_row_of_the_training_table_is_judged_there_too():
    whole = pd.concat([table(200, 0), ODD[:1]], ignore_index=True)
    detector = NPTAD(random_state=0, training="contaminated").fit(whole)
    assert detector.predict(whole)[200] == -1
    why = detector.explain(whole[200:])[0].score
    detector.accept(whole[200:])
    assert detector.predict(whole)[200] == 1
    assert detector.explain(whole[200:])[0].score < 0.01 < why


def test_a_saved_model_remembers(detector, tmp_path):
    detector.update(table(100, 1)).accept(ODD[:3], "new machine \N{SNOWMAN}")
    detector.reject(table(200, 0)[7:9].assign(kind="w"))
    detector.save(tmp_path / "model")
    loaded = nptad.load(tmp_path / "model")
    assert scores(loaded) == scores(detector)
    assert loaded.feedback_ == detector.feedback_
    assert loaded.offset_ == detector.offset_
    assert scores(loaded.undo(3).undo(2).undo(1)) == scores(NPTAD(random_state=0).fit(table(200, 0)))


def test_a_model_of_format_8_can_be_updated(detector, tmp_path):
    detector.save(tmp_path)
    before = scores(detector)
    change_tensors(tmp_path, lambda tensors: [tensors.pop(f"views.{name}") for name in ("seed", "cardinalities")])
    config = config_of(tmp_path)
    del config["records"]
    path = tmp_path / "config.json"
    path.write_text(nptad.models.config.to_json(config))
    reseal(tmp_path, format=8)
    old = nptad.load(tmp_path)
    assert scores(old) == before
    old.update(table(50, 1)).accept(ODD[:1])
    assert [record.kind for record in old.feedback_] == ["update", "accept"]


@pytest.mark.parametrize(
    "change",
    [
        {"id": 0},
        {"id": 1.0},
        {"kind": "delete"},
        {"time": "yesterday"},
        {"time": "2026-01-01T00:00:00"},
        {"n_flagged": 4},
        {"reason": None},
        {"reason": "x" * 501},
        {"more": 1},
    ],
)
def test_records_that_no_model_has_are_refused(detector, tmp_path, change):
    detector.accept(ODD[:3])
    detector.save(tmp_path)
    records = config_of(tmp_path)["records"]
    reseal(tmp_path, records=[{**records[0], **change}])
    with pytest.raises(ModelFileError, match="do not belong together"):
        nptad.load(tmp_path)


@pytest.mark.parametrize("name", ["judged.rows", "judged.is_anomaly", "judged.record", "records"])
def test_judged_rows_and_records_must_fit_together(detector, tmp_path, name):
    detector.accept(ODD[:3])
    detector.save(tmp_path)
    if name == "records":
        reseal(tmp_path, records=[])
    else:
        change_tensors(tmp_path, lambda tensors: tensors.update({name: tensors[name][:2]}))
    with pytest.raises(ModelFileError, match="do not belong together"):
        nptad.load(tmp_path)


def test_old_updates_are_forgotten_and_judgements_kept():
    records: tuple[Record, ...] = ()
    for number in range(1, MOST_RECORDS + 50):
        kind = "accept" if number == 3 else "update"
        records = appended(records, Record(number, kind, "2026-01-01T00:00:00+00:00", 1, 0))
    assert len(records) == MOST_RECORDS
    assert records[0].id == 3
    assert records_from([record.to_dict() for record in records]) == records


def test_retraining_is_due_when_more_rows_are_flagged_than_chance_allows(detector):
    assert detector.upkeep_.text() == ""
    detector.update(table(400, 1))
    assert not detector.upkeep_.is_due
    detector.update(table(400, 2, 2.0))
    assert detector.upkeep_.is_due
    assert "Fit the model again" in detector.upkeep_.text()


def test_upkeep_allows_what_chance_does():
    due = [
        upkeep([Record(1, "update", "", 500, int(found))], 500, 0.01).is_due
        for found in np.random.default_rng(0).binomial(500, 0.01, 2000)
    ]
    assert sum(due) <= binom.isf(1e-4, 2000, 0.001)
    assert upkeep([Record(1, "accept", "", 51, 51)], 5000, 0.01).is_due
