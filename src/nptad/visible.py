"""Text of any origin, such as a cell of a table, so that a terminal or a page shows it and does not obey it."""

from __future__ import annotations

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
