"""A real Spark with two local cores gives the scores of one process."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest

from nptad import InputError, NPTADError, load
from nptad.io.write import write_table
from nptad.scale.spark import score_dataframe
from order_tables import orders

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(scope="module")
def spark():
    """One session for all tests."""
    sql = pytest.importorskip("pyspark.sql", reason="the extra spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "ERROR"}
    settings |= {"spark.sql.shuffle.partitions": "2", "spark.sql.execution.arrow.maxRecordsPerBatch": "400"}
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # else Spark takes the first python3 of the path
        session = builder.getOrCreate()
        yield session
        session.stop()


def test_a_data_frame_gets_the_scores_of_one_process(spark, model, tmp_path):
    table = orders(3000, 1)
    write_table(table, tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path / "a.parquet")).repartition(3)
    scored = score_dataframe(frame, model, ignore=["id"], false_alarm_rate=0.05, reasons=True)
    assert scored.columns == ["id", "score", "p_value", "anomaly", "reasons"]
    result = scored.toArrow()
    order = np.argsort([int(name[1:]) for name in result["id"].to_pylist()])
    expected = load(model).detect(table.drop_columns("id"), false_alarm_rate=0.05)
    for name in ("score", "p_value", "anomaly"):
        assert result[name].to_numpy()[order].tolist() == getattr(expected, name).tolist()
    assert [why is not None for why in result["reasons"].to_pylist()] == result["anomaly"].to_pylist()


def test_an_unknown_column_is_told_before_anything_runs(spark, model):
    frame = spark.createDataFrame([(1.0,)], ["size"])
    with pytest.raises(InputError, match="no column 'id'; the table has size"):
        score_dataframe(frame, model, ignore=["id"])


def test_without_spark_one_sentence_says_what_to_install(monkeypatch, model):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NPTADError, match=r"pip install 'nptad\[spark\]'"):
        score_dataframe(None, model)
