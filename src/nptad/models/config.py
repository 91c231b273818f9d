"""config.json of a saved model: its format, its checksum, and what it must say. Needs no torch."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, get_args

from nptad.errors import ModelFileError
from nptad.io.regular import read_regular
from nptad.tables.frames import Content
from nptad.tables.readings import Reading
from nptad.tables.roles import Role
from nptad.tables.schema import LARGEST_TIME, Column, Kind, Schema

FORMAT = 9
CONFIG, WEIGHTS, CONTEXT = "config.json", "model.safetensors", "context.parquet"
INCOMPLETE = "without it the saved model is incomplete"
_FLAT = (6, 7)
"""Formats in which the other files are called just :data:`WEIGHTS` and :data:`CONTEXT`."""
_WITHOUT_RECORDS = 8
"""The format before models could be updated."""


def read_config(directory: Path) -> dict[str, Any]:
    """The checked content of config.json, in the present format but for the names of the other files."""
    config = parse_config(directory)
    found = config.get("format")
    if not isinstance(found, int):
        raise ModelFileError(f"{directory / CONFIG} is damaged; save the model again.")
    if found not in (*_FLAT, _WITHOUT_RECORDS, FORMAT):
        advice = "install a newer nptad" if found > FORMAT else "fit the detector again and save it"
        raise ModelFileError(f"{directory} has format {found}, this nptad reads format {FORMAT}; {advice}.")
    if config.get("checksum") != config_checksum(config):
        raise ModelFileError(f"{directory / CONFIG} was changed since it was saved; save the model again.")
    try:
        config = _from_format_6(config) if found == 6 else config
        sound = _is_sound(config)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        sound = False
    if not sound:
        raise ModelFileError(f"{directory / CONFIG} holds values that no model has; save the model again.")
    return config


def parse_config(directory: Path) -> dict[str, Any]:
    """What config.json says, unchecked."""
    data = read_regular(directory / CONFIG, INCOMPLETE)
    try:
        return dict(json.loads(data))
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{directory / CONFIG} is damaged; save the model again.") from error


def stored_name(config: dict[str, Any], name: str) -> str:
    """The file that a configuration means by :data:`WEIGHTS` or :data:`CONTEXT`."""
    if config["format"] in _FLAT:
        return name
    stem, dot, suffix = name.partition(".")
    return f"{stem}-{config['checksums'][name][:16]}{dot}{suffix}"


def _from_format_6(config: dict[str, Any]) -> dict[str, Any]:
    """Format 6 had other names for two fields of a column. Formats 6 and 7 have no models of views."""
    renamed = {"holds": "content", "open": "open_vocabulary"}
    columns = [
        {renamed.get(name, name): value for name, value in column.items()} for column in config["schema"]["columns"]
    ]
    return {**config, "schema": {**config["schema"], "columns": columns}}


def _is_sound(config: dict[str, Any]) -> bool:
    """False for values that would load but not work; values of a wrong kind may also raise an error."""
    schema = Schema.from_dict(config["schema"])
    names = [column.name for column in schema.columns]
    checksums = config["checksums"]
    return (
        set(checksums) == {WEIGHTS, CONTEXT}
        and all(len(text) == 64 and set(text) <= set("0123456789abcdef") for text in checksums.values())
        and math.isfinite(config["offset"])
        and (config["settings"] is None or math.isfinite(config["history"][-1]["loss"]))
        and isinstance(schema.n_rows, int)
        and schema.n_rows >= 2
        and isinstance(schema.named, bool)
        and len(set(names)) == len(names)
        and bool(schema.used)
        and all(_is_sound_column(column) for column in schema.columns)
    )


def _is_sound_column(column: Column) -> bool:
    is_float, values = column.content not in ("text", "boolean"), [*column.categories, *column.pooled]
    most = LARGEST_TIME if column.content in ("time", "duration") else math.inf
    return (
        isinstance(column.name, str | int)
        and column.kind in get_args(Kind)
        and column.content in get_args(Content)
        and isinstance(column.missing, int)
        and isinstance(column.open_vocabulary, bool)
        and isinstance(column.unreadable, int)
        and column.role in get_args(Role)
        and Reading(column.content, column.convention).is_sound
        and isinstance(column.zone, str)
        and all(end is None or math.isfinite(end) for end in (column.low, column.high))
        and column.step >= 0
        and math.isfinite(column.step)
        and math.isfinite(column.mean)
        and -most <= column.mean <= most
        and 0 < column.scale <= most
        and math.isfinite(column.scale)
        and (is_float or column.kind != "numeric")
        and (column.cardinality >= 1 or column.kind != "categorical")
        and all(_is_category(value, column.content, most) for value in values)
        and len(set(values)) == len(values)
    )


def _is_category(value: Any, content: str, most: float) -> bool:
    if content in ("text", "boolean"):
        return isinstance(value, str if content == "text" else bool)
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and -most <= value <= most
    )


def config_checksum(config: dict[str, Any]) -> str:
    """The checksum of a configuration without its own ``checksum`` entry."""
    return sha256(to_json({name: value for name, value in config.items() if name != "checksum"}).encode("utf-8"))


def to_json(values: dict[str, Any]) -> str:
    """The same text for the same values, before saving and after loading; NumPy numbers become plain ones."""
    return json.dumps(values, sort_keys=True, default=lambda value: value.item())


def sha256(data: bytes) -> str:
    """The checksum of some bytes."""
    return hashlib.sha256(data).hexdigest()
