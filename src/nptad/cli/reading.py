"""The table that a command works on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nptad.memory import require_libraries

if TYPE_CHECKING:
    from pyarrow import Table


def read_data(data: str, ignore: str, sheet: str | None, model: Path | None = None) -> tuple[Table, list[str]]:
    """A table, and the names of its columns to ignore; one for a saved model is read like its training table.

    For a saved model, an empty file is a table without rows: a day on which nothing happened.
    """
    import pyarrow as pa

    from nptad.errors import EmptyFileError
    from nptad.io.sources import read_source
    from nptad.models.folder import read_schema
    from nptad.tables.selection import column_names

    schema = None if model is None else read_schema(model)
    try:
        table, keys = read_source(data, () if schema is None else schema.text_columns, sheet)
    except EmptyFileError:
        if schema is None or not schema.named:
            raise
        table, keys = pa.table({str(column.name): pa.nulls(0) for column in schema.columns}), []
    require_libraries()
    return table, [*keys, *column_names(ignore, table.column_names)]
