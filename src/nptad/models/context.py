"""The encoded training rows of a saved model as a Parquet file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from nptad.tables.schema import Schema

_CODECS = {"SNAPPY", "UNCOMPRESSED"}
"""Codecs that cannot pack much into little; files of ours are written with the first."""


def rows_to_bytes(rows: Float[np.ndarray, "n D"], schema: Schema) -> bytes:
    """Encoded rows as the content of a Parquet file."""
    # Names are for people only, loading goes by position: a name may contain what UTF-8 cannot encode.
    names = [str(c.name).encode(errors="replace").decode() for c in schema.used]
    content = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array(column) for column in rows.T], names), content)
    return bytes(content.getvalue())


def rows_from_bytes(data: bytes, n_rows: int, schema: Schema) -> Float[np.ndarray, "n D"]:
    """The ``n_rows`` rows in :func:`rows_to_bytes`; a ValueError, before they are read, if the file has others."""
    file, n_columns = pq.ParquetFile(pa.BufferReader(data)), len(schema.used)
    groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
    if (
        (file.metadata.num_rows, file.metadata.num_columns) != (n_rows, n_columns)
        or sum(group.num_rows for group in groups) != n_rows
        or any(group.num_columns != n_columns for group in groups)
    ):
        raise ValueError(f"{file.metadata.num_rows} x {file.metadata.num_columns} context cells")
    for group in groups:
        for place in range(n_columns):
            column = group.column(place)
            if (
                (column.physical_type, column.num_values) != ("FLOAT", group.num_rows)
                or column.compression not in _CODECS
                or file.schema.column(place).max_repetition_level > 0
            ):
                raise ValueError("context cells of another kind")
    return np.column_stack([column.to_numpy() for column in file.read().columns]).astype(np.float32)
