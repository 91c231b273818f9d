"""Results of the pipeline, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nptad import NPTAD
from nptad.explain import Explanation
from nptad.pipeline import TableResult
from nptad.scoring.calibrate import Detection
from nptad.tables.frames import read_columns


def result_of(
    detector: NPTAD,
    table: Any,
    detection: Detection,
    *,
    explanation: Explanation | None = None,
    keys: pa.Table | None = None,
    labels: np.ndarray | None = None,
) -> TableResult:
    """What the pipeline would return for this detection."""
    keys = pa.table({}) if keys is None else keys
    explanation = Explanation((), "pyarrow") if explanation is None else explanation
    return TableResult(detector, read_columns(table), labels, keys, keys, detection, explanation)
