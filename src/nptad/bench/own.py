"""Methods and data sets of the user's, named on the command line as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from nptad.errors import InputError


def is_own(name: str) -> bool:
    """Whether a name is of this form; no listed name is."""
    return ":" in name


def import_own(source: str, kind: str) -> Any:
    """The object ``module:name``; the module may be in the working directory."""
    module, _, name = source.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"There is no {kind} {source!r} ({error}); give a listed name or module:name.") from error
