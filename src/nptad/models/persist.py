"""Save a fitted model as a directory and load it again; loading never executes anything."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from nptad.errors import ModelFileError
from nptad.io.tensors import tensors_from_bytes, tensors_to_bytes
from nptad.io.text import one_line
from nptad.models.config import CONTEXT, WEIGHTS
from nptad.models.context import rows_from_bytes, rows_to_bytes
from nptad.models.fitted import FittedModel
from nptad.models.folder import read_model, write_model
from nptad.models.living import restored
from nptad.models.records import records_from
from nptad.nn.model import NPT
from nptad.nn.rng import NoRandom
from nptad.scoring.arrays import require_array
from nptad.scoring.calibrate import Calibration
from nptad.scoring.ensemble import Ensemble
from nptad.scoring.feedback import Feedback
from nptad.scoring.network_score import NetworkScore
from nptad.scoring.view_score import ViewScore
from nptad.settings import Settings
from nptad.tables.schema import Schema

_MODEL_PREFIX, _VIEWS_PREFIX = "model.", "views."
_JUDGED = ("judged.rows", "judged.is_anomaly", "judged.record")
_ORIGIN = "origin"
_PACKAGES = ("nptad", "torch", "numpy", "scikit-learn", "pyarrow")


def save_model(model: FittedModel, parameters: dict[str, Any], directory: str | Path) -> None:
    """Write a model and the parameters of its detector, as :func:`nptad.models.folder.write_model` says."""
    scorer = model.scorer if model.before_feedback is None else model.before_feedback
    if isinstance(scorer, NetworkScore):
        rows = scorer.ensemble.context
        tensors = _network_tensors(scorer)
        learnt: dict[str, Any] = {"settings": scorer.settings.to_dict(), "history": scorer.history}
    else:
        rows = scorer.rows
        # safetensors has no unsigned numbers of 64 bits.
        arrays = {
            name: array.view(np.int64) if array.dtype == np.uint64 else array
            for name, array in scorer.to_arrays().items()
        }
        tensors = {_VIEWS_PREFIX + name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}
        tensors |= {name: torch.from_numpy(np.array(a)) for name, a in _changes(model).items()}
        learnt = {"settings": None, "history": []}
    config = {
        "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "parameters": parameters,
        "schema": model.schema.to_dict(),
        "offset": model.offset,
        "records": [record.to_dict() for record in model.records],
        **learnt,
    }
    large = {WEIGHTS: tensors_to_bytes(tensors), CONTEXT: rows_to_bytes(rows, model.schema)}
    write_model(directory, config, large, _model_card(model))


def _changes(model: FittedModel) -> dict[str, np.ndarray]:
    """What happened to the model since it was fitted, as arrays."""
    arrays = {} if model.origin is None else {_ORIGIN: model.origin}
    if model.feedback is not None:
        judged = (model.feedback.rows, model.feedback.is_anomaly, model.feedback.record)
        arrays |= dict(zip(_JUDGED, judged, strict=True))
    return arrays


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
    config, large = read_model(directory)
    try:
        model = _restore(config, large, device)
        parameters = dict(config["parameters"])
        if isinstance(parameters["settings"], dict):
            parameters["settings"] = Settings(**parameters["settings"])
    except (KeyError, TypeError, ValueError, RuntimeError, pa.ArrowException) as error:
        reason = one_line(error)
        raise ModelFileError(
            f"The files in {directory} do not belong together ({reason}); save the model again."
        ) from error
    return model, parameters


def _restore(config: dict[str, Any], large: dict[str, bytes], device: torch.device) -> FittedModel:
    schema = Schema.from_dict(config["schema"])
    tensors = tensors_from_bytes(large[WEIGHTS])
    scorer: ViewScore | NetworkScore
    feedback = origin = None
    if config["settings"] is None:
        if _JUDGED[0] in tensors:
            feedback = Feedback(*(tensors.pop(name).numpy() for name in _JUDGED))
        if _ORIGIN in tensors:
            origin = tensors.pop(_ORIGIN).numpy()
            require_array("origin", origin, "i8", tensors[_VIEWS_PREFIX + "kept"].shape, least=0, ascending=True)
        arrays = {name.removeprefix(_VIEWS_PREFIX): tensor.numpy() for name, tensor in tensors.items()}
        rows = _restore_rows(tensors[_VIEWS_PREFIX + "kept"], large, schema)
        arrays["row_keys"] = arrays["row_keys"].view(np.uint64)
        scorer = ViewScore.from_arrays(arrays, rows, schema.layout)
        scorer.require_sound(schema.n_rows)
    else:
        rows = _restore_rows(tensors["context_source"], large, schema)
        scorer = _restore_network(config, tensors, rows, schema, device)
    model = FittedModel(schema, scorer, config["offset"], config["checksum"])
    return restored(model, feedback, records_from(config.get("records", [])), origin)


def _restore_rows(source: torch.Tensor, large: dict[str, bytes], schema: Schema) -> np.ndarray:
    """The rows behind ``source``, which has an entry for each, so that their number can be trusted."""
    require_array("sources", source.numpy(), "i8", (None,))
    return rows_from_bytes(large[CONTEXT], len(source), schema)


def _restore_network(
    config: dict[str, Any], tensors: dict[str, torch.Tensor], context: np.ndarray, schema: Schema, device: torch.device
) -> NetworkScore:
    ensemble = Ensemble(
        model=_restore_weights(tensors, config, schema).to(device).eval(),
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
    ensemble.require_sound(schema.n_rows)
    calibration.require_sound(schema.n_rows, ensemble.n_members)
    return NetworkScore(ensemble, calibration, config["history"])


def _restore_weights(tensors: dict[str, torch.Tensor], config: dict[str, Any], schema: Schema) -> NPT:
    """The network, made without memory for its weights: settings of nonsense show before they fill it."""
    weights = {n.removeprefix(_MODEL_PREFIX): t for n, t in tensors.items() if n.startswith(_MODEL_PREFIX)}
    settings = Settings(**config["settings"])
    require_array("left_out", tensors["left_out"].numpy(), "b1", (None, schema.n_rows))
    if settings.n_layers != len({name.split(".")[1] for name in weights if name.startswith("blocks.")}):
        raise ValueError(f"n_layers is {settings.n_layers}")
    network = NPT(schema.layout, settings, NoRandom(len(tensors["left_out"])))
    network.load_state_dict(weights, assign=True)
    for name, weight in weights.items():
        require_array(name, weight.numpy(), "f4", tuple(weight.shape))
    return network


def _model_card(model: FittedModel) -> str:
    schema, scorer = model.schema, model.scorer
    names = ", ".join(str(c.name)[:80] for c in schema.columns[:50])
    kinds = [c.kind for c in schema.columns]
    if isinstance(scorer, NetworkScore):
        how = (
            f"{scorer.ensemble.n_members} member(s), {len(scorer.history)} training steps, final loss "
            f"{scorer.history[-1]['loss']:.4f},\n{len(scorer.ensemble.masks)} masks, "
            f"{scorer.settings.row_attention} row attention. {scorer.ended_early or ''}"
        )
    else:
        how = f"Views of a row: {', '.join(view.name for view in scorer.views)}."
    return f"""# Anomaly detector (nptad {version("nptad")})

Trained on {schema.n_rows:,} rows with {kinds.count("numeric")} numeric and {kinds.count("categorical")} categorical
columns ({kinds.count("ignored")} ignored): {names}{" ..." if len(schema.columns) > 50 else ""}.

{how} A row is flagged when its score falls below {model.offset:.6g}.

The file `context-...` holds training rows, standardised: share this directory as you would share the training data.

    import nptad
    detector = nptad.load("this directory")
    detector.predict(table)  # -1 = anomaly
"""
