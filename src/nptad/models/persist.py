"""Save a fitted detector as a directory and load it again; loading never executes anything.

config.json          parameters, settings, schema, threshold, training history, versions, checksums
model.safetensors    weights, mask bank, folds, row keys and scores of training rows
context.parquet      the encoded training rows that serve as context or may be the nearest one
README.md            a short model card
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from nptad.detector import NPTAD
from nptad.errors import InputError, ModelFileError
from nptad.io.atomic import name_beside, require_writable_parent
from nptad.io.tensors import load_tensors, write_tensors
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.scoring.calibrate import Calibration
from nptad.scoring.ensemble import Ensemble
from nptad.settings import Settings
from nptad.tables.frames import Content
from nptad.tables.schema import Kind, Schema

FORMAT = 6
CONFIG, WEIGHTS, CONTEXT, CARD = "config.json", "model.safetensors", "context.parquet", "README.md"
_MODEL_PREFIX = "model."


def save(detector: NPTAD, directory: str | Path) -> None:
    """Write ``detector`` to ``directory``: complete, or not at all.

    An earlier model in the same place is replaced; anything else there is left alone and an error raised. A process
    killed in the instant of the replacement leaves the earlier model under a hidden name beside ``directory``.
    """
    require_room(directory)
    target = Path(directory).resolve()
    temporary = name_beside(target)
    try:
        temporary.mkdir(parents=True)
        _write(detector, temporary)
        _take_place(temporary, target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_room(directory: str | Path) -> None:
    """Refuse a place that no model can be saved to: somebody else's directory, the current one, one without room."""
    target = Path(directory).resolve()
    if Path.cwd().is_relative_to(target):
        raise InputError(f"{target} is the current directory or holds it; name a directory of its own for the model.")
    try:
        if not _may_replace(target):
            raise InputError(f"{target} exists and is not only a saved nptad model; name another directory.")
        require_writable_parent(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error}.") from error


def _may_replace(target: Path) -> bool:
    """True if there is nothing at ``target`` but an earlier model; many programs call their files config.json."""
    if not target.exists():
        return True
    names = {path.name for path in target.iterdir()} if target.is_dir() else {""}
    try:
        return not names or (names <= {CONFIG, WEIGHTS, CONTEXT, CARD} and "checksums" in _parse_config(target))
    except ModelFileError:
        return False


