"""Tensors as bytes (safetensors), from which they are read without executing anything."""

from __future__ import annotations

import json
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

_JSON, _TENSOR = "json", "tensor of nptad"


def tensors_to_bytes(tensors: dict[str, Tensor]) -> bytes:
    """Named tensors as the content of a safetensors file."""
    return save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})


def tensors_from_bytes(data: bytes) -> dict[str, Tensor]:
    """The tensors in :func:`tensors_to_bytes`; a ValueError for what is none. They are never larger than the data."""
    try:
        return load(data)
    except (SafetensorError, KeyError, OverflowError) as error:
        raise ValueError(f"no tensors: {error}") from error


def to_bytes(value: Any) -> bytes:
    """A JSON value in which tensors may occur."""
    tensors: dict[str, Tensor] = {}

    def set_aside(item: Tensor) -> dict[str, str]:
        name = str(len(tensors))
        tensors[name] = item
        return {_TENSOR: name}

    text = json.dumps(value, default=set_aside).encode()
    return tensors_to_bytes({**tensors, _JSON: torch.frombuffer(bytearray(text), dtype=torch.uint8)})


def from_bytes(data: bytes) -> Any:
    """The value in :func:`to_bytes`; a ValueError or KeyError for what is none."""
    tensors = tensors_from_bytes(data)
    text = tensors[_JSON].numpy().tobytes()
    return json.loads(text, object_hook=lambda item: tensors[item[_TENSOR]] if _TENSOR in item else item)
