"""What made a score: the loss of each cell, the nearest training row, and the attended rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nptad.explain.result import CellReason, Explanation, NearestRow, RowExplanation, TrainingRow
from nptad.progress import progress_bar
from nptad.scoring.ensemble import Ensemble
from nptad.scoring.folds import MemberAssignment
from nptad.scoring.nearest import nearest_without_each_cell
from nptad.scoring.score import context_weights, expected_cells, mask_losses, pair_losses
from nptad.tables.encode import Cells, decode_cell, encode_cells, is_above, match, readable
from nptad.tables.frames import backend_of, read_columns
from nptad.tables.layout import LARGEST_STANDARDISED
from nptad.tables.schema import Schema

KEPT_TRAINING_ROWS = 10
"""Number of training rows named for each explained row: those with the largest weights."""


_ROWS_AT_ONCE = 64
"""Rows explained together; memory limits them, since each needs a weight for every training row in a context."""


_SUSPECTS = 32
"""Number of cells of a row, those with the largest losses, that are ignored in turn to see how the others change."""


def explain_rows(
    ensemble: Ensemble, schema: Schema, table: Any, by_member: np.ndarray | None = None, verbose: bool = False
) -> Explanation:
    """Explain every row of a table; a table without rows gives an explanation without rows.

    ``by_member`` are the scores of the rows under each member, if they are known already.
    """
    if getattr(table, "shape", (1,))[0] == 0:
        return Explanation((), backend_of(table))
    cells = match(schema, read_columns(table))
    x = encode_cells(schema, cells)
    x = np.where(np.isinf(x), np.float32(LARGEST_STANDARDISED), x)
    rows: list[RowExplanation] = []
    with progress_bar("Explaining", len(x), verbose) as advance:
        for start in range(0, len(x), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            known = None if by_member is None else by_member[block]
            rows += _explain_block(ensemble, schema, x[block], cells.take(block), known, start)
            advance(len(x[block]))
    return Explanation(tuple(rows), backend_of(table))


def _explain_block(
    ensemble: Ensemble,
    schema: Schema,
    x: np.ndarray,
    cells: Cells,
    by_member: np.ndarray | None,
    first_row: int,
) -> list[RowExplanation]:
    assignment = ensemble.assign_members(x)
    by_member = ensemble.member_scores(x, assignment) if by_member is None else by_member
    scores = assignment.mean(by_member)
    masks = ensemble.masks.to(ensemble.device)
    used, n_rows, n_numeric = schema.used, len(x), schema.layout.n_numeric
    numeric = np.zeros((n_rows, n_numeric))
    probabilities = np.zeros((n_rows, len(schema.layout.cardinalities), ensemble.model.out_category.shape[-1]))
    attended = np.unique(ensemble.context_rows)
    attention = np.zeros((n_rows, len(attended)))
    for k, member, judged, self_index in ensemble.rows_per_member(assignment):
        weight = assignment.weights[judged, k, None]
        rows = torch.from_numpy(x[judged]).to(ensemble.device)
        expected = expected_cells(member, rows, self_index)
        numeric[judged] += weight * expected.numeric.double().cpu().numpy()
        probabilities[judged] += weight[..., None] * expected.log_probabilities.double().exp().cpu().numpy()
        if member.cache:
            weights = context_weights(member, rows, masks, self_index).cpu().numpy()
            attention[np.ix_(judged, np.searchsorted(attended, ensemble.context_rows[k]))] += weight * weights
    suspicion, losses = _suspicion(ensemble, x, assignment)
    shares, near = _shares(suspicion), None
    if ensemble.model.settings.aggregation == "nearest":
        near = _compare_with_nearest(ensemble, x, assignment, by_member)
        shares = (1 - near.part) * shares + near.shares
    contributions = scores[:, None] * shares

    explained = []
    for i in range(n_rows):
        reasons = []
        for j in np.lexsort((-losses[i], -contributions[i])):
            column = used[j]
            if j < n_numeric:
                expected_code, probability = float(numeric[i, j]), None
            else:
                classes = probabilities[i, j - n_numeric]
                expected_code, probability = float(classes.argmax()), _seen_probability(x[i, j], classes)
            seen = cells.shown(column, i)
            expected_value = readable(column, decode_cell(column, expected_code))
            in_nearest = None
            if near and near.shares[i, j] > shares[i, j] / 2:
                other = ensemble.context[near.otherwise[i, j], j]
                in_nearest = None if other == x[i, j] else readable(column, decode_cell(column, float(other)))
            contribution = float(contributions[i, j])
            above = is_above(x[i, j], expected_code) if j < n_numeric and seen != expected_value else None
            reasons.append(
                CellReason(column.name, seen, expected_value, contribution, probability, in_nearest, above=above)
            )
        nearest = None
        if near and not np.isnan(x[i]).all():
            nearest = NearestRow(int(ensemble.context_source[near.place[i]]), float(near.distance[i]))
        explained.append(
            RowExplanation(
                first_row + i,
                float(scores[i]),
                tuple(reasons),
                _largest(attention[i], ensemble.context_source[attended]),
                float(attention[i].sum()),
                nearest,
            )
        )
    return explained


def _suspicion(ensemble: Ensemble, x: np.ndarray, assignment: MemberAssignment) -> tuple[np.ndarray, np.ndarray]:
    """The contribution of each cell, (n, D), up to a factor for each row, and the loss of each cell.

    The losses alone would also name intact cells. Where columns depend on one another, a corrupted cell distorts the
    expected values of the others, and some of them may then have a larger loss than the corrupted cell. But the others
    fit again only if the corrupted cell is ignored. So the contribution of a cell is the fall of the whole row's loss
    when the cell is ignored. If the loss falls for no cell of a row, the losses are used.
    """
    n_rows, n_features = x.shape
    masks, scale = ensemble.masks.numpy(), ensemble.mask_scale[:, None]
    in_score = (masks / scale).sum(axis=0) / masks.sum(axis=0).clip(min=1)  # weight of a cell's loss in the score
    singles = torch.eye(n_features, dtype=torch.bool, device=ensemble.device)
    losses = np.zeros((n_rows, n_features))
    for k, member, judged, self_index in ensemble.rows_per_member(assignment):
        rows = torch.from_numpy(x[judged]).to(ensemble.device)
        of_cells = mask_losses(member.unscaled(n_features), rows, singles, self_index).double().cpu().numpy()
        losses[judged] += assignment.weights[judged, k, None] * of_cells
    losses *= in_score

    suspects = np.argsort(-losses, axis=1, kind="stable")[:, :_SUSPECTS]
    ignoring = np.zeros((n_rows, suspects.shape[1], suspects.shape[1]))
    for k, member, judged, self_index in ensemble.rows_per_member(assignment):
        rows, cells = (torch.from_numpy(part[judged]).to(ensemble.device) for part in (x, suspects))
        ignoring[judged] += (
            assignment.weights[judged, k, None, None]
            * pair_losses(member, rows, cells, self_index).double().cpu().numpy()
        )
    ignoring *= in_score[suspects][:, None]
    alone = np.diagonal(ignoring, axis1=1, axis2=2)
    spoilt = (alone[:, None] - ignoring).sum(axis=2)  # fall of the other cells' losses when the cell is ignored
    fall = losses.copy()
    np.put_along_axis(fall, suspects, alone + spoilt, axis=1)
    return np.where((fall > 0).any(axis=1, keepdims=True), fall.clip(min=0), losses), losses


def _shares(amounts: np.ndarray) -> np.ndarray:
    """Each cell's share of the sum over its row; zeros where there is nothing to share."""
    total = amounts.sum(axis=1, keepdims=True)
    return np.divide(amounts, total, out=np.zeros_like(amounts), where=total > 0)


