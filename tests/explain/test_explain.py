"""Explanations add up to the score, name the corrupted cell and the attended rows, and can be shown safely."""

from __future__ import annotations

import dataclasses
import sys
from datetime import datetime, timedelta
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import nptad.explain.attribution
import nptad.scoring.score
import reference
import tiny_detector
from nptad import NPTADError, Settings
from nptad.explain.result import CellReason, Explanation, NearestRow, RowExplanation, TrainingRow
from nptad.nn.masks import mask_bank
from nptad.scoring.score import context_weights, pair_losses, prepare_member
from nptad.tables.encode import encode, readable
from nptad.tables.schema import Column
from nptad.wording import estimate
from table_samples import MIXED, random_model, random_rows

NUMBERS = list("abcdef")


tiny = partial(tiny_detector.tiny, max_masked=2)


def related_numbers(n_rows, seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, 1)) * [1, 2, -1, 0.5] + 0.2 * random.normal(size=(n_rows, 4))


def dependent_table(n_rows, seed):
    """Numbers and categories that follow, with some noise, from two hidden numbers."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n_rows, 2))
    angles = np.pi * np.arange(6) / 6
    numbers = hidden @ [np.cos(angles), np.sin(angles)] + 0.1 * random.normal(size=(n_rows, 6))
    frame = pd.DataFrame(numbers, columns=NUMBERS)
    frame["colour"] = np.where(hidden[:, 0] > 0.4, "red", np.where(hidden[:, 0] > -0.4, "green", "blue"))
    total = hidden.sum(axis=1)
    frame["shape"] = np.where(total > 0.5, "round", np.where(total > -0.5, "square", "flat"))
    frame["flag"] = hidden[:, 1] > 0
    return frame


def with_gaps(frame, seed=0):
    random = np.random.default_rng(seed)
    frame = frame.astype({"flag": object})
    for column in ("a", "colour", "flag"):
        frame.loc[random.choice(len(frame), len(frame) // 5, replace=False), column] = None
    return frame


@pytest.fixture(scope="module")
def table():
    return with_gaps(dependent_table(60, 0))


@pytest.fixture(scope="module")
def new_rows():
    return with_gaps(dependent_table(10, 1))


@pytest.fixture(scope="module")
def fitted(table):
    return tiny(n_members=3, n_steps=60).fit(table)


# Contributions


@pytest.mark.parametrize("which", ["training rows", "new rows"])
@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize(
    ("aggregation", "scale_masks"), [("mean", False), ("mean", True), ("max", False), ("max", True), ("nearest", True)]
)
def test_contributions_add_up_to_the_score(table, new_rows, which, n_members, scale_masks, aggregation):
    rows = table if which == "training rows" else new_rows
    settings = Settings(scale_masks=scale_masks, aggregation=aggregation, context_size=40)
    detector = tiny(n_members=n_members, settings=settings).fit(table)
    explanation = detector.explain(rows)
    scores = -detector.score_samples(rows)
    totals = [sum(reason.contribution for reason in row.reasons) for row in explanation]
    np.testing.assert_allclose(totals, scores, rtol=1e-5)
    np.testing.assert_array_equal([row.score for row in explanation], scores)
    assert all(reason.contribution >= 0 for row in explanation for reason in row.reasons)


def test_losses_and_weights_do_not_depend_on_the_memory_budget(monkeypatch):
    model = random_model(MIXED, [7])
    masks = mask_bank(4, (1, 2), max_masks=100, seed=0)
    member = prepare_member(model.member(0), random_rows(MIXED, 30, seed=5), 30, torch.ones(len(masks)))
    rows, cells = random_rows(MIXED, 20, seed=6), torch.arange(4).expand(20, 4)
    losses, weights = pair_losses(member, rows, cells), context_weights(member, rows, masks)
    monkeypatch.setattr(nptad.scoring.score, "MEMORY_BUDGET", 1000)
    torch.testing.assert_close(pair_losses(member, rows, cells), losses, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(context_weights(member, rows, masks), weights, rtol=1e-5, atol=1e-8)


def test_a_cell_answers_for_the_fall_of_the_rows_loss_without_it():
    """The rule, written out with the losses of rows that lack a cell."""
    settings = Settings(aggregation="mean")
    detector = tiny(n_members=1, max_masked=1, n_steps=100, settings=settings).fit(related_numbers(80, 0))
    row = related_numbers(1, 1)
    row[0, 1] += 4
    n_cells = row.shape[1]

    def losses(row):
        """The loss of each cell alone: the score with masks of one cell is their mean."""
        x = torch.from_numpy(encode(detector.schema_, row))
        member = detector.ensemble_.members[0]
        return nptad.scoring.score.mask_losses(member, x, torch.eye(n_cells, dtype=torch.bool))[0].double().numpy()

    whole, expected = losses(row), []
    for j in range(n_cells):
        without = row.copy()
        without[0, j] = np.nan
        expected.append(max(0, whole.sum() - losses(without).sum()))
    assert max(expected) > 0
    expected = np.array(expected) / np.sum(expected) * -detector.score_samples(row)[0]
    found = {reason.column: reason.contribution for reason in detector.explain(row)[0].reasons}
    np.testing.assert_allclose([found[j] for j in range(n_cells)], expected, rtol=1e-3)


def test_in_a_row_that_every_cell_helps_to_understand_the_losses_decide(fitted, new_rows, monkeypatch):
    """Hiding a second cell never lowers a loss here; missing cells still have no part."""
    rows = new_rows.fillna({"a": 0.0})
    monkeypatch.setattr(
        nptad.explain.attribution,
        "pair_losses",
        lambda member, x, cells, self_index: (
            torch.ones(len(x), *[cells.shape[1]] * 2) * 1e6 - 2e6 * torch.eye(cells.shape[1])
        ),
    )
    for row in fitted.explain(rows):
        contributions = [reason.contribution for reason in row.reasons]
        assert sum(contributions) == pytest.approx(row.score)
        assert all((reason.contribution > 0) == (reason.seen is not None) for reason in row.reasons)


def test_of_many_cells_only_the_worst_are_examined_further(monkeypatch, fitted, new_rows):
    everything = fitted.explain(new_rows)
    monkeypatch.setattr(nptad.explain.attribution, "_SUSPECTS", 3)
    some = fitted.explain(new_rows)
    for full, short in zip(everything, some, strict=True):
        assert short.score == full.score == pytest.approx(sum(reason.contribution for reason in short.reasons))
    assert some != everything


def test_missing_cells_contribute_nothing(fitted):
    rows = dependent_table(4, 2).astype({"flag": object})
    rows.loc[1, ["a", "colour"]] = None
    for reason in fitted.explain(rows)[1].reasons:
        if reason.column in ("a", "colour"):
            assert reason.contribution == 0
            assert reason.seen is None
            assert reason.probability is None
            assert reason.expected is not None


def test_a_row_without_values_has_nothing_to_explain(fitted, new_rows):
    empty = new_rows.iloc[:1].astype(object)
    empty.loc[:] = None
    row = fitted.explain(empty)[0]
    assert row.score == 0
    assert row.attended_rows == ()
    assert row.nearest is None
    assert sum(reason.contribution for reason in row.reasons) == 0


def test_explaining_in_blocks_changes_nothing_but_rounding(fitted, new_rows, monkeypatch):
    explanation = fitted.explain(new_rows)
    monkeypatch.setattr(nptad.explain.attribution, "_ROWS_AT_ONCE", 7)
    for why, again in zip(explanation, fitted.explain(new_rows), strict=True):
        assert again.score == pytest.approx(why.score, rel=1e-5)
        contributions = {reason.column: reason.contribution for reason in why.reasons}
        assert {r.column: r.contribution for r in again.reasons} == pytest.approx(contributions, rel=1e-3, abs=1e-5)


# The nearest training row


def test_the_nearest_training_row_is_named_with_its_distance():
    """A copy of a training row that the row's members have not left out is as near as can be; a far row is far."""
    numbers = related_numbers(80, 0)
    rows = np.vstack([numbers[:3] + 1e-3, 4 * np.abs(numbers).max(axis=0) * [1, 1, -1, 1]])
    for detector in (tiny(n_members=1), tiny(n_members=4)):
        *copies, far = detector.fit(numbers).explain(rows)
        assert [why.nearest.row for why in copies] == [0, 1, 2]
        assert max(why.nearest.distance for why in copies) < 0.1
        assert far.nearest.distance > 3
        self_index = detector.explain(numbers[:5])
        assert all(why.nearest.row != why.row for why in self_index)


