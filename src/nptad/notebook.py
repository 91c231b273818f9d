"""What a notebook shows of a result: one small piece of HTML in the style of the report, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
.nptad{font:14px/1.5 system-ui,sans-serif;max-width:60em}
.nptad h4{font-size:1.15em;font-weight:650;margin:.6em 0 .2em}
.nptad p{margin:.2em 0}
.nptad p.note{border-left:2px solid #2f6db5;padding-left:.7em}
.nptad table{border-collapse:collapse;margin:.5em 0;border:0}
.nptad th,.nptad td{text-align:left;vertical-align:top;padding:.2em 1.2em .2em 0;border:0;background:none}
.nptad thead th{font-weight:500;opacity:.7;border-bottom:1px solid currentColor}
.nptad tbody tr{border-bottom:1px solid #8885;background:none}
.nptad .num{text-align:right}
.nptad i{display:block;background:#2f6db5;opacity:.5;height:.8em;margin-top:.35em}
"""  # colours and opacities that are readable on light and on dark


def block(*parts: str) -> str:
    """Pieces of HTML as one that brings its style along."""
    return f'<div class="nptad"><style>{"".join(_STYLE.split(chr(10)))}</style>{"".join(parts)}</div>'


def heading(text: str) -> str:
    """A heading.

    >>> heading("1 < 2")
    '<h4>1 &lt; 2</h4>'
    """
    return f"<h4>{escape(text)}</h4>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph; ``kind`` "note" sets it apart."""
    return f"<p{f' class={kind}' * bool(kind)}>{escape(text)}</p>"


def table(names: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table of texts; the columns ``numbers`` are aligned on the right."""
    kinds = [" class=num" if name in numbers else "" for name in names]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(names, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{_cell(text)}</td>' for text, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Bar(str):
    """A cell of a table that is drawn as a bar; the text is its share of the width."""


def _cell(text: str) -> str:
    if isinstance(text, Bar):
        return f'<i style="width:{8 * float(text):.2f}em"></i>'
    return escape(text)
