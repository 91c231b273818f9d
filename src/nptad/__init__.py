"""Anomaly detection on tables with Non-Parametric Transformers (NPT-AD)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nptad.detector import NPTAD, load
    from nptad.errors import InputError, MaskBankWarning, ModelFileError, NPTADError, TableWarning, TrainingError
    from nptad.explain import Explanation
    from nptad.pipeline import TableResult, detect_table, score_table
    from nptad.scoring.calibrate import Detection, benjamini_hochberg
    from nptad.settings import Settings, default_settings

__version__ = "0.2.0"

__all__ = [
    "NPTAD",
    "Detection",
    "Explanation",
    "InputError",
    "MaskBankWarning",
    "ModelFileError",
    "NPTADError",
    "Settings",
    "TableResult",
    "TableWarning",
    "TrainingError",
    "__version__",
    "benjamini_hochberg",
    "default_settings",
    "detect_table",
    "load",
    "score_table",
]

__version__ = "0.2.0"

_MODULES = {
    "detector": ("NPTAD", "load"),
    "explain": ("Explanation",),
    "pipeline": ("TableResult", "detect_table", "score_table"),
    "scoring.calibrate": ("Detection", "benjamini_hochberg"),
    "settings": ("Settings", "default_settings"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is used: torch takes seconds, and ``nptad --help`` does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'nptad' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "errors")
    return getattr(import_module(f"nptad.{module}"), name)


def __dir__() -> list[str]:
    return __all__
