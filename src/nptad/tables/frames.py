"""Any supported table in one form: columns of float64 or of plain Python values.

All differences between pandas, polars, pyarrow and NumPy are handled here.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import DuplicateError

from nptad.errors import CellTypeError, InputError
from nptad.tables.identity import Identity
from nptad.tables.moments import duration_text, time_text
from nptad.tables.selection import named_beside, require_distinct

Content = Literal["number", "boolean", "text", "time", "duration", "nested"]
"""What the cells of a column are. Times are seconds since 1970 (UTC), durations and times of day are seconds. Nested
cells, lists and objects, cannot be used."""


_SECONDS_IN = {"W": 604800.0, "D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9, "ps": 1e12, "fs": 1e15, "as": 1e18, "generic": 1e6}
_MOST_YEARS = 1e9  # or months
_LONGEST_SECONDS = 6.2e10  # Python has no times before year 1


@dataclass(frozen=True)
class RawColumns:
    """A table as Python sees it: per column float64 (NaN = missing) or objects (None = missing)."""

    cells: dict[str | int, np.ndarray]
    content: dict[str | int, Content]
    n_rows: int
    named: bool  # true if columns are known by name, false if by position
    backend: str  # library of the frames that the user works with
    first_row: int = 0  # its position in the whole table, if this is a block of it
    declared: frozenset[str | int] = frozenset()  # text columns that their author declared to be categories
    zones: Mapping[str | int, str] = field(default_factory=dict)  # of times that have a time zone
    identity: Identity = field(default_factory=Identity)  # what the rows are called

    def take(self, rows: slice | np.ndarray) -> RawColumns:
        """Some of the rows, by position."""
        cells = {name: column[rows] for name, column in self.cells.items()}
        identity = self.identity.take(rows, self.n_rows)
        return replace(self, cells=cells, n_rows=len(np.arange(self.n_rows)[rows]), identity=identity)

    def set_aside(self, names: Sequence[str]) -> RawColumns:
        """The table without some columns, which are key columns from now on."""
        cells = {name: column for name, column in self.cells.items() if name not in names}
        return replace(self, cells=cells, identity=self.identity.with_keys(names))


def read_columns(table: Any, first_row: int = 0) -> RawColumns:
    """Bring any supported table into one form, once; ``first_row`` is the position of its first row."""
    if isinstance(table, RawColumns):
        return table
    if hasattr(table, "toarray") and hasattr(table, "nnz"):
        raise CellTypeError("Sparse data is not supported; pass X.toarray() instead (a dense array).")
    try:
        frame = frame_of(table)
    except TypeError:
        return _read_array(table, first_row)
    except DuplicateError as error:
        raise InputError(f"{' '.join(str(error).split())}; give each column its own name.") from error
    _require_columns(*frame.shape)
    names = [str(name) for name in frame.columns]
    require_distinct(names, "The table")
    cells: dict[str | int, np.ndarray] = {}
    content: dict[str | int, Content] = {}
    declared: set[str | int] = set()
    zones: dict[str | int, str] = {}
    for name, series in zip(names, frame.iter_columns(), strict=True):
        with _library_explained(f"Column {name!r}"):
            cells[name], content[name] = _read_series(series, name, first_row)
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            declared.add(name)
        # Narwhals does not know all time stamps of pandas.
        zone = getattr(series.dtype, "time_zone", None) or getattr(
            getattr(series.to_native(), "dtype", None), "tz", None
        )
        if zone is not None:
            zones[name] = str(zone)
    backend, identity = backend_of(table), Identity.of(frame, first_row)
    return RawColumns(cells, content, len(frame), True, backend, first_row, frozenset(declared), zones, identity)


@contextmanager
def _library_explained(what: str) -> Iterator[None]:
    """Turn the failure of a library at values that its own types cannot hold into an InputError."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # how polars fails
            raise
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{what} holds what cannot be read ({reason}); correct or remove it.") from error


def read_blocks(table: Any, block_rows: int) -> Iterator[RawColumns]:
    """Like :func:`read_columns`, some rows at a time, so that memory does not grow with the table."""
    n_rows = table.shape[0] if hasattr(table, "shape") and len(table.shape) == 2 else 0
    if n_rows <= block_rows or hasattr(table, "toarray"):
        yield read_columns(table)
        return
    take = table.iloc if hasattr(table, "iloc") else table
    for start in range(0, n_rows, block_rows):
        is_arrow = hasattr(table, "slice")
        yield read_columns(table.slice(start, block_rows) if is_arrow else take[start : start + block_rows], start)


def frame_of(table: Any) -> Any:
    """A table as a narwhals frame; also a record batch, which narwhals does not support. Otherwise a TypeError."""
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    return nw.from_native(whole, eager_only=True)


