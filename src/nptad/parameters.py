"""The parameters of :class:`nptad.NPTAD`: whether they make sense, which network they ask for, how a file holds them.

Each function takes the parameters by name, as ``get_params`` returns them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from nptad.errors import InputError
from nptad.settings import Settings, default_members, default_settings
from nptad.validation import is_number, is_whole, require

_OF_SETTINGS = ("embedding_dim", "n_steps", "batch_size", "learning_rate")
"""Parameters with the name of what they change in the settings."""

_OF_NETWORKS = ("n_members", *_OF_SETTINGS, "max_masked", "settings")
"""If one of these is given, the network is trained and makes the score."""


def wants_network(parameters: Mapping[str, Any]) -> bool:
    """Whether a network is to be trained."""
    return any(parameters[name] is not None for name in _OF_NETWORKS)


def check_parameters(parameters: Mapping[str, Any], checkpoint: Any) -> None:
    """Reject what makes no sense before any work is done."""
    share, training, seconds = (parameters[name] for name in ("contamination", "training", "time_limit"))
    state, verbose = parameters["random_state"], parameters["verbose"]
    is_share = is_number(share) and 0 < share <= 0.5
    is_auto = isinstance(share, str) and share == "auto"
    require(is_auto or is_share, "contamination", "'auto' or a number above 0 and up to 0.5", share)
    require(training in ("clean", "contaminated"), "training", "'clean' or 'contaminated'", training)
    if training == "contaminated" and wants_network(parameters):
        raise InputError("training='contaminated' is for the default score; fit a network on normal rows instead.")
    is_limit = seconds is None or (is_number(seconds) and seconds > 0)
    require(is_limit, "time_limit", "None or a number of seconds above 0", seconds)
    is_state = state is None or isinstance(state, np.random.RandomState | np.random.Generator)
    is_state = is_state or (is_whole(state) and state >= 0)
    expected = "None, a whole number of at least 0, a RandomState or a Generator"
    require(is_state, "random_state", expected, state)
    require(isinstance(verbose, int | np.bool_), "verbose", "True or False", verbose)
    if checkpoint is not None:
        require(isinstance(checkpoint, str | PathLike), "checkpoint", "a path", checkpoint)
        if not is_whole(state):
            raise InputError("A checkpoint needs a whole number as random_state; set random_state to use one.")


def network_settings(parameters: Mapping[str, Any], n_rows: int, n_features: int) -> Settings:
    """The settings of the network for a table of this size."""
    given, embedding_dim, max_masked = (parameters[name] for name in ("settings", "embedding_dim", "max_masked"))
    settings = given
    if settings is None or settings == "network":
        settings = default_settings(n_rows, n_features, embedding_dim if is_whole(embedding_dim) else None)
    if not isinstance(settings, Settings):
        raise InputError(f"settings must be nptad.Settings, 'network' or None, got {settings!r:.60}.")
    changes = {name: parameters[name] for name in _OF_SETTINGS if parameters[name] is not None}
    if max_masked is not None:
        require(is_whole(max_masked) and max_masked >= 1, "max_masked", "a whole number of at least 1", max_masked)
        changes["mask_sizes"] = tuple(range(1, int(max_masked) + 1))
        if not isinstance(given, Settings):  # all such masks, not as few as the default rule takes
            changes["max_masks"] = Settings.max_masks
    return dataclasses.replace(settings, **changes)


def network_members(parameters: Mapping[str, Any], n_rows: int) -> int:
    """The networks in the ensemble for a table of this size."""
    count = parameters["n_members"]
    if count is None:
        return default_members(n_rows)
    is_count = is_whole(count) and 1 <= count <= n_rows
    require(is_count, "n_members", f"a whole number from 1 to the number of rows ({n_rows})", count)
    return int(count)


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as JSON can hold them; a random generator is not part of a fitted model."""
    settings, columns, state = (parameters[name] for name in ("settings", "columns", "random_state"))
    return {
        **parameters,
        "settings": settings.to_dict() if isinstance(settings, Settings) else settings,
        "random_state": state if isinstance(state, int | np.integer) else None,
        "columns": None if columns is None else [list(item) for item in columns.items()],
        "device": str(parameters["device"]),
    }


def saved_parameters(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a saved model, also of one that an earlier version saved."""
    parameters = dict(plain)
    parameters.pop("mask_rate", None)  # what it set is in the model's settings
    features = parameters.pop("categorical_features", None)  # the name of columns up to version 0.1
    columns = parameters.pop("columns", None)
    if features is not None:
        columns = [[name, "category"] for name in features]
    parameters["columns"] = None if columns is None else dict(columns)
    return parameters
