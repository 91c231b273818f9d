"""Values as people read them; every value that is shown to a person is formatted here.

The rule for numbers:

* A value of the table has up to 6 significant digits (:func:`cell`), a value that the model estimated up to 4
  (:func:`estimate`). Whole numbers and the part before the decimal point are always written in full, without commas:
  the number may be a year or an ID. There is an exponent only below 0.0001 and from 1e15 on.
* A number of ours has 3 significant digits, zeros kept and thousands separated (:func:`figure`), a share is in percent
  with 2 (:func:`percent`), and a count is exact (:func:`plural`).
"""

from __future__ import annotations

import math
from datetime import date, datetime, time
from typing import Any

CONTROLS = (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that are invisible, break the line, turn the text around them or begin a command to the terminal."""

_SHOWN = {code: f"[U+{code:04X}]" for code in CONTROLS} | {ord("\t"): "⇥", ord("\n"): "↵"}

LETTERS = 60  # characters shown of a text
FEW_LETTERS = 30  # the same where there is little room: in a line of reasons, a plot, a list of samples
DIGITS = 6  # significant digits of a value of the table
ESTIMATE_DIGITS = 4  # significant digits of a value that the model estimated


def cell(value: Any, letters: int = LETTERS, digits: int = DIGITS) -> str:
    r"""A cell of a table.

    >>> cell(15686.0), cell(-0.0), cell(0.1234567), cell(True), cell("two\nlines"), cell(None), cell("")
    ('15686', '0', '0.123457', 'true', 'two↵lines', 'missing', 'empty text')
    """
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if value is None or value != value:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number(value, digits)
    if isinstance(value, datetime | date | time):
        return value.isoformat().removesuffix("T00:00:00")
    return shorten(str(value), letters) or "empty text"


def estimate(value: Any, letters: int = LETTERS) -> str:
    """A value that the model estimated, such as the expected value of a cell.

    >>> estimate(0.1234567), estimate(15686.4), estimate("red")
    ('0.1235', '15686', 'red')
    """
    return cell(value, letters, ESTIMATE_DIGITS)


def visible(text: str) -> str:
    r"""The text in one line, with control characters spelt out.

    >>> visible("two\nlines, \x1b[31mred")
    'two↵lines, [U+001B][31mred'
    """
    return text.replace("\r\n", "\n").encode(errors="replace").decode().translate(_SHOWN)


def shorten(text: str, letters: int = LETTERS) -> str:
    r"""A text as one line of limited length: control characters are visible, and a text that is cut states its length.

    >>> shorten("two\nlines"), shorten("x" * 10_000, 5), shorten("  ")
    ('two↵lines', 'xxxxx… (10,000 characters)', '␣␣')
    """
    cut = visible(text[:letters])
    if cut.isspace():
        cut = "\N{OPEN BOX}" * len(cut)
    return cut if len(text) <= letters else f"{cut}… ({len(text):,} characters)"


def shorten_value(value: Any) -> Any:
    """A cell as plain data: a text shortened, any other value unchanged."""
    return shorten(value) if isinstance(value, str) else value


def rounded(value: float) -> float:
    """To six significant digits: enough to draw, and short in JSON."""
    return float(f"{value:.6g}")


def number(value: float, digits: int = DIGITS) -> str:
    """A number of the table.

    >>> number(41.23456, 4), number(1234567.8), number(2021.0), number(-0.00001234), number(2**63)
    ('41.23', '1234568', '2021', '-1.234e-05', '9223372036854775808')
    """
    size = abs(value)
    if isinstance(value, int) or (size < 1e15 and value == int(value)):
        return str(int(value))
    if not 1e-4 <= size < 1e15:
        return f"{value:.{digits}g}"
    digits = max(digits, len(str(int(size))))
    from numpy import format_float_positional  # which `nptad --help` does not need

    return format_float_positional(value, precision=digits, unique=False, fractional=False, trim="-")


def figure(value: float, digits: int = 3) -> str:
    """A number of ours, such as a score, as it stands among others in a column.

    >>> figure(22.0), figure(8.987), figure(101976.4), figure(0.0005, 2), figure(-0.0)
    ('22.0', '8.99', '101,976', '0.00050', '0')
    """
    if value == 0 or not 1e-6 <= abs(value) < 1e15:
        return number(value, digits)
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def p_value(p: float) -> str:
    """A p-value. Far below what the training rows can tell, it is only known to be small.

    >>> p_value(0.0123), p_value(3e-220)
    ('0.012', 'under 1e-9')
    """
    return "under 1e-9" if p < 1e-9 else figure(p, 2)


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.05), percent(0.00239), percent(0.6666), percent(1e-9)
    ('5%', '0.24%', '67%', 'under 0.01%')
    """
    value = 100 * share
    if 0 < value < 0.01:
        return "under 0.01%"
    return f"{number(round(value) if value >= 10 else value, 2)}%"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count of things.

    >>> plural(1, "row"), plural(12_345, "row"), plural(2, "anomaly", "anomalies")
    ('1 row', '12,345 rows', '2 anomalies')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def similar_rows(n_inside: int, n_rows: int) -> str:
    """How many of the similar rows have something, up to the verb.

    >>> similar_rows(10, 10), similar_rows(8, 10), similar_rows(1, 1)
    ('similar rows have', '8 of 10 similar rows have', 'a similar row has')
    """
    if n_rows == 1:
        return "a similar row has"
    which = "" if n_inside == n_rows else f"{n_inside} of {n_rows} "
    return f"{which}similar rows {'has' if n_inside == 1 else 'have'}"


def duration(seconds: float) -> str:
    """How long something took.

    >>> duration(0.4), duration(45), duration(600), duration(9000)
    ('under a second', '45 s', '10 min', '2.5 h')
    """
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def moment(when: datetime) -> str:
    """A date and time to the minute, with its time zone if it has one.

    >>> moment(datetime(2025, 3, 6, 14, 5)), moment(datetime.fromisoformat("2025-03-06T14:05:09+00:00"))
    ('6 March 2025, 14:05', '6 March 2025, 14:05 UTC')
    """
    return f"{when.day} {when:%B %Y, %H:%M %Z}".rstrip()