def _require_columns(n_rows: int, n_columns: int) -> None:
    """Reject a table without columns, with the message that scikit-learn expects."""
    if n_columns == 0:
        raise InputError(
            f"0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required: the table has no columns."
        )


def _read_array(table: Any, first_row: int) -> RawColumns:
    if isinstance(table, np.ma.MaskedArray) and table.dtype.kind in "iufb":
        table = np.where(np.ma.getmaskarray(table), np.nan, table.data)
    try:
        array = np.asarray(table)
    except ValueError as error:
        raise InputError(
            "The rows of the table differ in length; give each as many cells as there are columns."
        ) from error
    if array.ndim == 0:
        raise InputError(
            f"Expected a table with rows and columns, got a {type(table).__name__}; pass a DataFrame (collect a lazy "
            "one first), a pyarrow table or a 2-D array."
        )
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array with rows and columns, got an array of {array.ndim} dimension(s). Reshape your data: "
            "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if array.dtype.kind == "c":
        raise CellTypeError("Complex data not supported: a cell must be a real number, a text or a time.")
    if not hasattr(table, "__array__"):  # lists of cells, which NumPy would all turn into one type
        array = np.asarray(table, dtype=object)
    _require_columns(*array.shape)
    cells: dict[str | int, np.ndarray] = {}
    content: dict[str | int, Content] = {}
    for j in range(array.shape[1]):
        with _library_explained(f"Column {j}"):
            cells[j], content[j] = _read_values(array[:, j], j, first_row)
    backend, identity = backend_of(table), Identity(first_row)
    return RawColumns(cells, content, len(array), False, backend, first_row, identity=identity)


def _read_series(series: nw.Series[Any], name: str | int, first_row: int) -> tuple[np.ndarray, Any]:
    dtype = series.dtype
    if dtype.is_numeric():
        return _floats(series), "number"
    if isinstance(dtype, nw.List | nw.Array | nw.Struct):
        return np.full(len(series), None), "nested"
    if isinstance(dtype, nw.Datetime | nw.Date | nw.Duration):
        if getattr(dtype, "time_zone", None):
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return _seconds(series.to_numpy(), name), "duration" if isinstance(dtype, nw.Duration) else "time"
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    if isinstance(dtype, nw.Categorical | nw.Enum):
        # A categorical column stays categorical even if its categories are numbers: the table's author chose so.
        return texts(_plain_cells(values, name, first_row)), "text"
    return _read_values(values, name, first_row)


def _seconds(values: np.ndarray, name: str | int) -> np.ndarray:
    """Times since 1970 or durations of any unit in seconds. NumPy would overflow in silence: counts become floats."""
    if values.dtype.kind not in "mM":
        values = values.astype("M8[us]")
    unit, step = np.datetime_data(values.dtype)
    missing = np.isnat(values)
    counts = np.where(missing, 0, values.astype(np.int64)) * float(step)
    if unit in ("Y", "M"):  # which are not all of the same length
        if counts.size and np.abs(counts).max() > _MOST_YEARS:
            raise _too_far(name)
        days = values.astype(f"{values.dtype.kind}8[D]")
        counts, unit = np.where(missing, 0, days.astype(np.int64)).astype(np.float64), "D"
    per_second = _PER_SECOND.get(unit)
    seconds = counts / per_second if per_second else counts * _SECONDS_IN[unit]
    return np.where(missing, np.nan, seconds)


def _too_far(name: str | int) -> InputError:
    return InputError(f"Column {name!r} holds a time that is too far from today; correct it or leave it empty.")


def _floats(series: nw.Series[Any]) -> np.ndarray:
    """Numbers as float64, rounded where they have more digits; Arrow's own cast would reject those."""
    wide = isinstance(series.dtype, nw.Int64 | nw.UInt64)
    return (series if wide else series.cast(nw.Float64())).to_numpy().astype(np.float64)


