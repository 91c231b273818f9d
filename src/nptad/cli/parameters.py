"""Parameters that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

TableFile = Annotated[str, Parameter(allow_leading_hyphen=True)]  # `-` is one
Jobs = Annotated[int, Parameter(validator=Number(gte=1))]
Seed = Annotated[int, Parameter(validator=Number(gte=0), help="The same seed gives the same result.")]
SavedModel = Annotated[Path, Parameter(help="Directory that `nptad fit` wrote.")]
Ignore = Annotated[str, Parameter(help="Columns to ignore, such as IDs, separated by commas; results include them.")]
As = Annotated[
    tuple[str, ...],
    Parameter(
        name="--as",
        consume_multiple=False,
        negative="",
        help="How to use a column: `price=number` (also for times), `code=category` or `id=ignore`; may be repeated.",
    ),
]
Strict = Annotated[bool, Parameter(help="Refuse a table that lacks a column or has one that the model does not know.")]
Label = Annotated[
    str | None,
    Parameter(help="Column that marks known anomalies with 1, or `column=value`. It is only compared with the result."),
]
Network = Annotated[
    bool, Parameter(help="Train the Non-Parametric Transformer and score by it, as in the paper; takes minutes.")
]
TimeLimit = Annotated[float | None, Parameter(help="Seconds that fitting a network may take.")]
Device = Annotated[str, Parameter(help="Device to compute on, such as `cpu` or `cuda`.")]
Sheet = Annotated[str | None, Parameter(help="Sheet of an Excel workbook; by default the first that is not hidden.")]
Quiet = Annotated[bool, Parameter(help="Do not print progress bars and notes.")]
