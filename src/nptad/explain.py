"""Why a row is anomalous, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nptad.ensemble import Ensemble
from nptad.rawtable import read_columns
from nptad.score import cell_contributions, expected_cells
from nptad.table import Category, Schema, decode_cell, encode, match


@dataclass(frozen=True)
class CellReason:
    """One cell of a row and its part in the row's mean score."""

    column: str | int
    seen: Category | None
    """The value in the table, a time in seconds (since 1970, if it is a date); None if it is missing."""
    expected: Category | None
    """What the model expected from the rest of the row and the training rows."""
    contribution: float
    """The cell's share of the row's mean reconstruction loss; the shares add up to it."""
    probability: float | None = None
    """Probability that the model gave to the seen category; None for numbers."""


def explain_rows(ensemble: Ensemble, schema: Schema, table: Any) -> list[list[CellReason]]:
    """The cells of each row, largest contribution first."""
    x, cells = encode(schema, table), match(schema, read_columns(table))
    witnesses = ensemble.witnesses(x)
    n_rows, n_features = x.shape
    n_numeric = schema.layout.n_numeric
    contributions = np.zeros((n_rows, n_features))
    numeric = np.zeros((n_rows, n_numeric))
    probabilities: np.ndarray | float = 0.0
    for k, member in enumerate(ensemble.members):
        weight = witnesses.weights[:, k, None]
        rows = torch.from_numpy(x).to(ensemble.device)
        own = torch.from_numpy(witnesses.own).to(ensemble.device) if (witnesses.own >= 0).any() else None
        contributions += (
            weight * cell_contributions(member, rows, ensemble.masks.to(ensemble.device), own).cpu().numpy()
        )
        expected = expected_cells(member, rows, own)
        numeric += weight * expected.numeric.double().cpu().numpy()
        probabilities = probabilities + weight[..., None] * expected.log_probabilities.double().exp().cpu().numpy()
    assert isinstance(probabilities, np.ndarray)

    explained = []
    for i in range(n_rows):
        reasons = []
        for j, column in enumerate(schema.used):
            if j < n_numeric:
                expected_code, probability = numeric[i, j], None
            else:
                classes = probabilities[i, j - n_numeric]
                expected_code, probability = float(classes.argmax()), _seen_probability(x[i, j], classes)
            reasons.append(
                CellReason(
                    column.name,
                    _plain(cells[column.name][i]),
                    decode_cell(column, float(expected_code)),
                    float(contributions[i, j]),
                    probability,
                )
            )
        explained.append(sorted(reasons, key=lambda reason: -reason.contribution))
    return explained


def _plain(cell: Category | None) -> Category | None:
    return None if cell is None or cell != cell else cell.item() if isinstance(cell, np.generic) else cell


def _seen_probability(code: float, probabilities: np.ndarray) -> float | None:
    if code != code:
        return None
    return float(probabilities[int(code)]) if code >= 0 else 0.0
