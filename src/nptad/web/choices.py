"""The choices of the user: the use of each column, the label, and a few numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nptad.errors import InputError

Use = Literal["number", "category", "ignore"]

_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Choices:
    """Choices for a table; columns are given by position."""

    uses: tuple[Use, ...]
    label: tuple[int, int] | None = None
    """The column that marks known anomalies, and the position of the marking value among its listed values."""
    share: float | None = None  # of the rows to flag; None for the default
    seed: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choices:
        """Choices from JSON; what an earlier version could choose besides is left out."""
        label, share, seed = values["label"], values["share"], values["seed"]
        return cls(tuple(values["uses"]), None if label is None else tuple(label), share, seed)


def default_choices(columns: Sequence[Mapping[str, Any]]) -> Choices:
    """The proposed use of every column."""
    return Choices(tuple(column["use"] for column in columns))


def parse_choices(form: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], n_rows: int) -> Choices:
    """Read the form of the page; an entry that is not a possible choice is an InputError."""
    uses = []
    for place, column in enumerate(columns):
        use = form.get(f"use-{place}", column["use"])
        if use not in column["uses"]:
            raise InputError(f"Column {column['name']!r} cannot be used in this way; choose a use from the list.")
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
    )
    if choices.share is not None and choices.share < 1 / n_rows:
        raise InputError(
            f"With {n_rows:,} rows, the share to flag must be at least {math.ceil(1e6 / n_rows) / 1e4:g}%, "
            "which is about one row."
        )
    if all(use == "ignore" for use, _ in _unlabelled(choices, columns)):
        raise InputError("No column is left to analyse; ignore fewer columns.")
    return choices


def form_values(choices: Choices) -> dict[str, str]:
    """The choices as entries of the form, for :func:`parse_choices`."""
    return {
        **{f"use-{place}": use for place, use in enumerate(choices.uses)},
        "label": "{}:{}".format(*choices.label) if choices.label else "",
        "share": "" if choices.share is None else f"{100 * choices.share:.6g}",
        "seed": str(choices.seed),
    }


def _unlabelled(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> list[tuple[Use, Mapping[str, Any]]]:
    """The use and the description of each column but the label."""
    pairs = list(zip(choices.uses, columns, strict=True))
    return [pair for place, pair in enumerate(pairs) if choices.label is None or place != choices.label[0]]


def ignored_columns(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the ignored columns, without the label."""
    return [column["name"] for use, column in _unlabelled(choices, columns) if use == "ignore"]


def label_column(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> str | None:
    """The label as ``select_columns`` takes it."""
    if choices.label is None:
        return None
    column, value = choices.label
    return f"{columns[column]['name']}={columns[column]['values'][value]}"


def column_uses(choices: Choices, columns: Sequence[Mapping[str, Any]]) -> dict[str | int, Use]:
    """The uses that differ from what the library would choose by itself, by name."""
    return {column["name"]: use for use, column in _unlabelled(choices, columns) if use != column["use"]}


def _label(text: str, columns: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    if not text:
        return None
    if re.fullmatch("[0-9]{1,6}:[0-9]{1,6}", text):
        column, value = (int(part) for part in text.split(":"))
        if column < len(columns) and value < len(columns[column]["values"]):
            return column, value
    raise InputError("There is no such label; choose one from the list.")


def _number(form: Mapping[str, Any], name: str, what: str, highest: float, lowest: float | None = None) -> float | None:
    """A number above 0, or of at least ``lowest``, and at most ``highest``; None if nothing was entered."""
    text = str(form.get(name, "")).strip().replace(",", ".")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 if lowest is None else value >= lowest) or not value <= highest:
        least = "above 0" if lowest is None else f"of at least {lowest:g}"
        raise InputError(f"{what} must be a number {least} and at most {highest:,.0f}.")
    return value
