"""Explanations as plots and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nptad import notebook
from nptad.errors import NPTADError
from nptad.explain.sentences import interval_text
from nptad.tables.identity import Identity, title
from nptad.wording import FEW_LETTERS, cell, estimate, figure, percent, plural, shorten, similar_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nptad.explain.result import CellReason, RowExplanation

_SHOWN_CELLS = 10
"""Cells drawn or listed for a row; the others are summed up."""

SHOWN_ROWS = 20
"""Rows that a notebook shows."""


def encodable(value: Any) -> str | None:
    """The value as text that UTF-8 can encode, unlike some Python strings; None stays None."""
    return None if value is None else str(value).encode(errors="replace").decode()


def _shown_cells(row: RowExplanation) -> list[tuple[str, float, str]]:
    """Column, contribution and values of the cells to show; the last line sums up the others."""
    lines = [(_name(reason), reason.contribution, _values(reason)) for reason in row.reasons[:_SHOWN_CELLS]]
    rest = row.reasons[_SHOWN_CELLS:]
    if rest:
        lines.append((plural(len(rest), "other cell"), sum(reason.contribution for reason in rest), ""))
    return lines


def _name(reason: CellReason) -> str:
    return shorten(str(reason.column), FEW_LETTERS)


def _values(reason: CellReason) -> str:
    if reason.similar is not None:
        similar = f"{similar_rows(reason.similar.n_inside, reason.similar.n_rows)} {interval_text(reason.similar)}"
        return f"{cell(reason.seen, FEW_LETTERS)}; {similar}"
    probability = "" if reason.probability is None else f" ({percent(reason.probability)} likely)"
    expected = "a rare value" if reason.expected is None else estimate(reason.expected, FEW_LETTERS)
    nearest = "" if reason.nearest is None else f", a similar row has {cell(reason.nearest, FEW_LETTERS)}"
    return f"{cell(reason.seen, FEW_LETTERS)}{probability}, expected {expected}{nearest}"


def plot_row(row: RowExplanation | None) -> Axes:
    """Draw the contributions of the cells of a row, with seen and expected values; say so if there is no row."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise NPTADError("Explanation.plot needs matplotlib; install it with pip install 'nptad[report]'.") from error
    lines = [] if row is None else _shown_cells(row)
    _, axes = pyplot.subplots(figsize=(8, 1 + 0.4 * len(lines)), layout="constrained")
    axes.barh(range(len(lines)), [contribution for _, contribution, _ in lines], color="#a9c6e3")
    # Names and cells may contain dollar signs: they are text, never formulas.
    axes.set_yticks(range(len(lines)), [name for name, _, _ in lines], parse_math=False)
    for place, (*_, values) in enumerate(lines):
        axes.text(0, place, f" {values}", va="center", size="small", parse_math=False, in_layout=False)
    axes.invert_yaxis()
    axes.set_xlabel("contribution to the score")
    axes.set_title(
        "No row to explain" if row is None else f"{title(row.called, row.key)}: score {figure(row.score)}",
        parse_math=False,
    )
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def rows_html(rows: Sequence[RowExplanation], training: Identity, more: str = "") -> str:
    """A self-contained piece of HTML, without scripts; all names and cells are escaped."""
    parts = [part for row in rows for part in _row_html(row, training)]
    return notebook.block(*parts, *([notebook.paragraph(more)] if more else []))


def _row_html(row: RowExplanation, training: Identity) -> list[str]:
    lines = _shown_cells(row)
    largest = max((contribution for _, contribution, _ in lines), default=0.0) or 1.0
    cells = [
        [name, figure(contribution), notebook.Bar(max(contribution, 0) / largest), values]
        for name, contribution, values in lines
    ]
    parts = [
        notebook.heading(f"{title(row.called, row.key)}: score {figure(row.score)}"),
        notebook.table(["column", "contribution", "", "seen and expected"], cells, numbers=["contribution"]),
    ]
    if row.by_view:
        views = ", ".join(f"{name} {figure(part)}" for name, part in row.by_view.items())
        parts.append(notebook.paragraph(f"Contribution of each view: {views}."))
    if row.nearest:
        nearest, distance = cell(training.label(row.nearest.row)), figure(row.nearest.distance, 2)
        said = f"The nearest training row is {nearest}, at {distance} times the usual distance."
        parts.append(notebook.paragraph(said))
    if row.attended_rows:
        attended = ", ".join(f"{cell(training.label(a.row))} ({percent(a.weight)})" for a in row.attended_rows)
        said = (
            f"Attended training rows: {attended}. All training rows together have {percent(row.training_share)} of the "
            "attention; the row itself has the rest."
        )
        parts.append(notebook.paragraph(said))
    return parts