def test_a_cell_is_compared_with_a_value_that_differs(fitted, table):
    cells = [reason for why in fitted.explain(dependent_table(40, 2)) for reason in why.reasons]
    compared = [reason for reason in cells if reason.nearest is not None]
    assert 0 < len(compared) < len(cells)
    for reason in compared:
        value = pytest.approx(reason.nearest, rel=1e-4) if isinstance(reason.nearest, float) else reason.nearest
        assert value in table[reason.column].tolist()
        assert reason.nearest != reason.seen


def test_the_wrong_cell_is_blamed_though_the_nearest_row_has_the_same_error():
    """Rows with the same absurd price are nearest to one another and differ in the year; the price is wrong."""
    random = np.random.default_rng(0)
    size = random.uniform(50, 150, 200)
    flats = pd.DataFrame({"year": random.uniform(1950, 2020, 200), "size": size, "price": 10 * size})
    flats.loc[0] = [2015.0, 100.0, 6000.0]
    new = pd.DataFrame({"year": [1955.0], "size": [100.0], "price": [6000.0]})
    (why,) = tiny(n_members=1, n_steps=50, max_masked=1).fit(flats).explain(new)
    first, second, _ = why.reasons
    assert why.nearest.row == 0
    assert (first.column, first.seen) == ("price", 6000)
    assert 900 < first.nearest < 1100
    assert first.contribution > 2 * second.contribution


