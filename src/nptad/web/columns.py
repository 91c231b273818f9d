"""The columns of a table as they were understood, in words and plain values for the page."""

from __future__ import annotations

import warnings
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nptad.errors import InputError, TableWarning
from nptad.tables.schema import MAX_CATEGORIES, Column, learn_schema
from nptad.tables.selection import split_label
from nptad.wording import number, percent, shorten

LABEL_VALUES = 10
"""A column with at most this many different values may be the label."""

_SAMPLES = 4
_LETTERS = 24
_SAMPLED_ROWS = 1000
_NAMES_FROM = 20
"""From this many rows on, a text column without a repeated value is taken for names of the rows."""

_NUMERIC = {"number": "numbers", "time": "times", "duration": "durations"}


def describe_columns(table: pa.Table) -> list[dict[str, Any]]:
    """Describe every column for the page.

    Returns
    -------
    list of dict
        For each column ``name``, ``shown`` (the name cut to a reasonable length), ``kind`` as the library has it,
        ``understood`` and ``note`` for people, ``missing`` and ``samples`` as text, ``values`` that may mark anomalies
        if it is the label, ``uses`` that are possible, ``use``, the proposed one, and ``word`` for what the use
        "number" means here, such as time.

    Raises
    ------
    InputError
        If the table as a whole cannot be used.

    Examples
    --------
    >>> table = pa.table({"size": [1.5, 2.5, None, 4.5], "kind": ["a", "b", "b", None]})
    >>> for column in describe_columns(table):
    ...     print(column["name"], column["understood"], column["missing"], column["samples"], column["values"])
    size numbers 25 % ['1.5', '2.5', '4.5'] ['1.5', '2.5', '4.5']
    kind 2 categories 25 % ['a', 'b'] ['a', 'b']
    """
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise InputError(f"Two columns are called {twice!r}; give each column its own name.")
    if not names or table.num_rows < 2:
        raise InputError(f"The table has {table.num_rows} row(s) and {len(names)} column(s); two rows are the least.")
    described = [_describe(table, place, set(names)) for place in range(len(names))]
    if all(column["uses"] == ["ignore"] for column in described):
        reason = next((column["note"] for column in described if column["note"]), "")
        raise InputError(f"No column of the table can be used. {reason}".strip())
    return described


def is_carriable(kind: pa.DataType) -> bool:
    """True for a type of cells that results can carry along, in text files too: no lists, no bytes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return is_text or pa.types.is_primitive(kind) or pa.types.is_decimal(kind)


def _describe(table: pa.Table, place: int, names: set[str]) -> dict[str, Any]:
    name, cells = table.column_names[place], table.column(place)
    described: dict[str, Any] = {
        "name": name,
        "shown": shorten(name, 2 * _LETTERS),
        "kind": "ignored",
        "understood": "empty",
        "note": "",
        "missing": "all" if cells.null_count == len(cells) else "none",
        "samples": [],
        "values": [],
        "word": "number",
        "uses": ["ignore"],
        "use": "ignore",
    }
    if described["missing"] == "all":
        return described
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # the note says it
            (column,) = learn_schema(table.select([place])).columns
    except InputError as error:
        return {**described, "missing": "", "understood": "not usable", "note": str(error)}
    described |= {
        "kind": column.kind,
        "missing": percent(column.missing / len(cells)) if column.missing else "none",
        "samples": [_shown(value) for value in _distinct(cells[:_SAMPLED_ROWS])[:_SAMPLES]],
        "values": _label_values(cells, name, names),
    }
    if column.kind == "ignored":
        return described
    names_rows = _names_rows(column, cells)
    return {
        **described,
        "understood": "a name for each row" if names_rows else _understood(column),
        "note": _note(column, names_rows),
        "word": column.content,
        "uses": [*(["number"] if column.content in _NUMERIC else []), "category", "ignore"],
        "use": "ignore" if names_rows else "number" if column.kind == "numeric" else "category",
    }


def _names_rows(column: Column, cells: pa.ChunkedArray) -> bool:
    if column.content != "text" or len(cells) < _NAMES_FROM or column.missing:
        return False
    return pc.count_distinct(cells).as_py() == len(cells)


def _understood(column: Column) -> str:
    if column.kind == "numeric":
        return _NUMERIC[column.content]
    count = len(column.categories) + len(column.pooled)
    if column.open_vocabulary:
        return "very many categories"
    if count == 1:
        return "one value only"
    return "true or false" if column.content == "boolean" else f"{count:,} categories"


def _note(column: Column, names_rows: bool) -> str:
    if names_rows:
        return "No value occurs twice, so it is not looked at; results carry it along."
    if column.open_vocabulary:
        return "Many values occur only once; ignore the column if it only names the rows."
    if column.pooled:
        return f"The {MAX_CATEGORIES - 1} most frequent categories are kept, the others share one."
    if column.kind == "categorical" and column.cardinality == 1:
        return "It can only tell that a cell differs from this value."
    return ""


def _label_values(cells: pa.ChunkedArray, name: str, names: set[str]) -> list[str]:
    """The values by which a column can mark anomalies, spelt as ``select_columns`` compares them."""
    if not is_carriable(cells.type) or len(_distinct(cells[:_SAMPLED_ROWS])) > LABEL_VALUES:
        return []
    values = [str(value) for value in _distinct(cells)]
    if not 2 <= len(values) <= LABEL_VALUES:
        return []
    # A value must not make another column of "name=value".
    return [value for value in values if value and split_label(f"{name}={value}", names) == (name, value)]


def _distinct(cells: pa.ChunkedArray) -> list[Any]:
    return [value for value in cells.unique().to_pylist() if value is not None and value == value]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat().removesuffix("T00:00:00")
    text = shorten(str(value))
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
