"""Hostile frames: extreme values, odd types and names, in pandas, polars, pyarrow and NumPy.

A frame is analysed as a whole, or refused; a row that is scored in a batch is scored alone too, and alike.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
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

from nptad import NPTAD, InputError, detect_table
from nptad.tables.frames import read_columns
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
_NAMES = ["a", "b", "", " ", "=x", "\n", "a=b", "a,b", "é", "x" * 500, "0", "None", "score", "row"]
_ARROW = [pa.timestamp("s"), pa.timestamp("us", "Asia/Tokyo"), pa.duration("s"), pa.date32(), pa.date64(), pa.uint64()]
_ARROW += [pa.duration("ns"), pa.time64("us"), pa.timestamp("ns"), pa.float16(), pa.decimal128(38, 3), pa.binary()]
_ARROW += [pa.large_string(), pa.string_view(), pa.bool_(), pa.null(), pa.int8(), pa.decimal256(70, 2), pa.time32("s")]


def case(seed: int, folder: Path) -> str:
    """One frame, fitted, and its rows scored one by one."""
    random = Random(seed)
    frame = _frame(random)

    def analyse() -> None:
        detect_table(frame, NPTAD(random_state=0), explain_at_most=2)

    outcome = outcome_of(analyse)
    outcome_of(lambda: _alone_as_in_the_batch(frame, random))
    return outcome


def _alone_as_in_the_batch(frame: Any, random: Random) -> None:
    detector = NPTAD(random_state=0).fit(frame)
    whole = read_columns(frame)
    batch = frame[: max(1, whole.n_rows // 2)]
    scores = detector.score_samples(batch)
    for row in random.sample(range(len(scores)), min(3, len(scores))):
        try:
            alone = detector.score_samples(batch[row : row + 1])
        except InputError as error:
            raise Failure(f"row {row} is refused alone, but scored in a batch: {error}") from error
        np.testing.assert_allclose(alone, scores[row : row + 1], rtol=1e-4)


def _frame(random: Random) -> Any:
    n_rows = random.choice([1, 2, 3, 8, 20, 60])
    n_columns = random.choice([1, 1, 2, 3, 5])
    names = random.sample(_NAMES, n_columns)
    columns = [_cells(random, n_rows) for _ in names]
    makers = [_pandas, _polars, _arrow, _numpy]
    random.shuffle(makers)
    for make in makers:  # the first library that can hold such cells
        try:
            return make(random, names, columns)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
    return pd.DataFrame(dict(zip(names, columns, strict=True)), dtype=object)


def _cells(random: Random, n_rows: int) -> list[Any]:
    pools: Sequence[list[Any]] = [_NUMBERS, _TIMES, _TEXTS, *_PLAIN, *_PLAIN]
    pool = list(random.choice(pools))
    if random.random() < 0.15:
        pool += random.sample(_ODD, 2)
    pool = random.sample(pool, random.randint(1, len(pool)))
    return [random.choice(pool) for _ in range(n_rows)]


def _pandas(random: Random, names: list[str], columns: list[list[Any]]) -> Any:
    made = {}
    for name, cells in zip(names, columns, strict=True):
        series = pd.Series(cells, dtype=object)
        how = random.randrange(4)
        made[name] = (
            series
            if how == 0
            else pd.Series(cells)
            if how == 1
            else series.astype("category")
            if how == 2
            else (series.convert_dtypes())
        )
    frame = pd.DataFrame(made)
    if random.random() < 0.1:
        frame.columns = pd.MultiIndex.from_tuples([(name, j) for j, name in enumerate(names)])
    if random.random() < 0.1:
        frame.index = random.choices(range(3), k=len(frame))
    return frame


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
    kinds = [
        object,
        "f4",
        "f8",
        "f2",
        "i8",
        "u8",
        "U5",
        "S3",
        "M8[Y]",
        "M8[s]",
        "m8[h]",
        "M8[ns]",
        "?",
        np.longdouble,
        "c16",
    ]
    kind: Any = random.choice(kinds)
    array = np.empty((len(columns[0]), len(columns)), object)
    for j, cells in enumerate(columns):
        array[:, j] = cells
    array = array.astype(kind)
    return np.asfortranarray(array)[::-1] if random.random() < 0.3 else array
