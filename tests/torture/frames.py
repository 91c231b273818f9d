"""Hostile frames: extreme values, odd types and names, in pandas, polars, pyarrow and NumPy.

A frame is analysed as a whole, or refused; a row that is scored in a batch is scored alone too, and alike.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import nptad
from nptad import NPTAD, InputError, detect_table
from nptad.io.write import write_table
from nptad.report import render, summarise
from nptad.tables.frames import read_columns
from torture.cheap import cheap_scores
from torture.outcomes import Failure, outcome_of

SAMPLE = range(24)
MANY = 10_000

_ZONE = dt.timezone(dt.timedelta(hours=-14))
_NUMBERS: list[Any] = [
    0,
    -0.0,
    1,
    2.5,
    -1e308,
    1e308,
    5e-324,
    1e-300,
    2**53 + 1,
    -(2**63),
    2**63,
    2**64 - 1,
    10**30,
    10**400,
]
_NUMBERS += [float("nan"), float("inf"), None, Decimal("NaN"), Decimal("1e999"), Decimal("0.1"), Fraction(1, 3)]
_TIMES: list[Any] = [
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59),
    dt.datetime(2020, 2, 29, 1, tzinfo=_ZONE),
]
_TIMES += [dt.datetime(9999, 12, 31, 23, tzinfo=_ZONE), dt.date(1970, 1, 1), dt.time(23, 59), dt.timedelta.max]
_TIMES += [dt.timedelta.min, None, pd.NaT, pd.Timestamp.max, pd.Timestamp.min, np.datetime64("NaT")]
_TIMES += [np.datetime64(2**40, "Y"), np.timedelta64(2**62, "s"), np.datetime64("2020-01")]
_TEXTS: list[Any] = [
    "",
    " ",
    "a",
    "b",
    "\0",
    "\ud800",
    "é" * 300,
    "=1+1",
    "\u202e",
    "1",
    "1.0",
    "nan",
    "\n",
    None,
    b"\xff",
    "x" * 9999,
]
_ODD: list[Any] = [
    True,
    False,
    [1],
    {"a": 1},
    (1, 2),
    object(),
    1j,
    set(),
    pd.NA,
    np.float16(2),
    np.longdouble("1e4000"),
    Ellipsis,
]
_PLAIN: list[list[Any]] = [[1, 2, 3, 4, 5, None], [0.5, 1.5, 2.5, None], ["a", "b", "c"], [True, False], [7]]
_NAMES = ["a", "b", "", " ", "=x", "\n", "a=b", "a,b", "é", "x" * 500, "0", "None", "score", "row", "\ud800", "\0"]
_NAMES += ["<b>", "p_value", "anomaly", "reasons", *(f"c{j}" for j in range(30))]
_PANDAS = ["Int64", "UInt8", "Float32", "boolean", "string", "str", "period[D]", "Sparse[float64]", "float16", "uint64"]
_PANDAS += ["datetime64[s]", "datetime64[ns, Asia/Tokyo]", "timedelta64[ms]", "int64[pyarrow]", "string[pyarrow]"]
_PANDAS += [
    "double[pyarrow]",
    "timestamp[ns][pyarrow]",
    "date32[pyarrow]",
    "bool[pyarrow]",
    "decimal128(38,3)[pyarrow]",
]
_NUMPY: list[Any] = [object, "f4", "f8", "f2", "i8", "u8", "U5", "S3", "M8[Y]", "M8[s]", "m8[h]", "M8[ns]", "?", "c16"]
_NUMPY += [np.longdouble, ">f8", ">i2", "V8"]
_ARROW = [pa.timestamp("s"), pa.timestamp("us", "Asia/Tokyo"), pa.duration("s"), pa.date32(), pa.date64(), pa.uint64()]
_ARROW += [pa.duration("ns"), pa.time64("us"), pa.timestamp("ns"), pa.float16(), pa.decimal128(38, 3), pa.binary()]
_ARROW += [pa.large_string(), pa.string_view(), pa.bool_(), pa.null(), pa.int8(), pa.decimal256(70, 2), pa.time32("s")]


def case(seed: int, folder: Path) -> str:
    """One frame, analysed as a whole, or fitted and its rows scored one by one, and those of another frame."""
    random = Random(seed)
    names = random.sample(_NAMES, random.choice([1, 1, 2, 3, 5, 11] if random.random() < 0.95 else [40]))
    frame = _frame(random, names)
    with cheap_scores():
        if random.random() < 0.3:
            return outcome_of(lambda: _analyse(frame, random))
        return outcome_of(lambda: _learn_and_score(frame, random, names, folder))


def _analyse(frame: Any, random: Random) -> None:
    if not hasattr(frame, "columns"):  # an array, for instance
        NPTAD(random_state=0).fit_detect(frame)
        return
    found = detect_table(frame, NPTAD(random_state=0), explain_at_least=2, explain_at_most=2)
    if random.random() < 0.2:
        render(summarise(found, source="x"))
    if random.random() < 0.2:
        write_table(found.table(), io.BytesIO(), random.choice(["csv", "parquet", "arrow", "jsonl"]))


def _learn_and_score(frame: Any, random: Random, names: list[str], folder: Path) -> None:
    detector = NPTAD(random_state=0).fit(frame)
    if random.random() < 0.1:
        detector.save(folder / "model")
        np.testing.assert_array_equal(nptad.load(folder / "model").score_samples(frame), detector.score_samples(frame))
    _require_alike_alone(detector, frame, random)
    other = _frame(random, names)
    outcome_of(lambda: _require_alike_alone(detector, other, random))


def _require_alike_alone(detector: NPTAD, frame: Any, random: Random) -> None:
    """The scores of a batch are finite, and those of its rows alone."""
    batch = frame[: max(1, read_columns(frame).n_rows // 2)]
    found = detector.detect(batch)
    if not (np.isfinite(found.score).all() and np.isfinite(found.p_value).all()):
        raise Failure(f"scores {found.score}, p-values {found.p_value}")
    for row in random.sample(range(len(found.score)), min(3, len(found.score))):
        try:
            alone = detector.detect(batch[row : row + 1])
        except InputError as error:
            raise Failure(f"row {row} is refused alone, but scored in a batch: {error}") from error
        np.testing.assert_allclose(alone.score, found.score[row : row + 1], rtol=1e-4)


def _frame(random: Random, names: list[str]) -> Any:
    n_rows = random.choice([2, 3, 8, 20, 20, 60] if random.random() < 0.95 else [0, 1, 300])
    columns = [_cells(random, n_rows) for _ in names]
    makers = [_pandas, _pandas, _polars, _arrow, _numpy]
    random.shuffle(makers)
    if random.random() < 0.05:
        makers.insert(0, _bare)
    for make in makers:  # the first library that can hold such cells
        try:
            return make(random, names, columns)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
    plain = [ascii(name) for name in names]  # there are names that no library can hold
    return pd.DataFrame(dict(zip(plain, columns, strict=True)), dtype=object)


def _cells(random: Random, n_rows: int) -> list[Any]:
    pools: Sequence[list[Any]] = [_NUMBERS, _TIMES, _TEXTS, *_PLAIN, *_PLAIN]
    pool = list(random.choice(pools))
    if random.random() < 0.15:
        pool += random.sample(_ODD, 2)
    pool = random.sample(pool, random.randint(1, len(pool)))
    return [random.choice(pool) for _ in range(n_rows)]


def _pandas(random: Random, names: list[str], columns: list[list[Any]]) -> Any:
    frame = pd.concat([_series(random, cells) for cells in columns], axis=1, keys=names)
    if random.random() < 0.1:
        frame.columns = pd.MultiIndex.from_tuples([(name, j) for j, name in enumerate(names)])
    elif random.random() < 0.1:
        frame.columns = pd.Index([random.choice([name, j, 0.5, None, ("a", 1)]) for j, name in enumerate(names)])
    if random.random() < 0.1:
        frame.index = random.choices(range(3), k=len(frame))
    return frame


def _series(random: Random, cells: list[Any]) -> pd.Series[Any]:
    series = pd.Series(cells, dtype=object)
    makers: list[Callable[[], pd.Series[Any]]] = [
        lambda: series,
        lambda: pd.Series(cells),
        lambda: series.astype("category"),
        series.convert_dtypes,
        lambda: series.astype(random.choice(_PANDAS)),
    ]
    with suppress(Exception):
        return random.choice(makers)()
    return series


def _polars(random: Random, names: list[str], columns: list[list[Any]]) -> Any:
    if random.random() < 0.5:
        whole = [
            pl.Series(name, [random.choice([2**62, -(2**40), 1, None]) for _ in c])
            for name, c in zip(names, columns, strict=True)
        ]
        kinds: list[Any] = [pl.Datetime("ms"), pl.Datetime("us", "Europe/Berlin"), pl.Duration("us"), pl.Time, pl.Int64]
        return pl.DataFrame([series.cast(random.choice(kinds), strict=False) for series in whole])
    return pl.DataFrame({n: pl.Series(c, strict=False) for n, c in zip(names, columns, strict=True)})


def _arrow(random: Random, names: list[str], columns: list[list[Any]]) -> Any:
    arrays = []
    for cells in columns:
        try:
            array = pa.array(cells)
        except (pa.ArrowException, OverflowError, UnicodeError):
            whole = [random.choice([2**62, -(2**62), 1, None]) for _ in cells]
            array = pa.array(whole, pa.int64())
        kind = random.choice(_ARROW)
        if random.random() < 0.5:
            with suppress(pa.ArrowException, ValueError):
                array = array.view(kind) if random.random() < 0.5 else array.cast(kind)
        arrays.append(array.dictionary_encode() if random.random() < 0.1 else array)
    return pa.table(arrays, names)


def _numpy(random: Random, names: list[str], columns: list[list[Any]]) -> Any:
    array = _objects(columns).astype(random.choice(_NUMPY))
    if random.random() < 0.1:
        return np.ma.masked_array(array, np.random.default_rng(len(array)).random(array.shape) < 0.3)
    return np.asfortranarray(array)[::-1] if random.random() < 0.3 else array


def _objects(columns: list[list[Any]]) -> np.ndarray:
    array = np.empty((len(columns[0]), len(columns)), object)
    for j, cells in enumerate(columns):
        array[:, j] = cells
    return array


def _bare(random: Random, names: list[str], columns: list[list[Any]]) -> Any:
    """What is no table, or hardly one: rows of unequal length, one column, a cube, a matrix."""
    rows = [list(row) for row in zip(*columns, strict=True)]
    kind = random.randrange(6)
    if kind == 0:
        return rows
    if kind == 1:
        return [row[: random.randint(0, len(row))] for row in rows]
    if kind == 2:
        return columns[0] if random.random() < 0.5 else pd.Series(columns[0])
    if kind == 3:
        return _objects(columns)[None]
    if kind == 4:
        return pa.RecordBatch.from_arrays([pa.array(cells) for cells in columns], names)
    return pl.DataFrame(dict(zip(names, columns, strict=True)), strict=False).lazy()
