"""What the rows of a table are called, so that a result can be laid beside the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from nptad.wording import FEW_LETTERS, cell, shorten

_KEYS = 3  # key columns named beside a row


@dataclass(frozen=True)
class Identity:
    """What the rows of a table are called: labels of an index or numbers, and the cells of the key columns."""

    first: int = 0
    """The number of the first row: 0 in Python, 1 for tables of files, as spreadsheets and databases count."""
    index: Any = None
    """The labels of the rows, a pandas index; by default rows have numbers."""
    frame: Any = None
    """The table, where the key columns are."""
    keys: tuple[str, ...] = ()
    """The key columns: set aside, and there to tell rows apart."""
    rows: np.ndarray | None = None
    """The positions of the rows that are left; by default all."""

    @classmethod
    def of(cls, frame: Any, first: int = 0) -> Identity:
        """What the rows of a narwhals frame are called.

        The index of a frame of pandas counts unless it only numbers the rows from 0, as pandas does by default.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": [1, 2, 3]})
        >>> [Identity.of(nw.from_native(part)).label(0) for part in (table, table[table.x > 1])]
        [0, 1]
        """
        native = nw.to_native(frame)
        index = nw.maybe_get_index(frame)
        numbered = index is None or (getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1)
        return cls(first, None if numbered else index, native)

    def with_keys(self, names: Sequence[str | int]) -> Identity:
        """The same with those of these columns as further keys that the table has."""
        if self.frame is None:
            return self
        there = {str(name) for name in nw.from_native(self.frame, eager_only=True).columns}
        found = [name for name in map(str, names) if name in there]
        return replace(self, keys=tuple(dict.fromkeys([*self.keys, *found])))

    def take(self, rows: slice | np.ndarray, n_rows: int) -> Identity:
        """Some of ``n_rows`` rows, by position."""
        places = np.arange(n_rows) if self.rows is None else self.rows
        return replace(self, rows=places[rows])

    def label(self, place: int) -> int | str:
        """The label or the number of a row.

        >>> Identity(first=1).take(np.array([2, 5]), 6).label(1)
        6
        """
        row = self._row(place)
        return row + self.first if self.index is None else _plain(self.index[row])

    def labels(self, n_rows: int) -> Sequence[int | str] | np.ndarray:
        """The labels or numbers of all ``n_rows`` rows."""
        if self.index is None:
            return self.first + (np.arange(n_rows) if self.rows is None else self.rows)
        return [self.label(place) for place in range(n_rows)]

    def key(self, place: int) -> dict[str, Any]:
        """The cells of a row in the first key columns, by their names."""
        keys = self._key_columns()
        row = self._row(place)
        return {} if keys is None else {str(name): _known(keys[row, name]) for name in keys.columns[:_KEYS]}

    def key_frame(self) -> Any:
        """The key columns as a narwhals frame; None if there are none."""
        keys = self._key_columns()
        return keys if keys is None or self.rows is None else keys[self.rows.tolist()]

    def indexed(self, frame: Any) -> Any:
        """A narwhals frame with a line for each row, with the index of the table if that is a frame of pandas."""
        if self.index is None:
            return frame
        index = self.index if self.rows is None else self.index[self.rows]
        return nw.from_native(nw.to_native(frame).set_axis(index), eager_only=True)

    def _row(self, place: int) -> int:
        return int(place if self.rows is None else self.rows[place])

    def _key_columns(self) -> Any:
        if not self.keys:
            return None
        frame = nw.from_native(self.frame, eager_only=True)
        names = {str(name): name for name in frame.columns}
        return frame.select([names[key] for key in self.keys])

    @property
    def said(self) -> str:
        """How rows are called, in one sentence."""
        if self.index is not None:
            named = [str(name) for name in self.index.names if name is not None]
            return f"Rows have the labels of the index{' ' * bool(named)}{', '.join(named)}."
        return f"Rows are counted from {self.first}{', without the header' * (self.first == 1)}."


def title(label: int | str, key: dict[str, Any]) -> str:
    """A row in a heading.

    >>> title(17, {"order": "A881"})
    'Row 17 (order A881)'
    """
    cells = ", ".join(f"{shorten(name, FEW_LETTERS)} {cell(value, FEW_LETTERS)}" for name, value in key.items())
    return f"Row {cell(label)}" + (f" ({cells})" if cells else "")


def _known(value: Any) -> Any:
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _plain(label: Any) -> int | str:
    value = label.item() if hasattr(label, "item") else label
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, tuple):  # of an index of several levels
        return " / ".join(cell(part) for part in value)
    return cell(value)
