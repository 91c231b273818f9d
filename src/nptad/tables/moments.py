"""Times and durations as text, the way people read them and the way cells of text hold them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

LAST_SECOND = 2.0**62
"""Seconds from 1970 beyond which there is no calendar; a network may expect any number."""


def time_text(seconds: float, zone: str = "") -> str:
    """Seconds since 1970 as ISO text, with an offset if there is a time zone.

    >>> time_text(1.7e9), time_text(86400.0), time_text(1.7e9, "Asia/Tokyo")
    ('2023-11-14T22:13:20', '1970-01-02', '2023-11-15T07:13:20+09:00')
    """
    micros, shift = round(seconds * 1e6), timedelta()
    if zone:
        with suppress(OverflowError, ValueError, OSError, ZoneInfoNotFoundError):
            moment = datetime.fromtimestamp(micros // 10**6, UTC)
            offset = zone.removeprefix("UTC")
            is_offset = not offset or offset[0] in "+-"
            shift = moment.astimezone(zone_of(offset) if is_offset else ZoneInfo(zone)).utcoffset() or shift
    whole, rest = divmod(micros + shift // timedelta(microseconds=1), 10**6)
    # NumPy's calendar knows years beyond 9999, which an anomaly may reach.
    text = str(np.datetime64(whole, "s")) + _fraction(rest)
    if not zone:
        return text.removesuffix("T00:00:00")
    minutes = shift // timedelta(minutes=1)
    return (
        f"{text}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
        if minutes
        else f"{text}Z"
    )


def duration_text(seconds: float) -> str:
    """Seconds as days and a clock.

    >>> duration_text(-90061.5)
    '-1 d 01:01:01.500000'
    """
    micros = round(seconds * 1e6)
    whole, rest = divmod(abs(micros), 10**6)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    sign, day = "-" if micros < 0 else "", f"{days} d " if days else ""
    return f"{sign}{day}{hour:02d}:{minute:02d}:{second:02d}{_fraction(rest)}"


def _fraction(micros: int) -> str:
    return f".{micros:06d}" if micros else ""


def zone_of(text: str | None) -> timezone:
    """The time zone that an offset such as +01:00 stands for; otherwise UTC."""
    if not text or text[0] not in "+-":
        return UTC
    shift = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]) if len(text) > 3 else 0)
    return timezone(-shift if text[0] == "-" else shift)
