"""Packages that only some places and formats need: imported when one is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nptad.errors import InputError


def import_extra(module: str, extra: str, what: str) -> Any:
    """A module of an optional package, or one sentence on what to install.

    >>> import_extra("no_such_module", "excel", "An Excel workbook")
    Traceback (most recent call last):
        ...
    nptad.errors.InputError: An Excel workbook needs no_such_module; install it with pip install 'nptad[excel]'.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"{what} needs {package}; install it with pip install 'nptad[{extra}]'.") from error