def _read_values(values: np.ndarray, name: str | int, first_row: int) -> tuple[np.ndarray, Any]:
    """Cells of unknown type: numbers if all are, truth values if all are, else text."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64), "number"
    if values.dtype.kind in "mM":
        return _seconds(values, name), "time" if values.dtype.kind == "M" else "duration"
    kinds = {type(v) for v in values} - {type(None)}
    if kinds and all(issubclass(kind, list | dict | np.ndarray) for kind in kinds):
        return np.full(len(values), None), "nested"
    cells = _plain_cells(values, name, first_row)
    present = [v for v in cells if v is not None]
    if present and all(isinstance(v, bool) for v in present):
        return np.array(cells, dtype=object), "boolean"
    for kind, content, to_float in _NUMBER_LIKE:
        if all(isinstance(v, kind) for v in present):
            floats = np.array([np.nan if v is None else to_float(v) for v in cells], dtype=np.float64)
            return floats, content
    return texts(cells), "text"


def _seconds_since_1970(moment: datetime) -> float:
    # Without a time zone, timestamp() would count from the time zone of the machine.
    return moment.replace(tzinfo=UTC).timestamp()


_NUMBER_LIKE: tuple[tuple[type, Content, Callable[[Any], float]], ...] = (
    (float, "number", float),
    (datetime, "time", _seconds_since_1970),
    (timedelta, "duration", timedelta.total_seconds),
)


def _plain_cells(values: np.ndarray, name: str | int, first_row: int) -> list[Any]:
    return [None if _is_missing(v) else _plain(v, name, row) for row, v in enumerate(values, first_row)]


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling one cannot be compared
    return isinstance(value, numbers.Number | np.datetime64 | np.timedelta64) and bool(value != value)


def _plain(value: Any, name: str | int, row: int) -> bool | float | str | datetime | timedelta:
    if isinstance(value, np.datetime64 | np.timedelta64):
        if abs(_seconds(np.array([value]), name)[0]) > _LONGEST_SECONDS:
            raise _too_far(name)
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Real | Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if isinstance(value, str | bytes):
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, time):
        return datetime.combine(datetime.min, value.replace(tzinfo=None)) - datetime.min
    if isinstance(value, timedelta):
        return value
    raise CellTypeError(
        f"Column {name!r}, row {row} holds a {type(value).__name__}: argument must be a string, a real number, "
        "a truth value or a time."
    )


def backend_of(table: Any) -> str:
    """The library a user of this table works with; for an array pandas if it is installed, else pyarrow."""
    if isinstance(table, RawColumns):
        return table.backend
    try:
        return str(frame_of(table).implementation.value)
    except TypeError:
        return "pandas" if find_spec("pandas") else "pyarrow"


def to_arrow(table: Any) -> pa.Table:
    """A frame of any library as a pyarrow table."""
    if isinstance(table, pa.Table):
        return table
    try:
        frame = frame_of(table)
    except TypeError as error:
        raise InputError(
            f"Expected a DataFrame or a pyarrow table with named columns, got a {type(table).__name__}."
        ) from error
    except DuplicateError as error:
        raise InputError(f"{' '.join(str(error).split())}; give each column its own name.") from error
    frame = nw.maybe_reset_index(frame)  # or the index would become a column
    if not any("\0" in str(name) for name in frame.columns):  # polars panics
        with suppress(pa.ArrowException, ArithmeticError, TypeError, ValueError):  # some column, perhaps
            return frame.to_arrow()
    with _library_explained("The table"):
        return pa.table({str(series.name): _arrow_column(series) for series in frame.iter_columns()})


def _arrow_column(series: nw.Series[Any]) -> Any:
    """A column in the types of Arrow; cells of several types, or beyond Arrow's, as the detector reads them."""
    name = str(series.name)
    with suppress(pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return series.alias("").to_arrow()
    with _library_explained(f"Column {name!r}"):
        cells, content = _read_series(series, name, 0)
        if content == "number":
            return pa.array(cells, from_pandas=True)
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            return pa.array(cells, pa.string()).dictionary_encode()
        values = np.empty(len(series), dtype=object)
        values[:] = series.to_list()
        return pa.array(texts(_plain_cells(values, name, 0)), pa.string())


def identity_of(table: Any) -> Identity:
    """What the rows of any supported table are called."""
    if isinstance(table, RawColumns):
        return table.identity
    try:
        return Identity.of(frame_of(table))
    except TypeError:
        return Identity()


def build_frame(backend: Any, columns: dict[str, tuple[type, list[Any]]]) -> Any:
    """A frame of a library that :func:`backend_of` named, from columns of one Python type each; None = missing."""
    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    table = pa.table({name: pa.array(cells, types[kind]) for name, (kind, cells) in columns.items()})
    return nw.from_arrow(table, backend=backend).to_native()  # nw.from_dict would make "None" of None in pandas 2


def beside_keys(identity: Identity, backend: Any, columns: dict[str, tuple[type, list[Any]]]) -> Any:
    """A frame of results, one line for each row of a table: its index, its key columns, and these columns.

    The first of the columns comes before the keys.
    """
    keys = identity.key_frame()
    names = () if keys is None else tuple(map(str, keys.columns))
    made = build_frame(backend, named_beside(names, columns))
    result = identity.indexed(nw.from_native(made, eager_only=True))
    if keys is None:
        return result.to_native()
    first, *others = result.columns
    return nw.concat([result.select(first), keys, result.select(others)], how="horizontal").to_native()


def texts(cells: Iterable[Any]) -> np.ndarray:
    """One spelling for a value, so that 22, 22.0 and "22" are the same category, and a time alone and among others."""
    return np.array([None if v is None or v != v else _text(v) for v in cells], dtype=object)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return time_text(_seconds_since_1970(value))
    return duration_text(value.total_seconds()) if isinstance(value, timedelta) else str(value)
