"""What further rows change in a schema: new categories, wider ranges, other counts.

Means, standard deviations and the codes of known categories stay, so that encoded rows remain what they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nptad.tables.encode import Cells, encode_cells, plain_cell
from nptad.tables.layout import UNSEEN
from nptad.tables.schema import LARGEST_TIME, Column, Schema, step_of

_MOST_CATEGORIES = 1000
"""Categories up to which a column gets new ones; every row costs time for each of them."""


def grown(schema: Schema, cells: Cells) -> Schema:
    """The schema with the new categories, the ranges and the steps of some rows.

    New categories get the next codes. In a column with an open vocabulary they have one already, and where rare
    categories share a code they get that.

    Examples
    --------
    >>> from nptad.tables.encode import match
    >>> from nptad.tables.frames import read_columns
    >>> from nptad.tables.schema import learn_schema
    >>> import pandas as pd
    >>> schema = learn_schema(pd.DataFrame({"kind": ["a", "b", "a"], "size": [1.5, 2.0, 4.0]}))
    >>> rows = read_columns(pd.DataFrame({"kind": ["c", "a"], "size": [9.0, 3.0]}))
    >>> columns = grown(schema, match(schema, rows)).columns
    >>> columns[0].categories, columns[1].high
    (('a', 'b', 'c'), 9.0)
    """
    codes = encode_cells(schema, cells)
    changed = {
        column.name: _grown(column, cells.values[column.name], codes[:, j]) for j, column in enumerate(schema.used)
    }
    return replace(schema, columns=tuple(changed.get(column.name, column) for column in schema.columns))


def recounted(schema: Schema, x: np.ndarray) -> Schema:
    """The schema with the counts of the encoded rows that a model knows now."""
    used = {column.name: x[:, j] for j, column in enumerate(schema.used)}
    columns = [
        replace(column, missing=int(np.isnan(cells).sum()), unreadable=int(np.isinf(cells).sum()))
        if (cells := used.get(column.name)) is not None
        else column
        for column in schema.columns
    ]
    return replace(schema, columns=tuple(columns), n_rows=len(x))


def _grown(column: Column, values: np.ndarray, codes: np.ndarray) -> Column:
    if column.kind == "numeric":
        known = values[np.isfinite(values)]
        if not len(known):
            return column
        step = min(column.step, step_of(np.unique(known), column.content))
        ends = [end for end in (column.low, column.high) if end is not None]
        low, high = min([*ends, float(known.min())]), max([*ends, float(known.max())])
        return replace(column, low=low, high=high, step=step)
    found = dict.fromkeys(plain_cell(value) for value in values[codes == UNSEEN])
    new = tuple(value for value in found if value is not None and _can_be_category(value))
    if column.pooled:
        return replace(column, pooled=(*column.pooled, *new))
    return replace(column, categories=(*column.categories, *new[: max(0, _MOST_CATEGORIES - len(column.categories))]))


def _can_be_category(value: str | float | bool) -> bool:
    return isinstance(value, str | bool) or (np.isfinite(value) and abs(value) <= LARGEST_TIME)
