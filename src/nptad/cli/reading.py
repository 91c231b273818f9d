"""The table that a command works on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nptad.memory import require_libraries

if TYPE_CHECKING:
    from pyarrow import Table


def read_data(data: str, ignore: str, sheet: str | None, model: Path | None = None) -> tuple[Table, list[str]]:
    """A table, and the names of its columns to ignore; one for a saved model is read like its training table."""
    from nptad.io.sources import read_source
    from nptad.models.folder import read_schema
    from nptad.tables.selection import column_names

    table, keys = read_source(data, () if model is None else read_schema(model).text_columns, sheet)
    require_libraries()
    return table, [*keys, *column_names(ignore, table.column_names)]
