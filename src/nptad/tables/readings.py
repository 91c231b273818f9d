"""Text cells as numbers, truth values or times: the ways in which people write them.

Files and data frames hold such cells alike. A number may have a currency or a percent sign, parentheses or a minus
behind it instead of a minus before it, separators of thousands, a decimal comma, and one of the suffixes k, K, M, B and
bn: "$1,200" is 1200, "(350)" is -350, "1.5k" is 1500, "12%" is 12. A padded number such as 007 is an identifier: a
column that has one is text. Dates are ISO dates, 31.01.2024, 1/31/2024, 31 Jan 2024, January 31, 2024 or Jan 2024, with
or without a weekday, a time and its zone.

A column is read in one way, its convention: whether commas are decimal, whether the day or the month comes first, which
currency its amounts have, which words mean yes and no. Cells that are written in another way cannot be read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import numpy as np

from nptad.tables.cells import MISSING
from nptad.tables.frames import Content
from nptad.tables.layout import UNREADABLE
from nptad.tables.moments import zone_of

MOSTLY = 0.9
"""A text column holds numbers or times if all of its cells can be read, or at least this share of them ..."""

MOSTLY_VALUES = 20
"""... with at least this many different values."""

_SAMPLE = 100  # different texts that are tried before all of them

_CURRENCY = r"US\$|[$€£¥₹₩₽]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN)\b|%"
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[+\-\u2212])?\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[+\-\u2212])?(?P<opening>\()?"
    r"(?P<digits>\d[\d.,'\u2019 \u00a0\u202f]*|\.\d+)(?P<exponent>[eE][+-]?\d+)?"
    rf"\s?(?P<times>k|K|M|B|bn)?(?P<minus>[-\u2212])?(?P<close>\))?\s*(?P<after>{_CURRENCY})?(?P<closing>\))?"
)
_GROUPS = {
    "point": r"\d{1,3}(?:[,'\u2019 \u00a0\u202f]\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}",  # 1,23,456 in India
    "comma": r"\d{1,3}(?:[.'\u2019 \u00a0\u202f]\d{3})+",
}
_DIGITS = {
    "point": re.compile(rf"(?:{_GROUPS['point']}|\d+)(?:\.\d*)?|\.\d+"),
    "comma": re.compile(rf"(?:{_GROUPS['comma']}|\d+)(?:,\d+)?"),
}
_TIMES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "bn": 1e9}
_PADDED = re.compile(r"0\d+")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)
_TIME = re.compile(  # 01.02.24 is a date, 1.2.24 may be a version
    r"(?:(?i:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?i:day)?,? )?"
    r"(?:(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})"
    r"|(?P<a>\d{1,2})(?P<mark>[-/.])(?P<b>\d{1,2})(?P=mark)(?P<c>\d{4}|(?:(?<=/)|(?<=\d\d\.\d\d\.))\d{2})"
    rf"|(?P<d2>\d{{1,2}})[ -](?P<name>{_MONTH})\.?,?[ -](?P<y2>\d{{4}}|\d{{2}})"
    rf"|(?P<name3>{_MONTH})\.?[ -](?:(?P<d3>\d{{1,2}}),?[ -])?(?P<y3>\d{{4}}))"
    r"(?:(?:T|,? +)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
    r"\s?(?P<half>[aApP]\.?[mM]\.?)?\s?(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?\s?([aApP]\.?[mM]\.?)?")

_TRUTH = (
    *("false/true", "no/yes", "n/y", "f/t", "off/on", "non/oui", "faux/vrai", "nein/ja", "falsch/wahr", "no/sí"),
    *("no/si", "no/sì", "falso/verdadero", "falso/vero", "não/sim", "nao/sim", "falso/verdadeiro", "nej/ja", "nee/ja"),
    *("nie/tak", "нет/да", "否/是"),
)
"""Words for no and yes in several languages."""

_ZERO_OR_ONE = ("0", "1", "0.0", "1.0")


class Reading(NamedTuple):
    """A way to read the text cells of a column."""

    content: Content
    convention: str
    """Of numbers "point" or "comma", with the currency behind it; of times "day" or "month", whichever comes first,
    with "zone" behind it if a cell has one; of truth values the words for no and yes."""

    @property
    def is_sound(self) -> bool:
        """False if the convention is none of those that there are."""
        first = self.convention.split(" ")[0]
        known = {"number": ("point", "comma"), "time": ("day", "month"), "boolean": _TRUTH}.get(self.content, ("",))
        return self.convention == "" or first in known

    def value(self, text: str) -> float | bool | None:
        """The value of a cell; NaN (None among truth values) if it is missing, :data:`UNREADABLE` if it is unreadable.

        >>> money = Reading("number", "point $")
        >>> [money.value(cell) for cell in ("$1,200", "(350)", "1.5k", "-", "12 €", "many")]
        [1200.0, -350.0, 1500.0, nan, inf, inf]
        """
        text = text.strip()
        if self.content == "boolean":
            words = self.convention.split("/")
            if text in MISSING:
                return None
            if text in _ZERO_OR_ONE:  # as numbers, they stand for truth values too
                return text[0] == "1"
            return bool(words.index(text.casefold())) if text.casefold() in words else UNREADABLE
        if text in MISSING or text in ("-", "."):
            return math.nan
        if self.content == "number":
            found, (decimal, *unit) = _NUMBER.fullmatch(text), self.convention.split(" ")
            return UNREADABLE if found is None else _number(found, decimal, unit[0] if unit else "")
        return _clock(text) if self.content == "duration" else _time(text, self.convention.split(" ")[0])

    def values(self, cells: np.ndarray) -> np.ndarray:
        """The values of cells of text (None = missing): floats, or objects if they are truth values."""
        known = {text: self.value(text) for text in set(cells.tolist()) if text is not None}
        if self.content == "boolean":
            return np.array([None if text is None else known[text] for text in cells], dtype=object)
        return np.array([math.nan if text is None else known[text] for text in cells], dtype=np.float64)


def reading_of(content: Content, cells: Iterable[str | None]) -> Reading:
    """The convention of most cells of a column that holds this content.

    >>> reading_of("number", ["1,5", None, "oops"]), reading_of("boolean", ["oui", "?"])
    (Reading(content='number', convention='comma'), Reading(content='boolean', convention='non/oui'))
    """
    texts = [text.strip() for text in cells if text is not None]
    if content == "number":
        return _number_reading(texts)
    if content == "time":
        return _time_reading(texts)
    if content == "duration":
        return Reading("duration", "")
    words = {text.casefold() for text in texts}
    return Reading("boolean", max(_TRUTH, key=lambda pair: len(words & set(pair.split("/")))))


def find_reading(cells: np.ndarray, must_read: bool = False) -> Reading | None:
    """The way in which a column of text is to be read; None if it is text.

    With ``must_read``, the best way to read its numbers or times, however few there are.

    >>> find_reading(np.array(["1.200,50 €", "3,5", None]))
    Reading(content='number', convention='comma €')
    >>> find_reading(np.array(["yes", "No", "maybe"])) is None
    True
    """
    counts = Counter(text.strip() for text in cells if text is not None)
    present = {text: n for text, n in counts.items() if text not in MISSING and text not in ("-", ".")}
    if not present:
        return None
    words = {text.casefold() for text in present}
    if len(words) == 2 and not must_read:
        for pair in _TRUTH:
            if words == set(pair.split("/")):
                return Reading("boolean", pair)
    if any(_PADDED.fullmatch(text) for text in present) and not must_read:
        return None
    sample = list(present)[:_SAMPLE]
    best, most = None, 0
    contents: tuple[Content, ...] = ("number", "time", "duration")
    for content in contents:
        trial = reading_of(content, sample)
        if sum(trial.value(text) != UNREADABLE for text in sample) < len(sample) / 2 and not must_read:
            continue
        reading = reading_of(content, present)
        readable = [text for text in present if reading.value(text) != UNREADABLE]
        n_readable = sum(present[text] for text in readable)
        enough = n_readable >= MOSTLY * sum(present.values()) and len(readable) >= MOSTLY_VALUES
        if (len(readable) == len(present) or enough or must_read) and n_readable > most:
            best, most = reading, n_readable
    return best


def _number_reading(texts: Iterable[str]) -> Reading:
    """The convention of most of the numbers."""
    votes: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for text in texts:
        found = _NUMBER.fullmatch(text)
        if found is None:
            continue
        digits = found["digits"].strip()
        votes[_decimal(digits)] += 1
        units[found["before"] or found["after"] or ""] += 1
    units.pop("", None)
    unit = units.most_common(1)[0][0] if units else ""
    return Reading("number", f"{'comma' if votes['comma'] > votes['point'] else 'point'} {unit}".strip())


def _decimal(digits: str) -> str:
    """Which of comma and point is decimal in a number; empty if it does not show."""
    fits = [decimal for decimal, pattern in _DIGITS.items() if pattern.fullmatch(digits)]
    return fits[0] if len(fits) == 1 else ""


def _number(found: re.Match[str], decimal: str, unit: str) -> float:
    negative = [found["sign"], found["inner"], found["minus"]]
    other = (found["before"] or found["after"] or unit) != unit or bool(found["before"] and found["after"])
    opened = bool(found["open"]) + bool(found["opening"])
    closed = bool(found["close"]) + bool(found["closing"])
    one_sign = sum(sign is not None for sign in negative) + closed <= 1
    digits = found["digits"].strip()
    if other or not one_sign or opened != closed or not _DIGITS[decimal].fullmatch(digits):
        return UNREADABLE
    plain = re.sub(r"['\u2019 \u00a0\u202f]", "", digits)
    plain = plain.replace(",", "") if decimal == "point" else plain.replace(".", "").replace(",", ".")
    minus = closed == 1 or any(sign in ("-", "\u2212") for sign in negative)
    return (-1 if minus else 1) * float(plain + (found["exponent"] or "")) * _TIMES.get(found["times"], 1.0)


def _time_reading(texts: Iterable[str]) -> Reading:
    """Whether the day comes first in most of the dates; where nothing shows it, only before points and hyphens."""
    votes: Counter[str] = Counter()
    zone = ""
    for text in texts:
        found = _TIME.fullmatch(text)
        if found is None:
            continue
        if found["zone"]:
            zone = " zone"
        if found["mark"]:
            first, second = int(found["a"]), int(found["b"])
            if (first > 12) != (second > 12):
                votes["day" if first > 12 else "month"] += 1
            votes[found["mark"]] += 1
    if votes["day"] == votes["month"]:
        return Reading("time", ("month" if votes["/"] else "day") + zone)
    return Reading("time", ("day" if votes["day"] > votes["month"] else "month") + zone)


def _time(text: str, first: str) -> float:
    """Seconds since 1970; a time without a zone is in UTC."""
    found = _TIME.fullmatch(text)
    if found is None:
        return UNREADABLE
    if found["mark"]:
        year, month, day = int(found["c"]), int(found["a"]), int(found["b"])
        month, day = (day, month) if first == "day" else (month, day)
    else:
        name = found["name"] or found["name3"]
        month = int(found["m"]) if found["m"] else 1 + _MONTHS.index(name[:3].lower())
        year = int(found["y"] or found["y2"] or found["y3"])
        day = int(found["d"] or found["d2"] or found["d3"] or 1)
    if not (found["y"] or found["y3"]) and year < 100:
        year += 1900 if year > 68 else 2000
    hour = _hour(int(found["hour"] or 0), found["half"])
    micros = int((found["part"] or "").ljust(6, "0")[:6])
    try:
        moment = datetime(year, month, day, hour, int(found["minute"] or 0), int(found["second"] or 0), micros)
        return moment.replace(tzinfo=zone_of(found["zone"])).timestamp()
    except (ValueError, OverflowError):
        return UNREADABLE


def _hour(hour: int, half: str | None) -> int:
    """The hour of the day; 24, which is none, for 13 pm."""
    if not half:
        return hour
    return hour % 12 + 12 * (half[0] in "pP") if 1 <= hour <= 12 else 24


def _clock(text: str) -> float:
    """Seconds since midnight."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return UNREADABLE
    hour, minute, second = _hour(int(found[1]), found[5]), int(found[2]), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return UNREADABLE
    return hour * 3600 + minute * 60 + second + int((found[4] or "").ljust(6, "0")) / 1e6