def test_without_distances_in_the_score_no_nearest_row_is_named(table, new_rows):
    detector = tiny(settings=Settings(aggregation="mean")).fit(table)
    assert [row.nearest for row in detector.explain(new_rows)] == [None] * len(new_rows)


def test_what_the_distance_makes_of_the_score_goes_to_the_cells_without_which_it_falls():
    """With losses and distance apart, by hand: each part of the score is shared out in its own way."""
    numbers = related_numbers(80, 0)
    row = 1.5 * np.abs(numbers).max(axis=0, keepdims=True) * [1, 1, -1, 1]  # its cells fit, but it is far off
    with_distance = tiny(n_members=1, max_masked=1, n_steps=100).fit(numbers)
    without = tiny(
        n_members=1,
        max_masked=1,
        n_steps=100,
        settings=dataclasses.replace(with_distance.settings_, aggregation="mean"),
    ).fit(numbers)
    score = -with_distance.score_samples(row)[0]
    x, encoded = (encode(with_distance.schema_, rows) for rows in (row, numbers))
    differences = np.abs(x - encoded) / np.ptp(encoded, axis=0)
    totals = differences.sum(axis=1)
    rest = totals[:, None] - differences
    otherwise = rest.argmin(axis=0)  # the nearest row without each cell
    falls = np.sort(totals)[:3].mean() - np.sort(rest, axis=0)[:3].mean(axis=0)
    distance = totals.min() / 4 / with_distance.ensemble_.nearest_scale
    part = distance**4 / score**2
    assert 0.2 < part < 1
    # Without the distance no logarithm is taken of losses: their baseline differs, the rest is the same.
    scale = with_distance.ensemble_.mask_scale
    ensemble = dataclasses.replace(without.ensemble_, mask_scale=scale)
    scorer = dataclasses.replace(without.model_.scorer, ensemble=ensemble)
    without.model_ = dataclasses.replace(without.model_, scorer=scorer)
    (alone,) = without.explain(row)
    of_losses = {reason.column: reason.contribution / alone.score for reason in alone.reasons}
    for reason in with_distance.explain(row)[0].reasons:
        by_loss = (1 - part) * of_losses[reason.column]
        by_distance = part * falls[reason.column] / sum(falls)
        assert reason.contribution == pytest.approx(score * (by_loss + by_distance), rel=1e-3)
        in_nearest = pytest.approx(numbers[otherwise[reason.column], reason.column], rel=1e-5)
        assert reason.nearest == (in_nearest if by_distance > by_loss else None)


# Seen and expected values


def test_a_corrupted_number_is_the_first_reason(fitted):
    rows = dependent_table(5, 2)
    rows.loc[2, "c"] = 30.0
    first, *others = fitted.explain(rows)[2].reasons
    assert (first.column, first.seen, first.probability) == ("c", 30.0, None)
    assert abs(first.expected) < 10
    assert sorted(r.contribution for r in others)[::-1] == [r.contribution for r in others]


def test_categories_come_with_probabilities(fitted):
    for row in fitted.explain(dependent_table(6, 2)):
        by_column = {reason.column: reason for reason in row.reasons}
        assert by_column["colour"].expected in ("red", "green", "blue")
        assert 0 < by_column["colour"].probability < 1
        assert isinstance(by_column["flag"].seen, bool)


