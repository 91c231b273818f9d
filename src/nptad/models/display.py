"""A fitted model as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nptad import notebook
from nptad.tables.encode import readable
from nptad.tables.schema import Column
from nptad.wording import FEW_LETTERS, cell, figure, plural, shorten

if TYPE_CHECKING:
    from nptad.models.fitted import FittedModel

_SHOWN_COLUMNS = 30
_SHOWN_CATEGORIES = 3


def fitted_html(model: FittedModel) -> str:
    """What was learnt about the table, as a self-contained piece of HTML; all names and cells are escaped."""
    schema = model.schema
    rows = [[shorten(str(c.name), FEW_LETTERS), _use(c), _values(c)] for c in schema.columns[:_SHOWN_COLUMNS]]
    left = len(schema.columns) - len(rows)
    return notebook.block(
        notebook.heading(f"NPTAD, fitted on {plural(schema.n_rows, 'row')}"),
        notebook.paragraph(f"Rows with a score above {figure(-model.offset)} are anomalies."),
        notebook.table(["column", "used as", "values in training"], rows),
        *([notebook.paragraph(f"... and {plural(left, 'more column')}")] if left else []),
    )


def _use(column: Column) -> str:
    if column.kind == "ignored":
        return f"ignored ({column.role})" if column.role not in ("", "chosen") else "ignored"
    return column.content if column.kind == "numeric" else "category"


def _values(column: Column) -> str:
    if column.kind == "numeric" and column.low is not None and column.high is not None:
        return " to ".join(cell(readable(column, end)) for end in (column.low, column.high))
    named = [cell(readable(column, category), FEW_LETTERS) for category in column.categories[:_SHOWN_CATEGORIES]]
    more = column.cardinality - len(named)
    return ", ".join([*named, *([f"{more:,} more"] if more > 0 else [])])
