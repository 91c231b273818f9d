"""Anomaly detection on tables with Non-Parametric Transformers (NPT-AD)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nptad.detector import NPTAD
    from nptad.errors import InputError, MaskBankWarning, ModelFileError, NPTADError, TableWarning, TrainingError
    from nptad.models.persist import load
    from nptad.settings import Settings, default_settings

__version__ = "0.2.0"

__all__ = [
    "NPTAD",
    "InputError",
    "MaskBankWarning",
    "ModelFileError",
    "NPTADError",
    "Settings",
    "TableWarning",
    "TrainingError",
    "__version__",
    "default_settings",
    "load",
]

_HOMES = {"NPTAD": "detector", "load": "models.persist", "Settings": "settings", "default_settings": "settings"}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: torch takes seconds, and ``nptad --help`` does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'nptad' has no attribute {name!r}")
    return getattr(import_module(f"nptad.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return __all__
