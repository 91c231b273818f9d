"""Anomaly detection on tables with Non-Parametric Transformers (NPT-AD)."""

from nptad.detector import NPTAD
from nptad.errors import InputError, MaskBankWarning, ModelFileError, NPTADError, TableWarning, TrainingError
from nptad.persist import load
from nptad.settings import Settings, default_settings

__all__ = [
    "NPTAD",
    "InputError",
    "MaskBankWarning",
    "ModelFileError",
    "NPTADError",
    "Settings",
    "TableWarning",
    "TrainingError",
    "default_settings",
    "load",
]