def test_an_unseen_category_is_the_first_reason(fitted):
    rows = dependent_table(5, 2)
    before = fitted.score_samples(rows)
    rows.loc[0, "colour"] = "octarine"
    first = fitted.explain(rows)[0].reasons[0]
    assert (first.column, first.seen, first.probability) == ("colour", "octarine", 0.0)
    assert fitted.score_samples(rows)[0] < before[0]


def test_cells_are_shown_as_they_stand_in_the_table(fitted):
    strange = dependent_table(1, 2)
    strange["colour"], strange["a"] = "never seen", 1e12
    seen = {reason.column: reason.seen for reason in fitted.explain(strange)[0].reasons}
    assert seen["colour"] == "never seen"
    assert seen["a"] == 1e12


@pytest.mark.parametrize("library", ["pandas", "polars", "numpy"])
def test_times_and_durations_are_shown_as_such(library):
    start = datetime(2024, 1, 1)
    columns = {
        "from": [start + timedelta(days=7 * i % 30) for i in range(30)],
        "lasts": [timedelta(hours=i) for i in range(30)],
        "weight": [i + 0.5 for i in range(30)],
    }
    as_table = {
        "pandas": pd.DataFrame,
        "polars": pl.DataFrame,
        "numpy": lambda columns: np.array(list(columns.values()), dtype=object).T,
    }[library]
    reasons = tiny(max_masked=1).fit(as_table(columns)).explain(as_table(columns))[5].reasons
    by_column = {
        ["from", "lasts", "weight"].index(r.column) if isinstance(r.column, str) else r.column: r for r in reasons
    }
    assert by_column[0].seen == "2024-01-06"
    assert by_column[0].expected.startswith(("2023-1", "2024-0"))
    assert by_column[1].seen == "05:00:00"
    assert by_column[1].expected.count(":") == 2
    assert by_column[2].seen == 5.5


@pytest.mark.parametrize(
    ("content", "value", "text"),
    [
        ("time", 0.0, "1970-01-01"),
        ("time", 1.5, "1970-01-01T00:00:01.500000"),
        ("time", -1.0, "1969-12-31T23:59:59"),
        ("time", 86400.25, "1970-01-02T00:00:00.250000"),
        ("time", 1e15, "31690708-07-05T01:46:40"),
        ("time", 1e30, 1e30),
        ("duration", 0.0, "00:00:00"),
        ("duration", -60.0, "-00:01:00"),
        ("duration", 2 * 86400 + 3723.000001, "2 d 01:02:03.000001"),
        ("number", 5.0, 5.0),
        ("text", "a", "a"),
        ("time", None, None),
    ],
)
def test_readable_values(content, value, text):
    assert readable(Column("x", "numeric", content), value) == text


# Planted anomalies: one corrupted cell in a normal row


def planted(n_rows, seed):
    """Normal rows with one cell each that some other row has, but that does not fit: (rows, corrupted columns)."""
    random = np.random.default_rng(seed)
    rows, others = dependent_table(n_rows, seed), dependent_table(2000, seed + 1)
    corrupted = random.permutation(np.resize(rows.columns, n_rows))
    for i, column in enumerate(corrupted):
        values = others[column]
        if column in NUMBERS:
            far = (values - rows.loc[i, column]).abs() > 1.5 * values.std()
            rows.loc[i, column] = random.choice(values[far])
        else:
            rows.loc[i, column] = random.choice(values[values != rows.loc[i, column]].unique())
    return rows, corrupted


def test_the_corrupted_cell_ranks_first():
    detector = tiny(n_steps=200, max_masked=1).fit(dependent_table(300, 0))
    rows, corrupted = planted(90, 10)
    first = np.array([row.reasons[0].column for row in detector.explain(rows)])
    for kind in (np.isin(corrupted, NUMBERS), ~np.isin(corrupted, NUMBERS)):
        assert (first == corrupted)[kind].mean() >= 0.9


# Attended training rows


def recorded_attention(monkeypatch, model, context, row, sizes, left_out):
    """Mean weight that the reference model gives to each context row, over heads, layers and masks that count."""
    recorded = []
    plain = reference.self_attention

    def record(queries, keys, values, allowed):
        if len(keys) == len(context) + 1:
            reachable = [j for j in range(len(keys)) if allowed[-1][j]]
            logits = [float(queries[-1] @ keys[j]) / np.sqrt(len(keys[j])) for j in reachable]
            weights = np.zeros(len(keys))
            weights[reachable] = reference.softmax(logits)
            recorded.append(weights)
        return plain(queries, keys, values, allowed)

    monkeypatch.setattr(reference, "self_attention", record)
    reference.ReferenceNPT(model, 0).score(context, row, sizes, len(context), left_out)
    return np.mean(recorded, axis=0)[:-1]


