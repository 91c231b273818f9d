"""The directory of a saved model, and how a model takes the place of another. Needs no torch.

config.json                      parameters, settings (null without a network), schema, threshold, history, records of
                                 updates and judgements, versions, checksums
model-<checksum>.safetensors     fitted views, or weights, mask bank and folds of a network; row keys, scores and
                                 judged rows
context-<checksum>.parquet       the encoded training rows that rows are compared with
README.md                        a short model card

The names of the large files contain the beginning of their checksum, and config.json has the checksums. It is replaced
last and in one step, so that at every moment it names the files of one model. Whoever has read the old one and finds
the files gone reads the new one. Formats 6 and 7 have files without checksums in their names.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from nptad.errors import InputError, ModelFileError
from nptad.io.atomic import TEMPORARY, followed, replacing, require_writable_parent
from nptad.io.locks import locked_directory
from nptad.io.regular import read_regular
from nptad.models.config import (
    CONFIG,
    CONTEXT,
    FORMAT,
    INCOMPLETE,
    WEIGHTS,
    config_checksum,
    parse_config,
    read_config,
    sha256,
    stored_name,
    to_json,
)
from nptad.tables.schema import Schema

CARD = "README.md"
_LARGE = re.compile(r"model(-[0-9a-f]{16})?\.safetensors|context(-[0-9a-f]{16})?\.parquet")
_PRIVATE = 0o600
_PRIVATE_DIRECTORY = 0o700


def require_room(directory: str | Path) -> None:
    """Reject a place where no model can be saved."""
    target = followed(Path(directory))
    if Path.cwd().is_relative_to(target):
        raise InputError(f"{target} is or contains the current directory; name a separate directory for the model.")
    try:
        if not _may_replace(target):
            raise InputError(f"{target} exists and is not only a saved nptad model; name another directory.")
        require_writable_parent(target / CONFIG if target.exists() else target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}.") from error


def _may_replace(target: Path) -> bool:
    """True if ``target`` holds a model and nothing else; other programs also have files named config.json."""
    if not target.exists():
        return True
    names = {path.name for path in target.iterdir()} if target.is_dir() else {""}
    large = {name for name in names if _LARGE.fullmatch(name)}
    ours = {name for name in names if fnmatch(name, TEMPORARY)} | large - {WEIGHTS, CONTEXT}
    if names == ours:  # nothing, or what a killed process left of the first model
        return True
    try:
        return names <= ours | large | {CONFIG, CARD} and "checksums" in parse_config(target)
    except ModelFileError:
        return False


def write_model(directory: str | Path, config: dict[str, Any], large: Mapping[str, bytes], card: str) -> None:
    """Write a model to ``directory``: complete, or not at all.

    ``config`` is completed by format and checksums; ``large`` has the content of :data:`WEIGHTS` and :data:`CONTEXT`. A
    model in the same place is replaced. If anything else is there, it is left alone and an error is raised. Who saves
    to the same place at the same time waits. A new model can be read by its owner only; a replaced one keeps its mode.
    """
    require_room(directory)
    target = followed(Path(directory))
    config = {**config, "format": FORMAT, "checksums": {name: sha256(data) for name, data in large.items()}}
    config["checksum"] = config_checksum(config)
    is_new = not target.exists()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(mode=_PRIVATE_DIRECTORY, exist_ok=True)
        try:
            with locked_directory(target):
                _replace(target, config, large, card)
        finally:
            if is_new:
                with suppress(OSError):  # it holds the model
                    target.rmdir()
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}.") from error


def _replace(target: Path, config: dict[str, Any], large: Mapping[str, bytes], card: str) -> None:
    mode = _PRIVATE
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE((target / CONFIG).stat().st_mode) & 0o777
    try:
        _remove_unused(target)  # makes room
        for name, data in large.items():
            with replacing(target / stored_name(config, name), mode) as temporary:
                temporary.write_bytes(data)
        with replacing(target / CARD, mode) as new_card, replacing(target / CONFIG, mode) as new_config:
            new_card.write_text(card, encoding="utf-8", errors="replace")
            new_config.write_text(to_json(config), encoding="utf-8")
    finally:
        _remove_unused(target)


def _remove_unused(target: Path) -> None:
    """Remove large files that config.json does not name: those of the replaced model, or of a save that failed."""
    used: set[str] = set()
    if (target / CONFIG).exists():
        try:
            config = parse_config(target)
            used = {stored_name(config, name) for name in (WEIGHTS, CONTEXT)}
        except (ModelFileError, KeyError, TypeError):  # nobody knows
            return
    for path in target.iterdir():
        if _LARGE.fullmatch(path.name) and path.name not in used:
            path.unlink()


def read_model(directory: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The configuration and the content of :data:`WEIGHTS` and :data:`CONTEXT`, all checked and of one model."""
    config = _read_directory(directory)
    while True:
        try:
            return config, {name: _read_large(directory, config, name) for name in (WEIGHTS, CONTEXT)}
        except ModelFileError:
            before, config = config, _read_directory(directory)
            if config["checksum"] == before["checksum"]:  # otherwise the model was replaced meanwhile
                raise


def fingerprint(directory: str | Path) -> str:
    """A text that identifies a saved model, independent of its location."""
    return str(_read_directory(Path(directory))["checksum"])


def read_schema(directory: str | Path) -> Schema:
    """The columns that a saved model knows."""
    return Schema.from_dict(_read_directory(Path(directory))["schema"])


def _read_directory(directory: Path) -> dict[str, Any]:
    try:
        if not directory.is_dir():
            raise ModelFileError(f"{directory} is not a directory; name one that NPTAD.save wrote.")
        if not (directory / CONFIG).exists() and not any(_LARGE.fullmatch(path.name) for path in directory.iterdir()):
            raise ModelFileError(f"{directory} holds no saved model; name a directory that NPTAD.save wrote.")
    except OSError as error:
        raise ModelFileError(f"{directory} cannot be read ({error.strerror}).") from error
    return read_config(directory)


def _read_large(directory: Path, config: dict[str, Any], name: str) -> bytes:
    path = directory / stored_name(config, name)
    data = read_regular(path, INCOMPLETE)
    if sha256(data) != config["checksums"][name]:
        raise ModelFileError(f"{path} is damaged or was changed since it was saved; save the model again.")
    return data
