"""Views of a row: small, independent measures of how odd it is."""

from nptad.scoring.views.base import View
from nptad.scoring.views.cells import OutsideRange, RareGaps, UnseenValues
from nptad.scoring.views.mixture import MixtureDensity
from nptad.scoring.views.nearest import NearestInParts, NearestInQuantiles, NearestInRanges

__all__ = [
    "VIEWS",
    "MixtureDensity",
    "NearestInParts",
    "NearestInQuantiles",
    "NearestInRanges",
    "OutsideRange",
    "RareGaps",
    "UnseenValues",
    "View",
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
