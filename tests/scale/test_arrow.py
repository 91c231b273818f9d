"""The scorer that all engines call."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import nptad
from nptad import InputError, ModelFileError
from nptad.models.folder import fingerprint
from nptad.scale.arrow import ArrowScorer, ScoringOptions, open_scorer, result_fields
from order_tables import orders


def batch_of(table):
    return table.combine_chunks().to_batches()[0]


def test_a_batch_gets_the_scores_of_the_detector(model):
    table = orders(300, 1)
    found = ArrowScorer(ScoringOptions(model, ["id"], 0.05))(batch_of(table))
    expected = nptad.load(model).detect(table.drop_columns("id"), false_alarm_rate=0.05)
    assert found.schema.names == ["id", "score", "p_value", "anomaly"]
    assert found["id"].to_pylist() == table["id"].to_pylist()
    for name in ("score", "p_value", "anomaly"):
        assert found[name].to_pylist() == getattr(expected, name).tolist()
    assert 0 < np.mean(found["anomaly"].to_pylist()) < 0.2


def test_batches_of_any_size_give_the_same_scores(model):
    table, scorer = orders(700, 2), ArrowScorer(ScoringOptions(model, ["id"]))
    whole = scorer(batch_of(table))
    for size in (1, 99, 512):
        parts = [scorer(batch_of(table.slice(i, size))) for i in range(0, min(3 * size, 700), size)]
        joined = pa.Table.from_batches(parts)
        assert joined["id"].to_pylist() == whole["id"].to_pylist()[: len(joined)]
        for name in ("score", "p_value"):
            np.testing.assert_allclose(joined[name], whole[name].to_numpy()[: len(joined)], rtol=1e-5)


def test_reasons_are_given_for_flagged_rows_only(model):
    found = ArrowScorer(ScoringOptions(model, ["id"], 0.05, reasons=True))(batch_of(orders(1000, 1)))
    assert [why is not None for why in found["reasons"].to_pylist()] == found["anomaly"].to_pylist()
    assert any("weight is 9" in (why or "") for why in found["reasons"].to_pylist())


@pytest.mark.parametrize("reasons", [True, False])
def test_no_rows_in_no_rows_out_with_the_same_columns(model, reasons):
    scorer = ArrowScorer(ScoringOptions(model, ["id"], reasons=reasons))
    some, none = scorer(batch_of(orders(3, 1))), scorer(batch_of(orders(3, 1)).slice(0, 0))
    assert (none.num_rows, none.schema) == (0, some.schema)


def test_a_carried_column_keeps_its_name(model):
    table = orders(3, 1).rename_columns(["score", "size", "weight", "colour"])
    options = ScoringOptions(model, ["score"])
    assert ArrowScorer(options)(batch_of(table)).schema.names == ["score", "nptad_score", "p_value", "anomaly"]
    assert list(result_fields(options.ignore, False)) == ["nptad_score", "p_value", "anomaly"]


def test_the_default_rate_is_one_the_model_can_tell(tmp_path):
    x = np.random.default_rng(0).normal(size=30)
    nptad.NPTAD(2, n_steps=1, random_state=0).fit(pa.table({"x": x, "y": x})).save(tmp_path / "few")
    assert ArrowScorer(ScoringOptions(tmp_path / "few")).false_alarm_rate == 1 / 31
    with pytest.raises(InputError, match="needs at least 99 training rows"):
        ArrowScorer(ScoringOptions(tmp_path / "few", false_alarm_rate=0.01))


def test_a_process_opens_a_model_once(model):
    assert open_scorer(ScoringOptions(model)) is open_scorer(ScoringOptions(str(model)))


@pytest.mark.parametrize(
    ("given", "named"), [({"false_alarm_rate": 2.0}, "between 0 and 1"), ({"ignore": "id"}, "list")]
)
def test_bad_options_are_refused(model, given, named):
    with pytest.raises(InputError, match=named):
        ScoringOptions(model, **given)


def test_a_model_that_is_not_the_one_meant_is_refused(model):
    told = fingerprint(model)
    assert ArrowScorer(ScoringOptions(model, fingerprint=told)).fingerprint == told
    with pytest.raises(ModelFileError, match="was replaced by another one before all rows were scored"):
        ArrowScorer(ScoringOptions(model, fingerprint="0" * 64))


def test_workers_of_engines_set_how_threads_wait_before_torch_is_imported():
    code = "import os, sys, nptad.scale; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["PASSIVE", "False"]
