"""Times at an hour of the day or on a weekday that hardly any row has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nptad.scoring.arrays import LARGEST, require_array
from nptad.scoring.views.base import View
from nptad.scoring.views.cells import CellView
from nptad.tables.layout import CellLayout

DAY = 86400.0
_HOURS, _WEEKDAYS = 24, 7
FEWEST_PERIODS = 3  # days that a column covers before hours count, and weeks before weekdays count
_RARE = 0.2  # an hour or a weekday is rare below this part of an even share
_FIRST_WEEKDAY = 3  # 1 January 1970 was a Thursday


@dataclass(frozen=True)
class OddTimes(CellView):
    """Times of day and weekdays that are rare in their column.

    A time adds minus the log of how rare its hour is, and of how rare its weekday is, compared with an even share of
    all rows. What is not rare adds nothing. Hours are counted together with half of their neighbours, so that the edge
    of the working day is not sharp. Training that covers a few days says nothing about hours, and a few weeks are
    needed for weekdays. Times with a zone are counted in UTC.
    """

    columns: np.ndarray
    """The columns of times, (T,)."""
    origins: np.ndarray
    """Seconds since 1970 of an encoded 0 in each of them, (T,)."""
    units: np.ndarray
    """Seconds of an encoded 1, (T,)."""
    hours: np.ndarray
    """What each hour of the day adds, (T, 24)."""
    weekdays: np.ndarray
    """What each weekday adds, from Monday, (T, 7)."""
    name: ClassVar[str] = "hour and weekday"

    @classmethod
    def fit(cls, x: np.ndarray, layout: CellLayout, left_out: np.ndarray) -> tuple[View, np.ndarray]:
        """Count the hours and weekdays of each column of times; a row is compared with the others."""
        columns, origins, units = (np.array(part) for part in zip(*layout.times, strict=True))
        view = cls(columns, origins, units, np.zeros((len(columns), _HOURS)), np.zeros((len(columns), _WEEKDAYS)))
        scores = np.zeros(len(x))
        for place in range(len(columns)):
            known = np.isfinite(x[:, columns[place]])
            seconds = since_1970(x[known, columns[place]], origins[place], units[place])
            n_days = np.ptp(seconds) / DAY if len(seconds) else 0.0
            for costs, which, covered, own in (
                (view.hours[place], hour_of_day(seconds), n_days, 0.5),
                (view.weekdays[place], weekday(seconds), n_days / _WEEKDAYS, 1.0),
            ):
                if covered >= FEWEST_PERIODS:
                    counts = np.bincount(which, minlength=len(costs)).astype(np.float64)
                    if len(costs) == _HOURS:
                        counts = counts / 2 + (np.roll(counts, 1) + np.roll(counts, -1)) / 4
                    costs[:] = _costs(counts, len(seconds))
                    scores[known] += _costs((counts - own).clip(min=0), len(seconds) - 1)[which]
        return view, scores

    def require_sound(self, layout: CellLayout) -> None:
        """See :class:`View`."""
        times = np.array(layout.times, dtype=np.float64).reshape(-1, 3)
        require_array("columns", self.columns, "i8", (len(times),), least=0, most=layout.n_numeric - 1)
        require_array("origins", self.origins, "f8", (len(times),))
        require_array("units", self.units, "f8", (len(times),), least=1 / LARGEST)
        if not np.array_equal(np.stack([self.columns, self.origins, self.units], axis=1), times):
            raise ValueError("times are those of other columns")
        require_array("hours", self.hours, "f8", (len(times), _HOURS), least=0)
        require_array("weekdays", self.weekdays, "f8", (len(times), _WEEKDAYS), least=0)

    def explain(self, x: np.ndarray) -> np.ndarray:
        """What each time adds."""
        shares = np.zeros(x.shape)
        for place, column in enumerate(self.columns):
            known = np.isfinite(x[:, column])
            seconds = since_1970(x[known, column], self.origins[place], self.units[place])
            shares[known, column] = self.hours[place, hour_of_day(seconds)] + self.weekdays[place, weekday(seconds)]
        return shares


def since_1970(encoded: np.ndarray, origin: float, unit: float) -> np.ndarray:
    """The seconds of encoded times, to the nearest minute: they have the digits of a float32."""
    return np.rint((encoded.astype(np.float64) * unit + origin) / 60) * 60


def hour_of_day(seconds: np.ndarray) -> np.ndarray:
    """0 to 23."""
    return (seconds % DAY // 3600).astype(np.int64)


def weekday(seconds: np.ndarray) -> np.ndarray:
    """0 to 6, from Monday."""
    return ((seconds // DAY + _FIRST_WEEKDAY) % _WEEKDAYS).astype(np.int64)


def _costs(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Minus the log of how much rarer than rare each of these counts is; 0 for what is not rare."""
    share = (counts + 0.5) / (n_rows + len(counts) / 2)
    return np.maximum(0.0, np.log(_RARE / (share * len(counts))))
