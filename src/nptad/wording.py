"""Values as people read them: numbers, shares, and texts of any origin and length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

CONTROLS = (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that are invisible, break the line, turn the text around them or begin a command to the terminal."""

_SHOWN = {code: f"[U+{code:04X}]" for code in CONTROLS} | {ord("\t"): "⇥", ord("\n"): "↵"}


def visible(text: str) -> str:
    r"""The text in one line, with control characters spelt out.

    Examples
    --------
    >>> visible("two\nlines, \x1b[31mred")
    'two↵lines, [U+001B][31mred'
    """
    return text.replace("\r\n", "\n").encode(errors="replace").decode().translate(_SHOWN)


LETTERS = 60
"""Characters of a text that are shown; what is cut off is counted."""


def shorten(text: str, letters: int = LETTERS) -> str:
    r"""A text as one line of limited length: control characters made visible, the full length stated if it is cut.

    Examples
    --------
    >>> shorten("two\nlines"), shorten("x" * 10_000, 5), shorten("  ")
    ('two↵lines', 'xxxxx… (10,000 characters)', '␣␣')
    """
    cut = visible(text[:letters])
    if cut.isspace():
        cut = "\N{OPEN BOX}" * len(cut)
    return cut if len(text) <= letters else f"{cut}… ({len(text):,} characters)"


def shorten_value(value: Any) -> Any:
    """A cell of any kind, texts shortened."""
    return shorten(value) if isinstance(value, str) else value


def rounded(value: float) -> float:
    """To six significant digits: enough to draw, and short in JSON."""
    return float(f"{value:.6g}")


def number(value: float, digits: int = 4) -> str:
    """A number to some significant digits, whole numbers in full, without an exponent as far as that is readable.

    Examples
    --------
    >>> number(41.23456), number(1234567.8), number(2021.0), number(-0.00001234)
    ('41.23', '1234568', '2021', '-1.234e-05')
    """
    size = abs(value)
    if size < 1e15 and value == int(value):
        return str(int(value))
    if not 1e-4 <= size < 1e15:
        return f"{value:.{digits - 1}e}"
    digits = max(digits, len(str(int(size))))
    return np.format_float_positional(value, precision=digits, unique=False, fractional=False, trim="-")


def figure(value: float, digits: int = 3) -> str:
    """One of our own numbers, as it stands among others in a column: zeros kept, thousands apart.

    Examples
    --------
    >>> figure(22.0), figure(8.987), figure(101976.4), figure(0.0005, 2), figure(0.0)
    ('22.0', '8.99', '101,976', '0.00050', '0')
    """
    if value == 0 or not 1e-6 <= abs(value) < 1e15:
        return number(value, digits)
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def percent(share: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> percent(0.05), percent(0.00239), percent(0.6666), percent(1e-9)
    ('5 %', '0.24 %', '67 %', 'under 0.01 %')
    """
    value = 100 * share
    if 0 < value < 0.01:
        return "under 0.01 %"
    return f"{number(round(value)) if value >= 10 else number(value, 2)} %"
