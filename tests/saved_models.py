"""Saved models as files: to find them, to damage them, and to seal them as somebody would who knows the format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nptad.io.tensors import tensors_from_bytes, tensors_to_bytes
from nptad.models.config import CONFIG, CONTEXT, WEIGHTS, config_checksum, sha256, stored_name

FILES = (CONFIG, WEIGHTS, CONTEXT)


def config_of(directory: Path) -> dict[str, Any]:
    """What config.json says."""
    return dict(json.loads((directory / CONFIG).read_text(encoding="utf-8")))


def path_of(directory: Path, name: str) -> Path:
    """Where one of :data:`FILES` is."""
    return directory / (name if name == CONFIG else stored_name(config_of(directory), name))


def reseal(directory: Path, large: dict[str, bytes] | None = None, **changes: Any) -> None:
    """Change config.json and the content of the large files, with checksums and names that fit."""
    config = config_of(directory)
    content = {name: path_of(directory, name).read_bytes() for name in (WEIGHTS, CONTEXT)} | (large or {})
    for name in content:
        path_of(directory, name).unlink()
    config |= changes
    config["checksums"] = {name: sha256(data) for name, data in content.items()}
    config["checksum"] = config_checksum(config)
    for name, data in content.items():
        (directory / stored_name(config, name)).write_bytes(data)
    (directory / CONFIG).write_text(json.dumps(config), encoding="utf-8")


def change_tensors(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the tensors of a model, with checksums and names that fit."""
    tensors = tensors_from_bytes(path_of(directory, WEIGHTS).read_bytes())
    change(tensors)
    reseal(directory, {WEIGHTS: tensors_to_bytes(tensors)})
