"""The columns of a table by their part in the analysis: features, label, keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import numpy as np
import pyarrow as pa

from nptad.errors import InputError

_TRUE = {"1", "1.0", "true", "yes", "anomaly", "outlier"}
_FALSE = {"0", "0.0", "false", "no", "normal", "inlier", "-1", "-1.0"}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Selection:
    """The columns of a table by their part in the analysis."""

    features: pa.Table  # what the model sees
    labels: np.ndarray | None  # true for rows that are known anomalies; never seen by the model
    keys: pa.Table  # ignored columns, which identify the rows
    carried: pa.Table  # ignored columns and the label, which results carry along


def select_columns(table: pa.Table, ignore: Sequence[str] = (), label: str | None = None) -> Selection:
    """Set aside the ignored columns and the label.

    ``label`` is the name of a column of 0 and 1 (or true and false), or ``name=value`` where that value marks the
    anomalies.

    >>> table = pa.table({"id": [7, 8], "x": [0.1, 0.2], "kind": ["good", "bad"]})
    >>> selection = select_columns(table, ["id"], "kind=bad")
    >>> selection.features.column_names, selection.labels.tolist(), selection.carried.column_names
    (['x'], [False, True], ['id', 'kind'])
    """
    name, labels = None, None
    if label is not None:
        name, value = split_label(label, table.column_names)
        require_columns([name], table.column_names)
        labels = _labels(table[name], name, value)
    require_columns(ignore, table.column_names)
    keys = list(dict.fromkeys(ignore))
    aside = [*keys, *([name] if name is not None and name not in ignore else [])]
    features = table.drop_columns(aside)
    if features.num_columns == 0:
        raise InputError("No column is left to look at; ignore fewer columns.")
    return Selection(features, labels, table.select(keys), table.select(aside))


def split_label(label: str, names: Collection[str]) -> tuple[str, str | None]:
    """Column and value of ``name=value``; the name is the longest that is a column. The value of a name alone is None.

    >>> split_label("kind=a=b", ["kind", "size"]), split_label("kind=a", ["kind", "kind=a"])
    (('kind', 'a=b'), ('kind=a', None))
    """
    if label in names:
        return label, None
    places = [place for place, letter in enumerate(label) if letter == "="]
    place = next((place for place in reversed(places) if label[:place] in names), places[-1] if places else None)
    return (label, None) if place is None else (label[:place], label[place + 1 :])


def require_columns(names: Iterable[str], existing: Sequence[str], where: str = "") -> None:
    """Reject names that are not columns; the message says where the names come from (``where``)."""
    for name in names:
        if name not in existing:
            raise InputError(f"{where}There is no column {name!r}; the table has {', '.join(existing[:20])}.")


def require_distinct(names: Sequence[str], where: str) -> None:
    """Reject several columns of the same name."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(f"{where} has {count} columns called {name!r}; give each column its own name.")


def _labels(column: pa.ChunkedArray, name: str, anomaly: str | None) -> np.ndarray:
    values = column.to_pylist()
    if anomaly is not None:
        labels = np.array([_is_spelt(value, anomaly) for value in values])
        if not labels.any():
            raise InputError(f"No row has {anomaly!r} in the label column {name!r}.")
        return labels
    texts = ["" if value is None else str(value) for value in values]
    unclear = next((text for text in texts if text.lower() not in _TRUE | _FALSE), None)
    if unclear is not None:
        raise InputError(
            f"The label column {name!r} holds {unclear!r}, which is neither 0 nor 1; say which value marks the "
            f"anomalies with --label {name}=value."
        )
    return np.array([text.lower() in _TRUE for text in texts])


def _is_spelt(value: object, text: str) -> bool:
    """True if a person may write this text for a value of a table: true for True, 1 for 1.0."""
    if isinstance(value, bool):
        return text.lower() in (("true", "1") if value else ("false", "0"))
    if isinstance(value, int | float | Decimal):
        try:
            return float(text) == value
        except ValueError:
            return False
    return str(value) == text


def column_names(text: str, existing: Collection[str]) -> list[str]:
    """The names in a comma-separated list; the longest column name that fits is taken, since names may contain commas.

    >>> column_names("id,Weight, kg", ["id", "Weight, kg", "size"])
    ['id', 'Weight, kg']
    """
    names, parts = [], text.split(",")
    while parts:
        for end in range(len(parts), 0, -1):
            whole = ",".join(parts[:end])
            found = next((name for name in (whole, whole.strip()) if name in existing), None)
            if found is not None:
                break
        else:
            end, found = 1, parts[0].strip()
        names += [found] if found else []
        parts = parts[end:]
    return names


def named_beside(taken: Collection[str], results: dict[str, _T]) -> dict[str, _T]:
    """The results under names that no carried column has."""
    return {f"nptad_{name}" if name in taken else name: value for name, value in results.items()}
