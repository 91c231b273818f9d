"""Scoring on Spark: a thin ``mapInArrow``, usable in any session; needs the extra ``spark``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from nptad.errors import NPTADError
from nptad.models.folder import fingerprint
from nptad.scale.arrow import ScoringOptions, open_scorer, result_fields
from nptad.tables.selection import require_columns

__all__ = ["score_dataframe"]


def score_dataframe(
    frame: Any,
    model: str | Path,
    *,
    ignore: Sequence[str] = (),
    false_alarm_rate: float | None = None,
    reasons: bool = False,
) -> Any:
    """Score the rows of a Spark data frame; as all its operations, it is carried out when the result is asked for.

    Every Python worker of Spark opens the model once and uses as many threads as a task has cores
    (``spark.task.cpus``).

    ``model`` is a directory that the driver and all executors can read; the other parameters and the columns of the
    result are those of :func:`nptad.scale.ray.score_dataset`.
    """
    try:
        from pyspark import TaskContext
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StructType
    except ImportError as error:
        raise NPTADError("Spark is not installed; install it with pip install 'nptad[spark]'.") from error

    options = ScoringOptions(
        str(Path(model).resolve()), tuple(ignore), false_alarm_rate, reasons, "cpu", fingerprint=fingerprint(model)
    )
    require_columns(options.ignore, frame.columns)
    schema = StructType([frame.schema[name] for name in options.ignore])
    for name, kind in result_fields(options.ignore, reasons).items():
        schema = schema.add(name, from_arrow_type(kind))

    def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        scorer = open_scorer(replace(options, threads=1 if task is None else task.cpus()))
        yield from map(scorer, batches)

    return frame.mapInArrow(score, schema)