def _take_place(new: Path, target: Path) -> None:
    old = name_beside(target)
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write(detector: NPTAD, directory: Path) -> None:
    ensemble = detector.ensemble_
    tensors = {_MODEL_PREFIX + name: value for name, value in ensemble.model.state_dict().items()}
    arrays = {
        "left_out": ensemble.left_out,
        "row_keys": ensemble.row_keys.view(np.int64),
        "context_rows": ensemble.context_rows,
        "neighbour_rows": ensemble.neighbour_rows,
        "context_source": ensemble.context_source,
        "mask_scale": ensemble.mask_scale,
        "nearest_scale": ensemble.nearest_scale,
        "training_scores": detector.training_scores_,
        "calibration_rows": detector.calibration_.rows,
        "calibration_by_member": detector.calibration_.by_member,
    }
    tensors |= {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    write_tensors(directory / WEIGHTS, {**tensors, "masks": ensemble.masks})
    # For people only, loading goes by position: a name may hold what UTF-8 cannot.
    names = [str(c.name).encode(errors="replace").decode() for c in detector.schema_.used]
    pq.write_table(pa.table([pa.array(column) for column in ensemble.context.T], names), directory / CONTEXT)
    config = {
        "format": FORMAT,
        "versions": {name: version(name) for name in ("nptad", "torch", "numpy", "scikit-learn", "pyarrow")}
        | {"python": platform.python_version()},
        "parameters": _plain_parameters(detector),
        "settings": detector.settings_.to_dict(),
        "schema": detector.schema_.to_dict(),
        "offset": detector.offset_,
        "history": detector.history_,
        "checksums": {name: _sha256((directory / name).read_bytes()) for name in (WEIGHTS, CONTEXT)},
    }
    config["checksum"] = _config_checksum(config)
    (directory / CARD).write_text(_model_card(detector), encoding="utf-8", errors="replace")
    (directory / CONFIG).write_text(_to_json(config), encoding="utf-8")
    for name in (CONFIG, WEIGHTS, CONTEXT, CARD):
        with (directory / name).open("rb") as file:
            os.fsync(file.fileno())


def _plain_parameters(detector: NPTAD) -> dict[str, Any]:
    """Constructor parameters that JSON can hold; a random generator is not part of a fitted model."""
    parameters = detector.get_params(deep=False)
    settings = parameters["settings"]
    parameters["settings"] = None if settings is None else settings.to_dict()
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = None
    if parameters["categorical_features"] is not None:
        parameters["categorical_features"] = list(parameters["categorical_features"])
    return parameters | {"device": str(parameters["device"])}


def _to_json(values: dict[str, Any]) -> str:
    """One text for the same values, saved or loaded; NumPy numbers become plain ones."""
    return json.dumps(values, sort_keys=True, default=lambda value: value.item())


def load(directory: str | Path, device: str = "auto") -> NPTAD:
    """Load a detector written by :meth:`nptad.NPTAD.save`; its scores are the same, bit for bit.

    Parameters
    ----------
    directory : path
        The saved model.
    device : str
        Where to score, whatever device the model was trained on.

    Raises
    ------
    ModelFileError
        If the directory is incomplete, was changed, or comes from a version with another format.
    """
    from nptad.detector import _resolve_device

    where = _resolve_device(device)
    directory = Path(directory)
    config = _read_config(directory)
    for name, checksum in config["checksums"].items():
        if name not in (WEIGHTS, CONTEXT) or _sha256(_read(directory / name)) != checksum:
            raise ModelFileError(
                f"{directory / name} is damaged or was changed since it was saved; save the model again."
            )
    tensors, _ = load_tensors(directory / WEIGHTS)
    try:
        return _restore(config, tensors, pq.read_table(directory / CONTEXT), where)
    except (KeyError, TypeError, ValueError, RuntimeError, pa.ArrowException) as error:
        raise ModelFileError(
            f"The files in {directory} do not belong together ({error}); save the model again."
        ) from error


def fingerprint(directory: str | Path) -> str:
    """A text that tells a saved model from every other one, wherever it is kept."""
    return str(_read_config(Path(directory))["checksum"])


def _restore(
    config: dict[str, Any], tensors: dict[str, torch.Tensor], context: pa.Table, device: torch.device
) -> NPTAD:
    parameters = dict(config["parameters"])
    if parameters["settings"] is not None:
        parameters["settings"] = Settings(**parameters["settings"])
    detector = NPTAD(**parameters)
    detector.settings_ = Settings(**config["settings"])
    detector.schema_ = schema = Schema.from_dict(config["schema"])
    n_members = len(tensors["left_out"])
    model = NPT(schema.layout, detector.settings_, MemberRandom([0] * n_members))
    model.load_state_dict({n.removeprefix(_MODEL_PREFIX): t for n, t in tensors.items() if n.startswith(_MODEL_PREFIX)})
    rows = np.column_stack([column.to_numpy() for column in context.columns]).astype(np.float32)
    detector.ensemble_ = Ensemble(
        model.to(device).eval(),
        tensors["masks"],
        tensors["left_out"].numpy(),
        tensors["row_keys"].numpy().view(np.uint64),
        rows,
        tensors["context_rows"].numpy(),
        tensors["neighbour_rows"].numpy(),
        tensors["context_source"].numpy(),
        tensors["mask_scale"].numpy(),
        tensors["nearest_scale"].item(),
    )
    detector.training_scores_ = tensors["training_scores"].numpy()
    detector.calibration_ = Calibration(
        tensors["calibration_rows"].numpy(), tensors["calibration_by_member"].numpy(), -detector.training_scores_
    )
    detector.offset_ = config["offset"]
    detector.history_ = config["history"]
    detector.n_features_in_ = len(schema.columns)
    if schema.named:
        detector.feature_names_in_ = np.array([c.name for c in schema.columns], dtype=object)
    return detector


def _read_config(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise ModelFileError(f"{directory} is not a directory; name one that NPTAD.save wrote.")
    if not any((directory / name).exists() for name in (CONFIG, WEIGHTS, CONTEXT)):
        raise ModelFileError(f"{directory} holds no saved model; name a directory that NPTAD.save wrote.")
    config = _parse_config(directory)
    found = config.get("format")
    if not isinstance(found, int):
        raise ModelFileError(f"{directory / CONFIG} is damaged; save the model again.")
    if found != FORMAT:
        advice = "install a newer nptad" if found > FORMAT else "fit the detector again and save it"
        raise ModelFileError(f"{directory} has format {found}, this nptad reads format {FORMAT}; {advice}.")
    if config.get("checksum") != _config_checksum(config):
        raise ModelFileError(f"{directory / CONFIG} was changed since it was saved; save the model again.")
    if not _is_sound(config):
        raise ModelFileError(f"{directory / CONFIG} holds what no model has; save the model again.")
    return config


def _is_sound(config: dict[str, Any]) -> bool:
    """False for values that would load but not work; what does not load is told when it is."""
    try:
        return (
            set(config["checksums"]) == {WEIGHTS, CONTEXT}
            and math.isfinite(config["offset"])
            and math.isfinite(config["history"][-1]["loss"])
            and all(_is_sound_column(column) for column in config["schema"]["columns"])
        )
    except (KeyError, TypeError, IndexError):
        return False


def _is_sound_column(column: dict[str, Any]) -> bool:
    return (
        isinstance(column["name"], str | int)
        and column["kind"] in get_args(Kind)
        and column["content"] in get_args(Content)
        and math.isfinite(column["mean"])
        and column["scale"] > 0
    )


def _parse_config(directory: Path) -> dict[str, Any]:
    data = _read(directory / CONFIG)
    try:
        return dict(json.loads(data))
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{directory / CONFIG} is damaged; save the model again.") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror}); the saved model is incomplete.") from error


def _config_checksum(config: dict[str, Any]) -> str:
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return _sha256(_to_json(rest).encode("utf-8"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _model_card(detector: NPTAD) -> str:
    schema, settings, ensemble, history = detector.schema_, detector.settings_, detector.ensemble_, detector.history_
    names = ", ".join(str(c.name)[:80] for c in schema.columns[:50])
    kind: Callable[[str], int] = lambda wanted: sum(c.kind == wanted for c in schema.columns)  # noqa: E731
    return f"""# Anomaly detector (nptad {version("nptad")})

Trained on {schema.n_rows:,} rows with {kind("numeric")} numeric and {kind("categorical")} categorical columns
({kind("ignored")} ignored): {names}{" ..." if len(schema.columns) > 50 else ""}.

{ensemble.n_members} member(s), {len(history)} training steps, final loss {history[-1]["loss"]:.4f},
{len(ensemble.masks)} masks, {settings.row_attention} row attention. A row is flagged when its score falls
below {detector.offset_:.6g}.

`context.parquet` holds training rows, standardised: share this directory as you would share the training data.

    import nptad
    detector = nptad.load("this directory")
    detector.predict(table)  # -1 = anomaly
"""
