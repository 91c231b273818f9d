"""Does it help to see the time of day and the weekday beside an instant? Run ``python benchmarks/cyclic_time.py``.

Tables of the gallery with times (half of the rows to learn from, the other half to score, 5 splits). Into the scored
half come rows whose time is moved to an hour or to a weekday that the table does not have, or rows with a wrong number
in another column. Average precision of these rows: without anything, with the time of day and the weekday as points on
circles in columns beside the time, and with the view of hours and weekdays that the default score has. The result is
in results/cyclic_time.md.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from nptad import TableWarning
from nptad.io.read import read_table
from nptad.scoring.view_score import ViewScore
from nptad.scoring.views import VIEWS, OddTimes
from nptad.tables.encode import encode
from nptad.tables.schema import learn_schema

HERE = Path(__file__).parent.parent
SPLITS, PLANTED = 5, 10
# Columns that repeat a part of the time are left out in the second of each pair of tables.
TABLES = {
    "flights": [],
    "flights, one time": [
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "dep_time",
        "sched_dep_time",
        "arr_time",
        "sched_arr_time",
    ],
    "weather": [],
    "weather, one time": ["year", "month", "day", "hour"],
}


def main() -> None:
    """Measure, print and write the table."""
    lines = ["| table | planted | without | circles | the view |", "|---|---|---|---|---|"]
    for name, left_out in TABLES.items():
        table = read_table(HERE / "tests" / "gallery" / f"{name.split(',')[0]}.csv.gz").to_pandas()
        table = table.drop(columns=left_out)
        for planted in ("hour", "weekday", "number"):
            found = np.array([measure(table, planted, split) for split in range(SPLITS)])
            means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SPLITS)
            cells = " | ".join(
                f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in zip(means, errors, strict=True)
            )
            lines.append(f"| {name} | {planted} | {cells} |")
            print(lines[-1], flush=True)
    text = f"# Time of day and weekday beside an instant\n\n{__doc__.split(chr(10), 2)[2].strip()}\n\n"
    (HERE / "results" / "cyclic_time.md").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


def measure(table: pd.DataFrame, planted: str, seed: int) -> list[float]:
    """Average precision of planted rows without, with circles, and with the view."""
    random = np.random.default_rng(seed)
    times = table["time_hour"]
    # Hours and weekdays that the table does not have, as at an airport at night or an office at weekends.
    kept = {"hour": times.dt.hour.between(6, 22), "weekday": times.dt.day_of_week < 5}.get(planted, times.notna())
    rows = random.permutation(np.flatnonzero(kept))
    train, test = table.iloc[rows[: len(rows) // 2]], table.iloc[rows[len(rows) // 2 :]].copy()
    odd = np.zeros(len(test), dtype=bool)
    odd[random.choice(len(test), PLANTED, replace=False)] = True
    if planted == "number":
        numbers = [name for name in test.select_dtypes("number") if train[name].nunique() > 10]
        for row in np.flatnonzero(odd):
            name = random.choice(numbers)
            test[name] = test[name].astype(float)
            test.iloc[row, test.columns.get_loc(name)] = train[name].max() + train[name].std() / 2
    else:
        moved = test.loc[odd, "time_hour"]
        to = moved.dt.normalize() + pd.Timedelta(hours=3)
        sunday = moved + pd.to_timedelta(6 - moved.dt.day_of_week, "D")
        test.loc[odd, "time_hour"] = to if planted == "hour" else sunday
    precisions = []
    for change, kinds in ((unchanged, VIEWS), (with_circles, VIEWS), (unchanged, (*VIEWS, OddTimes))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            schema = learn_schema(change(train))
        score = ViewScore.fit(encode(schema, change(train)), schema.layout, 0, kinds)
        precisions.append(float(average_precision_score(odd, score.score(encode(schema, change(test))))))
    return precisions


def unchanged(table: pd.DataFrame) -> pd.DataFrame:
    """The table."""
    return table


def with_circles(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the time of day and the weekday as points on circles."""
    times = table["time_hour"]
    turns = {"day": (times.dt.hour + times.dt.minute / 60) / 24, "week": times.dt.day_of_week / 7}
    circles = {
        f"{name} {part.__name__}": part(2 * np.pi * turn) for name, turn in turns.items() for part in (np.sin, np.cos)
    }
    return table.assign(**circles)


if __name__ == "__main__":
    main()
