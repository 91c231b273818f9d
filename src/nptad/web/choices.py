"""What the user chose: the part of each column, the label, and a few numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nptad.errors import InputError
from nptad.scoring.calibrate import smallest_share

Use = Literal["number", "category", "ignore"]

_LARGEST_SEED = 2**32 - 1
_LONGEST_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Choices:
    """Choices for a table, by the positions of its columns."""

    uses: tuple[Use, ...]
    """The part of each column."""
    label: tuple[int, int] | None = None
    """The column that marks known anomalies and which of its listed values does so."""
    share: float | None = None
    """Share of the rows to flag; None for the default."""
    seed: int = 0
    time_limit: float | None = None
    """Seconds of training at most."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choices:
        """Choices from JSON."""
        label = values["label"]
        return cls(**{**values, "uses": tuple(values["uses"]), "label": None if label is None else tuple(label)})


def default_choices(columns: Sequence[Mapping[str, Any]]) -> Choices:
    """Every column as it was understood."""
    return Choices(tuple(column["use"] for column in columns))


def parse_choices(form: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], n_rows: int) -> Choices:
    """Read the form of the page.

    Raises
    ------
    InputError
        In one sentence, if something in it is no possible choice.
    """
    uses = []
    for place, column in enumerate(columns):
        use = form.get(f"use-{place}", column["use"])
        if use not in column["uses"]:
            raise InputError(f"Column {column['name']!r} cannot be used like that; choose one of the entries.")
        uses.append(use)
    share = _number(form, "share", "The share of rows to flag", 50.0)
    seed = _number(form, "seed", "The seed", _LARGEST_SEED, lowest=0.0)
    if seed is not None and seed != int(seed):
        raise InputError("The seed must be a whole number.")
    choices = Choices(
        tuple(uses),
        _label(str(form.get("label", "")), columns),
        None if share is None else share / 100,
        int(seed or 0),
        _number(form, "time_limit", "The time limit", _LONGEST_SECONDS),
    )
    fewest = smallest_share(n_rows)
    if choices.share is not None and choices.share < fewest:
        raise InputError(
            f"With {n_rows:,} rows the share to flag must be at least {math.ceil(1e4 * fewest) / 100:g} %, "
            "which is about one row."
        )
    if not any(use != "ignore" and (choices.label or (-1,))[0] != place for place, use in enumerate(uses)):
        raise InputError("No column is left to look at; ignore fewer of them.")
    return choices


def form_values(choices: Choices) -> dict[str, str]:
    """The choices as the form has them: what :func:`parse_choices` reads.

    Examples
    --------
    >>> form_values(Choices(("number", "ignore"), (1, 0), 0.05))
    {'use-0': 'number', 'use-1': 'ignore', 'label': '1:0', 'share': '5', 'seed': '0', 'time_limit': ''}
    """
    return {
        **{f"use-{place}": use for place, use in enumerate(choices.uses)},
        "label": "{}:{}".format(*choices.label) if choices.label else "",
        "share": "" if choices.share is None else f"{100 * choices.share:.6g}",
        "seed": str(choices.seed),
        "time_limit": "" if choices.time_limit is None else f"{choices.time_limit:g}",
    }


def ignored_columns(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the columns that the model does not see, the label not among them."""
    label = choices.label[0] if choices.label else None
    return [
        column["name"]
        for place, (use, column) in enumerate(zip(choices.uses, columns, strict=True))
        if use == "ignore" and place != label
    ]


def label_column(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> str | None:
    """The label in the form that ``select_columns`` takes."""
    if choices.label is None:
        return None
    column, value = choices.label
    return f"{columns[column]['name']}={columns[column]['values'][value]}"


def categorical_columns(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The number columns that are categories; None if that is just what the library would find by itself."""
    label = choices.label[0] if choices.label else None
    pairs = [
        (use, column)
        for place, (use, column) in enumerate(zip(choices.uses, columns, strict=True))
        if "number" in column["uses"] and use != "ignore" and place != label
    ]
    chosen = [column["name"] for use, column in pairs if use == "category"]
    found = [column["name"] for _, column in pairs if column["kind"] == "categorical"]
    return None if chosen == found else chosen


def _label(text: str, columns: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    if not text:
        return None
    if re.fullmatch("[0-9]{1,6}:[0-9]{1,6}", text):
        column, value = (int(part) for part in text.split(":"))
        if column < len(columns) and value < len(columns[column]["values"]):
            return column, value
    raise InputError("There is no such label; choose one of the entries.")


def _number(form: Mapping[str, Any], name: str, what: str, highest: float, lowest: float | None = None) -> float | None:
    """A number above 0, or from ``lowest`` on, up to ``highest``; None if nothing was entered."""
    text = str(form.get(name, "")).strip().replace(",", ".")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 if lowest is None else value >= lowest) or not value <= highest:
        bounds = "above 0" if lowest is None else f"from {lowest:g}"
        raise InputError(f"{what} must be a number {bounds} up to {highest:,.0f}.")
    return value
