"""Why a row is anomalous, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nptad.ensemble import Ensemble
from nptad.score import cell_contributions, expected_cells
from nptad.table import Category, Column, Schema, decode_cell


@dataclass(frozen=True)
class CellReason:
    """One cell of a row and its part in the row's mean score."""

    column: str | int
    seen: Category | None
    """The value in the table's units; None if it is missing or training never saw it."""
    expected: Category | None
    """What the model expected from the rest of the row and the training rows."""
    contribution: float
    """The cell's share of the row's mean reconstruction loss; the shares add up to it."""
    probability: float | None = None
    """Probability that the model gave to the seen category; None for numbers."""


def explain_rows(ensemble: Ensemble, schema: Schema, x: np.ndarray) -> list[list[CellReason]]:
    """The cells of each encoded row, largest contribution first."""
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
                cell = probabilities[i, j - n_numeric]
                expected_code, probability = float(cell.argmax()), _seen_probability(column, x[i, j], cell)
            reasons.append(
                CellReason(
                    column.name,
                    decode_cell(column, float(x[i, j])),
                    decode_cell(column, float(expected_code)),
                    float(contributions[i, j]),
                    probability,
                )
            )
        explained.append(sorted(reasons, key=lambda reason: -reason.contribution))
    return explained


def _seen_probability(column: Column, code: float, probabilities: np.ndarray) -> float | None:
    if code != code:
        return None
    return float(probabilities[int(code)]) if code >= 0 else 0.0
