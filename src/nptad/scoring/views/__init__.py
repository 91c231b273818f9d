"""Views of a row: small, independent measures of how odd it is."""

from nptad.scoring.views.base import View
from nptad.scoring.views.cells import OutsideRange, RareGaps, UnseenValues
from nptad.scoring.views.mixture import MixtureDensity
from nptad.scoring.views.nearest import NearestInParts, NearestInQuantiles, NearestInRanges
from nptad.scoring.views.times import OddTimes
from nptad.tables.layout import CellLayout

__all__ = [
    "VIEWS",
    "MixtureDensity",
    "NearestInParts",
    "NearestInQuantiles",
    "NearestInRanges",
    "OddTimes",
    "OutsideRange",
    "RareGaps",
    "UnseenValues",
    "View",
    "views_for",
]

VIEWS: tuple[type[View], ...] = (
    NearestInRanges,
    NearestInQuantiles,
    NearestInParts,
    MixtureDensity,
    UnseenValues,
    OutsideRange,
    RareGaps,
)
"""The views of the default score."""


def views_for(layout: CellLayout) -> tuple[type[View], ...]:
    """The views of the default score on tables of this layout: one more where there are times."""
    return (*VIEWS, OddTimes) if layout.times else VIEWS