@dataclass(frozen=True)
class _Comparison:
    """Rows against the training rows nearest to them."""

    place: np.ndarray
    """The nearest row's place in the ensemble's context, (n,)."""
    otherwise: np.ndarray
    """The place of the row that is nearest when a cell is ignored, (n, D)."""
    distance: np.ndarray
    """How far it is, (n,), in units of the baseline."""
    part: np.ndarray
    """The share of the score that is due to the distance, between 0 and 1, (n, 1)."""
    shares: np.ndarray
    """That share, divided among the cells, (n, D)."""


def _compare_with_nearest(
    ensemble: Ensemble, x: np.ndarray, assignment: MemberAssignment, by_member: np.ndarray
) -> _Comparison:
    """Compare rows with their nearest training rows; members may have different ones.

    The nearest row over all members is named; parts and shares are means over members.

    The differences from the nearest row alone could point to the wrong cell: two rows with the same absurd price may be
    nearest to one another and differ in the year. So the contribution of a cell is the fall of the distance when the
    cell is ignored, as it is for the losses. With the year ignored, such a row would still be near the other one, so
    the distance is the mean over the nearest few.
    """
    place, nearest = np.full(len(x), -1), np.full(len(x), np.inf)
    otherwise, least = np.full(x.shape, -1), np.full(x.shape, np.inf)
    falls, part = np.zeros(x.shape), np.zeros((len(x), 1))
    n_observed = (~np.isnan(x)).sum(axis=1).clip(min=1)
    for k, member, judged, self_index in ensemble.rows_per_member(assignment):
        weight, rows = assignment.weights[judged, k], torch.from_numpy(x[judged]).to(ensemble.device)
        whole, without = nearest_without_each_cell(rows, member.neighbours, self_index)
        distance = whole.total.double().cpu().numpy() / n_observed[judged] / member.nearest_scale
        score = by_member[judged, k]
        squared = np.divide(distance**2, score, out=np.zeros_like(score), where=score > 0)
        part[judged, 0] += weight * squared**2
        _keep_nearer(place, nearest, judged, ensemble.neighbour_rows[k, whole.place.cpu().numpy()], distance)
        for j, rest in enumerate(without):
            falls[judged, j] += weight * (whole.mean_total - rest.mean_total).double().cpu().numpy()
            entry, total = ensemble.neighbour_rows[k, rest.place.cpu().numpy()], rest.total.double().cpu().numpy()
            _keep_nearer(otherwise[:, j], least[:, j], judged, entry, total)
    part = part.clip(max=1.0)
    return _Comparison(place, otherwise, nearest, part, part * _shares(falls))


def _keep_nearer(
    place: np.ndarray, distance: np.ndarray, rows: np.ndarray, new_place: np.ndarray, new_distance: np.ndarray
) -> None:
    """Replace places and distances of some rows where the new ones are nearer."""
    nearer = new_distance < distance[rows]
    place[rows[nearer]], distance[rows[nearer]] = new_place[nearer], new_distance[nearer]


def _largest(weights: np.ndarray, source: np.ndarray) -> tuple[TrainingRow, ...]:
    order = np.argsort(-weights, kind="stable")[:KEPT_TRAINING_ROWS]
    return tuple(TrainingRow(int(source[place]), float(weights[place])) for place in order if weights[place] > 0)


def _seen_probability(code: float, probabilities: np.ndarray) -> float | None:
    if code != code:
        return None
    return float(probabilities[int(code)]) if code >= 0 else 0.0
