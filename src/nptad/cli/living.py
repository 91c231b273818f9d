"""Commands that change a saved model without fitting it again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from nptad.cli.arguments import row_numbers
from nptad.cli.parameters import Ignore, Quiet, SavedModel, Sheet, TableFile
from nptad.cli.reading import read_data
from nptad.errors import InputError
from nptad.wording import plural

if TYPE_CHECKING:
    from nptad.detector import NPTAD


def update(
    model: SavedModel,
    data: TableFile,
    /,
    *,
    most_rows: Annotated[int | None, Parameter(validator=Number(gte=2))] = None,
    sheet: Sheet = None,
    ignore: Ignore = "",
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Add normal rows to those that a saved model compares with, without learning the columns again.

    It takes as long as a fit on all these rows. `nptad feedback MODEL --undo ID` takes it back.

    Parameters
    ----------
    data : str
        Table of normal rows with the columns of the training table: a file or any other source that `nptad detect`
        takes; `-` for standard input.
    most_rows : int
        Rows that the model may know; the oldest leave. By default 20,000, or as many as it knows already.
    json : bool
        Print the record of the change as JSON.
    """
    from nptad.tables.selection import select_columns

    features = select_columns(*read_data(data, ignore, sheet, model)).features
    detector = _load(model).set_params(verbose=not quiet)
    detector.update(features, most_rows=most_rows)
    _save(detector, model)
    if json or not quiet:
        _tell(detector, detector.feedback_[-1:], json)


def feedback(
    model: SavedModel,
    data: TableFile | None = None,
    /,
    *,
    fine: str = "",
    anomaly: str = "",
    reason: str = "",
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    undo: int | None = None,
    sheet: Sheet = None,
    ignore: Ignore = "",
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Tell a saved model that rows are fine, or anomalies: rows like them stop alarming, or alarm more.

    Parameters
    ----------
    data : str
        The table that was scored, or the scores with all its columns (`nptad score --all-columns`): a file or any other
        source that `nptad detect` takes.
    fine : str
        Rows that are fine, by their numbers, counted from 1, such as `3,17` or `5-9`.
    anomaly : str
        Rows that are anomalies.
    reason : str
        Why, for the list.
    list_ : bool
        Show all updates and judgements with their numbers.
    undo : int
        Take back the update or judgement with this number.
    json : bool
        Print as JSON.
    """
    if sum((list_, undo is not None, bool(fine or anomaly))) != 1 or (data is None) is bool(fine or anomaly):
        raise InputError(
            "Give a table with --fine or --anomaly and row numbers, or no table and one of --list and --undo."
        )
    if list_:
        detector = _load(model)
        _tell(detector, detector.feedback_, json)
        return
    if undo is not None:
        detector = _load(model)
        detector.undo(undo)
        _save(detector, model)
        if json or not quiet:
            _tell(detector, (), json, f"Record {undo} is taken back.")
        return
    from nptad.tables.selection import select_columns

    assert data is not None
    features = select_columns(*read_data(data, ignore, sheet, model)).features
    chosen = {
        option: row_numbers(text, features.num_rows, f"--{option}")
        for option, text in (("fine", fine), ("anomaly", anomaly))
        if text
    }
    both = sorted(set(chosen.get("fine", ())) & set(chosen.get("anomaly", ())))
    if both:
        raise InputError(f"Row {both[0] + 1} cannot be both fine and an anomaly.")
    detector = _load(model)
    for option, rows in chosen.items():
        judge = detector.accept if option == "fine" else detector.reject
        judge(features.take(rows), reason=reason)
    _save(detector, model)
    if json or not quiet:
        _tell(detector, detector.feedback_[-len(chosen) :], json)


def _load(model: Path) -> NPTAD:
    from nptad.detector import load

    return load(model, "cpu")


def _save(detector: NPTAD, model: Path) -> None:
    """Replace a saved model by its changed version, unless another program has changed it meanwhile."""
    from nptad.models.folder import fingerprint

    if fingerprint(model) != detector.model_.fingerprint:
        raise InputError(f"{model} was changed by another program meanwhile; run the command again.")
    detector.save(model)


def _tell(detector: NPTAD, records: Any, json: bool, text: str = "") -> None:
    """Print records and how the model stands, for a program or for a person."""
    from nptad.cli.terminal import print_json, print_records

    known, state = len(detector.model_.compared_rows[0]), detector.upkeep_
    if json:
        found = {"records": [asdict(record) for record in records], "known_rows": known, "fit_again": state.is_due}
        print_json({**found, "text": state.text()})
        return
    if records:
        print_records(records)
    print(" ".join(filter(None, [text, f"The model knows {plural(known, 'row')}.", state.text()])))
