"""Tensor files: written whole or not at all, read without executing anything."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nptad.errors import ModelFileError
from nptad.io.atomic import replacing


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    data = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, metadata)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file; a damaged one is a :class:`~nptad.errors.ModelFileError`."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"{path} cannot be read as a tensor file ({error}); it is missing, truncated or damaged."
        ) from error
