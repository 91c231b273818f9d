"""Explanations as lines, plots and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from nptad.errors import NPTADError
from nptad.tables.schema import Category

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nptad.explain.result import RowExplanation

_SHOWN_CELLS = 10
"""Cells drawn or listed for a row; the others are summed up."""


SHOWN_ROWS = 20
"""Rows that a notebook shows."""


_SHOWN_LETTERS = 30
"""Letters of a name or a cell in plots and pages."""


def encodable(value: Category | int | None) -> str | None:
    """The value as text that UTF-8 can hold, which is not true of every Python string; None stays None."""
    return None if value is None else str(value).encode(errors="replace").decode()


def _short(value: Category | int | None) -> str:
    """A name or a cell for people: one line, not too long, numbers rounded."""
    if value is None:
        return "(none)"
    text = f"{value:.6g}" if isinstance(value, float) else str(encodable(value))
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 1] + "…"


def _shown_cells(row: RowExplanation) -> list[tuple[str, float, str]]:
    """Column, contribution and values of the cells to show; the last line sums up what is left."""
    lines = [
        (
            _short(reason.column),
            reason.contribution,
            _short(reason.seen)
            + ("" if reason.probability is None else f" (probability {reason.probability:.1%})")
            + f", expected {_short(reason.expected)}"
            + ("" if reason.nearest is None else f", {_short(reason.nearest)} in the row nearest otherwise"),
        )
        for reason in row.reasons[:_SHOWN_CELLS]
    ]
    rest = row.reasons[_SHOWN_CELLS:]
    if rest:
        lines.append((f"{len(rest):,} other cells", sum(reason.contribution for reason in rest), ""))
    return lines


def plot_row(row: RowExplanation) -> Axes:
    """Draw the contributions of the cells of a row, with seen and expected values."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise NPTADError("Explanation.plot needs matplotlib; install it with pip install 'nptad[report]'.") from error
    lines = _shown_cells(row)
    _, axes = pyplot.subplots(figsize=(8, 1 + 0.4 * len(lines)), layout="constrained")
    axes.barh(range(len(lines)), [contribution for _, contribution, _ in lines], color="#a9c6e3")
    # Names and cells may hold dollar signs: they are text, never formulas.
    axes.set_yticks(range(len(lines)), [name for name, _, _ in lines], parse_math=False)
    for place, (*_, values) in enumerate(lines):
        axes.text(0, place, f" {values}", va="center", size="small", parse_math=False, in_layout=False)
    axes.invert_yaxis()
    axes.set_xlabel("contribution to the score")
    axes.set_title(f"Row {row.row}: score {row.score:.4g}")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def rows_html(rows: Sequence[RowExplanation]) -> str:
    """A self-contained piece of HTML, without scripts; all names and cells are escaped."""
    return f'<div style="font-family:sans-serif">{"".join(_row_html(row) for row in rows)}</div>'


def _row_html(row: RowExplanation) -> str:
    lines = _shown_cells(row)
    largest = max((contribution for _, contribution, _ in lines), default=0.0) or 1.0
    cells = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td><td>{contribution:.4g}</td>'
        f'<td style="text-align:left"><div style="background:#a9c6e3;height:.8em;'
        f'width:{max(contribution, 0) / largest * 8:.2f}em"></div></td>'
        f'<td style="text-align:left">{escape(values)}</td></tr>'
        for name, contribution, values in lines
    )
    rows = ", ".join(f"{training.row} ({training.weight:.1%})" for training in row.attended_rows)
    leaned = (
        f"<p>Leaned on training rows {rows}. All training rows together: {row.training_share:.1%}; the rest of the "
        "attention between rows went to the row itself.</p>"
        if rows
        else ""
    )
    nearest = (
        f"<p>The nearest training row is {row.nearest.row}, {row.nearest.distance:,.1f} times as far as usual.</p>"
        if row.nearest
        else ""
    )
    return (
        f'<p><b>Row {row.row}</b>: score {row.score:.4g}</p><table><tr><th style="text-align:left">column</th>'
        f'<th>contribution</th><th></th><th style="text-align:left">seen and expected</th></tr>{cells}</table>'
        f"{nearest}{leaned}"
    )
