"""A flavour of MLflow: a detector is logged as the directory that :meth:`nptad.NPTAD.save` writes. Nothing is pickled.

Needs ``mlflow`` or ``mlflow-skinny``: the extra ``mlflow``.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nptad.detector import NPTAD, load

if TYPE_CHECKING:
    from mlflow.models import Model
    from mlflow.models.model import ModelInfo

FLAVOR_NAME = "nptad"
_DATA, _REQUIREMENTS = "detector", "requirements.txt"


def log_model(detector: NPTAD, name: str = "model", **options: Any) -> ModelInfo:
    """Log a fitted detector as a model of the active run, or of a new one.

    Parameters
    ----------
    detector : NPTAD
        A fitted detector.
    name : str
        What the model is called in MLflow.
    **options
        What else :meth:`mlflow.models.Model.log` takes, such as ``registered_model_name``, and ``signature`` or
        ``metadata``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` is what :func:`load_model` and ``mlflow.pyfunc.load_model`` take.
    """
    from mlflow.models import Model  # takes seconds

    return Model.log(None, sys.modules[__name__], name=name, detector=detector, **options)


def save_model(detector: NPTAD, path: str | Path, mlflow_model: Model | None = None, **options: Any) -> None:
    """Write a detector and what MLflow has to know of it to a directory that does not exist yet.

    ``options`` are fields of :class:`mlflow.models.Model`, such as ``signature``.
    """
    from mlflow import pyfunc
    from mlflow.models import Model
    from mlflow.models.model import MLMODEL_FILE_NAME

    folder, described = Path(path), mlflow_model or Model()
    for name, value in options.items():
        setattr(described, name, value)
    folder.mkdir(parents=True, exist_ok=True)
    detector.save(folder / _DATA)
    requirements = [f"{package}=={version(package)}" for package in ("nptad", "torch")]
    (folder / _REQUIREMENTS).write_text("\n".join(requirements) + "\n", encoding="utf-8")
    described.add_flavor(FLAVOR_NAME, data=_DATA, nptad_version=version("nptad"))
    pyfunc.add_to_model(described, __name__, data=_DATA)
    described.save(str(folder / MLMODEL_FILE_NAME))


def load_model(model_uri: str) -> NPTAD:
    """The detector that was logged or saved under an address such as ``runs:/.../model``; its scores are the same."""
    from mlflow.artifacts import download_artifacts

    return load(Path(download_artifacts(model_uri)) / _DATA)


class ScoringFunction:
    """A detector as ``mlflow.pyfunc`` has it."""

    def __init__(self, detector: NPTAD) -> None:
        self.detector = detector

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Row, score, p-value and flag as a frame: what :meth:`nptad.NPTAD.detect` finds."""
        return self.detector.detect(model_input).frame()


def _load_pyfunc(path: str) -> ScoringFunction:
    """What ``mlflow.pyfunc.load_model`` calls."""
    return ScoringFunction(load(path))
