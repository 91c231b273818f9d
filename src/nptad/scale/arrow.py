"""Arrow in, Arrow out: the one place where every engine has its rows scored.

A worker opens a saved model once and then turns record batches into record batches. Rows are judged one by one, so
that any split of a table into batches gives the same scores.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
import torch

from nptad.detector import load
from nptad.errors import InputError, ModelFileError, warn
from nptad.pipeline import score_table
from nptad.scoring.calibrate import DecisionRule
from nptad.tables.selection import named_beside, select_columns


@dataclass(frozen=True)
class ScoringOptions:
    """What every worker is told; plain values that fit into JSON."""

    model: str
    """Directory of a saved model, on a disk that the worker can read."""
    ignore: tuple[str, ...] = ()
    """Columns that the model does not see and that are carried into the result."""
    false_alarm_rate: float | None = None
    """Rows with a p-value up to this are flagged. By default 0.01, or the smallest p-value that the model can give. A
    false discovery rate would need the p-values of all rows, which no worker has."""
    reasons: bool = False
    """Say why for the flagged rows."""
    device: str = "auto"
    """A torch device; "auto" takes a CUDA device if there is one."""
    threads: int | None = None
    """Threads of a worker; None leaves them as they are."""
    fingerprint: str | None = None
    """What the model must be (:func:`nptad.models.folder.fingerprint`), so that all workers use the same one."""
    all_columns: bool = False
    """Carry all columns into the result, not only the ignored ones."""

    def __post_init__(self) -> None:
        if self.false_alarm_rate is not None:
            DecisionRule("false_alarm_rate", self.false_alarm_rate)
        if isinstance(self.ignore, str):
            raise InputError(f"ignore must be a list of column names, got {self.ignore!r}.")
        object.__setattr__(self, "model", str(self.model))
        object.__setattr__(self, "ignore", tuple(self.ignore))


class ArrowScorer:
    """A saved model, opened once, that turns record batches into record batches.

    The result has the ignored columns, or all if asked for, then ``score`` (higher = more anomalous), ``p_value``,
    ``anomaly`` and, if asked for, ``reasons``; a result is called ``nptad_score`` and so on where one of these columns
    has its name.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from nptad import NPTAD
    >>> x = np.random.default_rng(0).normal(size=60)
    >>> folder = tempfile.mkdtemp()
    >>> NPTAD(2, n_steps=60, random_state=0).fit(pa.table({"x": x, "y": 2 * x})).save(f"{folder}/model")
    >>> scorer = ArrowScorer(ScoringOptions(f"{folder}/model", ignore=["id"]))
    >>> found = scorer(pa.record_batch({"id": ["a", "b"], "x": [1.0, 1.0], "y": [2.0, -8.0]}))
    >>> found.schema.names, found["anomaly"].to_pylist()
    (['id', 'score', 'p_value', 'anomaly'], [False, True])
    """

    def __init__(self, options: ScoringOptions) -> None:
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        self.options = options
        self.detector = load(options.model, options.device)
        self.fingerprint = self.detector.model_.fingerprint
        if options.fingerprint not in (None, self.fingerprint):
            raise ModelFileError(
                f"The model in {options.model} was replaced by another one before all rows were scored; score them all "
                "with the same model."
            )
        self.detector.set_params(verbose=False)
        self.false_alarm_rate = self.detector.decision_rule(None, options.false_alarm_rate).rate

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Score the rows of a batch, which may have none."""
        table, ignore = pa.Table.from_batches([batch]), self.options.ignore
        carried = table if self.options.all_columns else select_columns(table, ignore).carried
        schema = pa.schema([*carried.schema, *pa.schema(result_fields(carried.column_names, self.options.reasons))])
        result = schema.empty_table()
        if batch.num_rows:
            # All batches of all files get the same columns, so those that the model set aside are not carried.
            remembered = {str(name) for name in self.detector.schema_.ignored} - set(ignore)
            table = table.drop_columns([name for name in table.column_names if name in remembered])
            rate, reasons = self.false_alarm_rate, self.options.reasons
            found = score_table(
                self.detector, table, ignore=ignore, false_alarm_rate=rate, reasons=reasons, first_row=1
            )
            result = replace(found, carried=carried).table().select(schema.names)
            for sentence in found.detection.drift:
                warn(f"Drift: {sentence}")
        return pa.RecordBatch.from_arrays([column.combine_chunks() for column in result.columns], schema.names)


def result_fields(carried: Collection[str], reasons: bool) -> dict[str, pa.DataType]:
    """Names and types of what a scorer puts beside the carried columns; the reasons only if they are asked for."""
    results = {"score": pa.float64(), "p_value": pa.float64(), "anomaly": pa.bool_()}
    return named_beside(carried, results | ({"reasons": pa.string()} if reasons else {}))


@lru_cache(maxsize=1)
def open_scorer(options: ScoringOptions) -> ArrowScorer:
    """The scorer of this process: engines call it for every task, the model is loaded once."""
    return ArrowScorer(options)
