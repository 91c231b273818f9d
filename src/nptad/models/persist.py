"""Save a fitted model as a directory and load it again; loading never executes anything."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from nptad.errors import InputError, ModelFileError
from nptad.io.atomic import name_beside
from nptad.io.tensors import load_tensors, write_tensors
from nptad.models.fitted import FittedModel
from nptad.models.folder import (
    CARD,
    CONFIG,
    CONTEXT,
    FORMAT,
    WEIGHTS,
    config_checksum,
    read_config,
    read_file,
    require_room,
    sha256,
    to_json,
)
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.scoring.calibrate import Calibration
from nptad.scoring.ensemble import Ensemble
from nptad.scoring.network_score import NetworkScore
from nptad.scoring.view_score import ViewScore
from nptad.settings import Settings
from nptad.tables.schema import Schema

_MODEL_PREFIX, _VIEWS_PREFIX = "model.", "views."
_PACKAGES = ("nptad", "torch", "numpy", "scikit-learn", "pyarrow")


def save_model(model: FittedModel, parameters: dict[str, Any], directory: str | Path) -> None:
    """Write a model and the parameters of its detector to ``directory``: complete, or not at all.

    An earlier model in the same place is replaced. If anything else is there, it is left alone and an error is raised.
    A process killed during the replacement leaves the earlier model under a hidden name beside ``directory``.
    """
    require_room(directory)
    target = Path(directory).resolve()
    temporary = name_beside(target)
    try:
        temporary.mkdir(parents=True)
        _write(model, parameters, temporary)
        _take_place(temporary, target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def _write(model: FittedModel, parameters: dict[str, Any], directory: Path) -> None:
    scorer = model.scorer
    if isinstance(scorer, NetworkScore):
        context = scorer.ensemble.context
        tensors = _network_tensors(scorer)
        learnt: dict[str, Any] = {"settings": scorer.settings.to_dict(), "history": scorer.history}
    else:
        context = scorer.rows
        # safetensors has no unsigned numbers of 64 bits.
        arrays = {
            name: array.view(np.int64) if array.dtype == np.uint64 else array
            for name, array in scorer.to_arrays().items()
        }
        tensors = {_VIEWS_PREFIX + name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}
        learnt = {"settings": None, "history": []}
    write_tensors(directory / WEIGHTS, tensors)
    # Names are for people only, loading goes by position: a name may contain what UTF-8 cannot encode.
    names = [str(c.name).encode(errors="replace").decode() for c in model.schema.used]
    pq.write_table(pa.table([pa.array(column) for column in context.T], names), directory / CONTEXT)
    config = {
        "format": FORMAT,
        "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "parameters": parameters,
        "schema": model.schema.to_dict(),
        "offset": model.offset,
        **learnt,
        "checksums": {name: sha256((directory / name).read_bytes()) for name in (WEIGHTS, CONTEXT)},
    }
    config["checksum"] = config_checksum(config)
    (directory / CARD).write_text(_model_card(model), encoding="utf-8", errors="replace")
    (directory / CONFIG).write_text(to_json(config), encoding="utf-8")
    for name in (CONFIG, WEIGHTS, CONTEXT, CARD):
        with (directory / name).open("rb") as file:
            os.fsync(file.fileno())


def _network_tensors(scorer: NetworkScore) -> dict[str, torch.Tensor]:
    ensemble, calibration = scorer.ensemble, scorer.calibration
    tensors = {_MODEL_PREFIX + name: value for name, value in ensemble.model.state_dict().items()}
    arrays = {
        "left_out": ensemble.left_out,
        "row_keys": ensemble.row_keys.view(np.int64),
        "context_rows": ensemble.context_rows,
        "neighbour_rows": ensemble.neighbour_rows,
        "context_source": ensemble.context_source,
        "mask_scale": ensemble.mask_scale,
        "nearest_scale": ensemble.nearest_scale,
        "training_scores": -calibration.scores,
        "calibration_rows": calibration.rows,
        "calibration_by_member": calibration.by_member,
    }
    tensors |= {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    return {**tensors, "masks": ensemble.masks}


def load_model(directory: Path, device: torch.device) -> tuple[FittedModel, dict[str, Any]]:
    """The model in a directory that :func:`save_model` wrote, and the parameters of its detector."""
    config = read_config(directory)
    for name, checksum in config["checksums"].items():
        if sha256(read_file(directory / name)) != checksum:
            raise ModelFileError(
                f"{directory / name} is damaged or was changed since it was saved; save the model again."
            )
    tensors, _ = load_tensors(directory / WEIGHTS)
    try:
        model = _restore(config, tensors, pq.read_table(directory / CONTEXT), device)
        parameters = dict(config["parameters"])
        if isinstance(parameters["settings"], dict):
            parameters["settings"] = Settings(**parameters["settings"])
    except (KeyError, TypeError, ValueError, RuntimeError, pa.ArrowException) as error:
        raise ModelFileError(
            f"The files in {directory} do not belong together ({error}); save the model again."
        ) from error
    return model, parameters


def _restore(
    config: dict[str, Any], tensors: dict[str, torch.Tensor], context: pa.Table, device: torch.device
) -> FittedModel:
    schema = Schema.from_dict(config["schema"])
    rows = np.column_stack([column.to_numpy() for column in context.columns]).astype(np.float32)
    scorer: ViewScore | NetworkScore
    if config["settings"] is None:
        arrays = {name.removeprefix(_VIEWS_PREFIX): tensor.numpy() for name, tensor in tensors.items()}
        arrays["row_keys"] = arrays["row_keys"].view(np.uint64)
        scorer = ViewScore.from_arrays(arrays, rows, schema.layout)
    else:
        scorer = _restore_network(config, tensors, rows, schema, device)
    return FittedModel(schema, scorer, config["offset"])


def _restore_network(
    config: dict[str, Any], tensors: dict[str, torch.Tensor], context: np.ndarray, schema: Schema, device: torch.device
) -> NetworkScore:
    n_members = len(tensors["left_out"])
    network = NPT(schema.layout, Settings(**config["settings"]), MemberRandom([0] * n_members))
    weights = {n.removeprefix(_MODEL_PREFIX): t for n, t in tensors.items() if n.startswith(_MODEL_PREFIX)}
    network.load_state_dict(weights)
    ensemble = Ensemble(
        model=network.to(device).eval(),
        masks=tensors["masks"],
        left_out=tensors["left_out"].numpy(),
        row_keys=tensors["row_keys"].numpy().view(np.uint64),
        context=context,
        context_rows=tensors["context_rows"].numpy(),
        neighbour_rows=tensors["neighbour_rows"].numpy(),
        context_source=tensors["context_source"].numpy(),
        mask_scale=tensors["mask_scale"].numpy(),
        nearest_scale=tensors["nearest_scale"].item(),
    )
    calibration = Calibration(
        rows=tensors["calibration_rows"].numpy(),
        by_member=tensors["calibration_by_member"].numpy(),
        scores=-tensors["training_scores"].numpy(),
    )
    return NetworkScore(ensemble, calibration, config["history"])


def _model_card(model: FittedModel) -> str:
    schema, scorer = model.schema, model.scorer
    names = ", ".join(str(c.name)[:80] for c in schema.columns[:50])
    kinds = [c.kind for c in schema.columns]
    if isinstance(scorer, NetworkScore):
        how = (
            f"{scorer.ensemble.n_members} member(s), {len(scorer.history)} training steps, final loss "
            f"{scorer.history[-1]['loss']:.4f},\n{len(scorer.ensemble.masks)} masks, "
            f"{scorer.settings.row_attention} row attention."
        )
    else:
        how = f"Views of a row: {', '.join(view.name for view in scorer.views)}."
    return f"""# Anomaly detector (nptad {version("nptad")})

Trained on {schema.n_rows:,} rows with {kinds.count("numeric")} numeric and {kinds.count("categorical")} categorical
columns ({kinds.count("ignored")} ignored): {names}{" ..." if len(schema.columns) > 50 else ""}.

{how} A row is flagged when its score falls below {model.offset:.6g}.

`context.parquet` holds training rows, standardised: share this directory as you would share the training data.

    import nptad
    detector = nptad.load("this directory")
    detector.predict(table)  # -1 = anomaly
"""
