"""The torch device that a user names."""

from __future__ import annotations

import torch

from nptad.errors import InputError


def resolve_device(name: str) -> torch.device:
    """The device of this name; "auto" is a CUDA device if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # copy back to the CPU: some devices (meta) hold no data
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"device {name!r} cannot be used here ({str(error).splitlines()[0]}); use 'auto' or 'cpu'."
        ) from error
    return device