@pytest.mark.parametrize("row_attention", ["full", "low_rank"])
def test_weights_of_training_rows_agree_with_the_oracle(row_attention, monkeypatch):
    model = random_model(MIXED, [3], row_attention=row_attention, n_heads=2)
    context = random_rows(MIXED, 6, seed=2)
    masks = mask_bank(4, (1, 2), max_masks=100, seed=0)
    member = prepare_member(model.member(0), context, 6, torch.ones(len(masks)))
    rows = torch.cat((context[[4]], random_rows(MIXED, 2, seed=9, missing=0.4)))
    self_index = torch.tensor([4, -1, -1])
    weights = context_weights(member, rows, masks, self_index).numpy()
    for i, left_out in enumerate((4, None, None)):
        with monkeypatch.context() as patch:
            slow = recorded_attention(patch, model, context.numpy(), rows[i].numpy(), (1, 2), left_out)
        np.testing.assert_allclose(weights[i], slow, rtol=1e-3, atol=1e-6)
    assert weights[0, 4] == 0
    torch.testing.assert_close(context_weights(member, rows[1:], masks).numpy(), weights[1:], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("n_members", [1, 3])
def test_weights_are_averaged_over_members_and_belong_to_training_rows(table, new_rows, n_members):
    detector = tiny(n_members=n_members).fit(table)
    ensemble = detector.ensemble_
    x = torch.from_numpy(encode(detector.schema_, new_rows))
    expected = np.zeros((len(x), len(table)))
    for k, member in enumerate(ensemble.members):
        trained_on = np.flatnonzero(~ensemble.left_out[k])
        expected[:, trained_on] += context_weights(member, x, ensemble.masks).numpy() / n_members
    for row, weights in zip(detector.explain(new_rows), expected, strict=True):
        assert row.training_share == pytest.approx(weights.sum())
        assert 0 < row.training_share < 1
        assert len(row.attended_rows) == 10
        np.testing.assert_allclose([weights[t.row] for t in row.attended_rows], [t.weight for t in row.attended_rows])
        np.testing.assert_allclose([t.weight for t in row.attended_rows], np.sort(weights)[::-1][:10])


@pytest.mark.parametrize("n_members", [1, 3])
def test_a_training_row_does_not_lean_on_itself(table, n_members):
    explanation = tiny(n_members=n_members).fit(table).explain(table[:20])
    for row in explanation:
        assert row.row not in [training.row for training in row.attended_rows]


def test_a_small_context_names_rows_of_the_training_table(table, new_rows):
    detector = tiny(settings=Settings(context_size=5)).fit(table)
    source = detector.ensemble_.context_source
    for row in detector.explain(new_rows):
        assert {training.row for training in row.attended_rows} <= set(source.tolist())


def test_without_row_attention_there_is_nothing_to_lean_on(table, new_rows):
    explanation = tiny(settings=Settings(row_attention="none")).fit(table).explain(new_rows)
    assert all(row.attended_rows == () and row.training_share == 0 for row in explanation)
    assert "training rows" not in explanation.html()


# Shown


HOSTILE = "<script>alert('x')</script>&\"$\\frac{"
BROKEN = "$\\frac{\ud800\x00\n"


@pytest.fixture(scope="module")
def hostile():
    reasons = (
        CellReason(HOSTILE, HOSTILE, None, 3.0, 0.25),
        CellReason(BROKEN, BROKEN, BROKEN, 2.0, 0.25),
        CellReason(1, 1.23456789, 2.0, 1.0),
        *(CellReason(f"c{i}", None, True, 0.1) for i in range(12)),
    )
    row = RowExplanation(4, 5.2, reasons, (TrainingRow(17, 0.25), TrainingRow(3, 0.125)), 0.75, NearestRow(9, 3.25))
    return Explanation((row, dataclasses.replace(row, row=9)), "pandas")


def test_it_is_a_sequence_of_rows(fitted, new_rows):
    explanation = fitted.explain(new_rows)
    assert len(explanation) == len(new_rows)
    assert [row.row for row in explanation] == list(range(len(new_rows)))
    assert explanation[-1].row == len(new_rows) - 1
    assert isinstance(explanation[2:4], Explanation)
    assert [row.row for row in explanation[2:4]] == [2, 3]
    with pytest.raises(IndexError):
        explanation[len(new_rows)]


@pytest.mark.parametrize(
    ("convert", "kind"),
    [(lambda f: f, pd.DataFrame), (pl.from_pandas, pl.DataFrame), (pa.Table.from_pandas, pa.Table)],
    ids=["pandas", "polars", "pyarrow"],
)
def test_the_frame_is_of_the_kind_that_was_explained(fitted, convert, kind):
    rows = dependent_table(3, 2)
    explanation = fitted.explain(convert(rows))
    frame = explanation.frame()
    assert type(frame) is kind
    lines = frame.to_pylist() if kind is pa.Table else pl.DataFrame(frame).to_dicts()
    assert len(lines) == 3 * 9
    first = explanation[0].reasons[0]
    assert lines[0] == {
        "row": 0,
        "column": first.column,
        "contribution": first.contribution,
        "seen": str(first.seen),
        "expected": str(first.expected),
        "probability": first.probability,
        "nearest": None if first.nearest is None else str(first.nearest),
    }


def test_the_frame_of_an_array_needs_no_pandas(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(20, 2))
    detector = tiny().fit(rows)
    assert type(detector.explain(rows[:1]).frame()) is pd.DataFrame
    monkeypatch.setattr("nptad.tables.frames.find_spec", lambda name: None)
    frame = detector.explain(rows[:1]).frame()
    assert type(frame) is pa.Table
    assert frame.column("probability").to_pylist() == [None, None]
    assert sorted(frame.column("column").to_pylist()) == ["0", "1"]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_any_text_fits_into_a_frame(hostile, backend):
    frame = dataclasses.replace(hostile, backend=backend).frame()
    assert "<script>" in str(frame["seen"][0])


class Structure(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "class"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_is_well_formed_and_escaped(hostile):
    page = hostile.html()
    page.encode()
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    assert structure.tags <= {"style", "div", "h4", "p", "b", "i", "table", "thead", "tbody", "tr", "th", "td"}
    assert "<script>alert('x')</script>&\"" in structure.text
    assert "17 (25%), 3 (12%)" in structure.text
    assert "75%" in structure.text
    assert "5 other cells" in structure.text
    assert "http" not in page


def test_html_of_real_rows_is_small(fitted, new_rows):
    page = fitted.explain(new_rows[:5]).html()
    assert len(page) < 5 * 4000
    for i in range(5):
        assert f"Row {i}" in page


def test_a_notebook_shows_the_first_rows_only(hostile):
    assert hostile._repr_html_() == hostile.html()
    many = dataclasses.replace(hostile, rows=hostile.rows * 50)
    shown = many._repr_html_()
    assert shown == many[:20].html().removesuffix("</div>") + "<p>... and 80 more rows</p></div>"


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_the_plot_shows_contributions_with_seen_and_expected_values(fitted, new_rows, pyplot):
    explanation = fitted.explain(new_rows)
    axes = explanation.plot(row=3)
    reasons = explanation[3].reasons
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(reason.column) for reason in reasons]
    assert [bar.get_width() for bar in axes.patches] == [reason.contribution for reason in reasons]
    for reason, text in zip(reasons, axes.texts, strict=True):
        assert f"expected {estimate(reason.expected)}" in text.get_text()
        assert ("a similar row has" in text.get_text()) == (reason.nearest is not None)
    assert axes.get_title().startswith("Row 3: score")
    axes.figure.canvas.draw()


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_text_can_be_plotted(hostile, pyplot):
    axes = hostile.plot(row=1)
    axes.figure.canvas.draw()
    assert axes.get_yticklabels()[0].get_text().startswith("<script>alert('x')</script>&\"")
    assert axes.get_yticklabels()[-1].get_text() == "5 other cells"


def test_without_matplotlib_the_error_says_what_to_install(hostile, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NPTADError, match=r"needs matplotlib; install it with pip install 'nptad\[report\]'"):
        hostile.plot()


def test_no_rows_are_explained_by_nothing(fitted):
    """The anomalies of a table without any are the first thing a user passes on."""
    for empty in (pd.DataFrame({"a": [], "b": []}), np.empty((0, 2)), pa.table({"a": pa.array([], pa.float64())})):
        explanation = fitted.explain(empty)
        assert len(explanation) == 0
        assert len(explanation.frame()) == 0
