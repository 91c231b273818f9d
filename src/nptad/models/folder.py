"""The directory of a saved model: its files, its format, its checksums. Needs no torch.

config.json          parameters, settings (null without a network), schema, threshold, history, versions, checksums
model.safetensors    fitted views, or weights, mask bank and folds of a network; row keys and scores of training rows
context.parquet      the encoded training rows that rows are compared with
README.md            a short model card
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, get_args

from nptad.errors import InputError, ModelFileError
from nptad.io.atomic import require_writable_parent
from nptad.tables.frames import Content
from nptad.tables.schema import Kind, Schema

FORMAT = 9
CONFIG, WEIGHTS, CONTEXT, CARD = "config.json", "model.safetensors", "context.parquet", "README.md"


def require_room(directory: str | Path) -> None:
    """Reject a place where no model can be saved."""
    target = Path(directory).resolve()
    if Path.cwd().is_relative_to(target):
        raise InputError(f"{target} is or contains the current directory; name a separate directory for the model.")
    try:
        if not _may_replace(target):
            raise InputError(f"{target} exists and is not only a saved nptad model; name another directory.")
        require_writable_parent(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error}.") from error


def _may_replace(target: Path) -> bool:
    """True if ``target`` holds an earlier model and nothing else; other programs also have files named config.json."""
    if not target.exists():
        return True
    names = {path.name for path in target.iterdir()} if target.is_dir() else {""}
    try:
        return not names or (names <= {CONFIG, WEIGHTS, CONTEXT, CARD} and "checksums" in _parse_config(target))
    except ModelFileError:
        return False


def fingerprint(directory: str | Path) -> str:
    """A text that identifies a saved model, independent of its location."""
    return str(read_config(Path(directory))["checksum"])


def read_schema(directory: str | Path) -> Schema:
    """The columns that a saved model knows."""
    return Schema.from_dict(read_config(Path(directory))["schema"])


def read_config(directory: Path) -> dict[str, Any]:
    """The checked content of config.json, in the present format."""
    if not directory.is_dir():
        raise ModelFileError(f"{directory} is not a directory; name one that NPTAD.save wrote.")
    if not any((directory / name).exists() for name in (CONFIG, WEIGHTS, CONTEXT)):
        raise ModelFileError(f"{directory} holds no saved model; name a directory that NPTAD.save wrote.")
    config = _parse_config(directory)
    found = config.get("format")
    if not isinstance(found, int):
        raise ModelFileError(f"{directory / CONFIG} is damaged; save the model again.")
    if found not in (6, 7, 8, FORMAT):
        advice = "install a newer nptad" if found > FORMAT else "fit the detector again and save it"
        raise ModelFileError(f"{directory} has format {found}, this nptad reads format {FORMAT}; {advice}.")
    if config.get("checksum") != config_checksum(config):
        raise ModelFileError(f"{directory / CONFIG} was changed since it was saved; save the model again.")
    try:
        config = _from_format_6(config) if found == 6 else config
        sound = _is_sound(config)
    except (KeyError, TypeError, IndexError):
        sound = False
    if not sound:
        raise ModelFileError(f"{directory / CONFIG} holds values that no model has; save the model again.")
    return config


def _from_format_6(config: dict[str, Any]) -> dict[str, Any]:
    """Format 6 had other names for two fields of a column. The later ones can be read as they are."""
    renamed = {"holds": "content", "open": "open_vocabulary"}
    columns = [
        {renamed.get(name, name): value for name, value in column.items()} for column in config["schema"]["columns"]
    ]
    return {**config, "schema": {**config["schema"], "columns": columns}}


def _is_sound(config: dict[str, Any]) -> bool:
    """False for values that would load but not work; values that do not load raise an error on loading."""
    return (
        set(config["checksums"]) == {WEIGHTS, CONTEXT}
        and math.isfinite(config["offset"])
        and (config["settings"] is None or math.isfinite(config["history"][-1]["loss"]))
        and all(_is_sound_column(column) for column in config["schema"]["columns"])
    )


def _is_sound_column(column: dict[str, Any]) -> bool:
    return (
        isinstance(column["name"], str | int)
        and column["kind"] in get_args(Kind)
        and column["content"] in get_args(Content)
        and math.isfinite(column["mean"])
        and column["scale"] > 0
    )


def _parse_config(directory: Path) -> dict[str, Any]:
    data = read_file(directory / CONFIG)
    try:
        return dict(json.loads(data))
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{directory / CONFIG} is damaged; save the model again.") from error


def read_file(path: Path) -> bytes:
    """The bytes of one of the files."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror}); the saved model is incomplete.") from error


def config_checksum(config: dict[str, Any]) -> str:
    """The checksum of a configuration without its own ``checksum`` entry."""
    return sha256(to_json({name: value for name, value in config.items() if name != "checksum"}).encode("utf-8"))


def to_json(values: dict[str, Any]) -> str:
    """The same text for the same values, before saving and after loading; NumPy numbers become plain ones."""
    return json.dumps(values, sort_keys=True, default=lambda value: value.item())


def sha256(data: bytes) -> str:
    """The checksum of some bytes."""
    return hashlib.sha256(data).hexdigest()
