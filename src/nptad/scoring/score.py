"""The anomaly score: reconstruction losses over the mask bank against a cached context, reduced to one number.

The context is run once; afterwards a row attends only to the cached keys and values and to itself. So a score depends
on the row and the model alone: it is equal to 1e-5 (relative) whatever else is in the batch, and bit for bit the same
for the same call on the same machine.

Cost of scoring a row: masks x (layers x H^2 + context x H) for the full row attention, H = features x embedding, and
features x neighbours for the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nptad.nn.loss import Prediction, cell_losses
from nptad.nn.model import NPT, ContextCache
from nptad.scoring.nearest import NeighbourColumn, nearest_distances, prepare_neighbours

MEMORY_BUDGET = 256 * 2**20
"""Bytes that one chunk of reconstructions may take."""

CACHE_FRIENDLY = 8 * 2**20
"""Bytes of the widest activation in a chunk; more would spill out of the processor's cache and be slower."""

_LOSSES_AT_ONCE = 2**18
"""Losses (rows x masks) held before they are reduced to scores and progress is reported."""

SCALE_FLOOR = 0.01
"""Masks are scaled by no less than this: below a hundredth of a column's variance a loss is noise."""


@dataclass(frozen=True)
class Member:
    """One trained model with its context, ready to score."""

    model: NPT
    """A single member, in evaluation mode."""
    cache: ContextCache
    """Keys and values of its context rows."""
    neighbours: list[NeighbourColumn]
    """The rows that are searched for the nearest one."""
    n_train: int
    """Rows it was trained on."""
    mask_scale: Float[Tensor, " M"]
    """Divisor of the loss under each mask; ones for the paper's score."""
    nearest_scale: float
    """Divisor of the distance from the nearest neighbour."""

    def unscaled(self, n_masks: int) -> Member:
        """The same member with unscaled losses, for a bank of this many masks."""
        return replace(self, mask_scale=self.mask_scale.new_ones(n_masks))


@torch.no_grad()
def prepare_member(
    model: NPT,
    context: Float[Tensor, "C D"],
    n_train: int,
    mask_scale: Float[Tensor, " M"],
    neighbours: Float[Tensor, "neighbours D"] | None = None,
    nearest_scale: float = 1.0,
) -> Member:
    """Run the context rows once and keep their keys and values; they are the neighbours too unless others are given."""
    model = model.eval()
    cache = model.context(context.unsqueeze(0))
    near = prepare_neighbours(context if neighbours is None else neighbours, model.layout)
    return Member(model, cache, near, n_train, mask_scale, nearest_scale)


@torch.no_grad()
def score_rows(
    member: Member,
    x: Float[Tensor, "N D"],
    masks: Bool[Tensor, "M D"],
    aggregation: str = "mean",
    self_index: Int[Tensor, " N"] | None = None,
    advance: Callable[[int], None] | None = None,
) -> Float[np.ndarray, " N"]:
    """Anomaly scores of encoded rows, higher = more anomalous.

    Parameters
    ----------
    member : Member
        Trained model and context.
    x : Tensor
        Encoded rows.
    masks : Tensor
        The mask bank.
    aggregation : {"mean", "max", "nearest"}
        Over masks; see :class:`nptad.Settings`. Masks that hide only missing cells do not count; a row without any
        observed cell scores 0.
    self_index : Tensor, optional
        For training rows, their entry in the context, which is left out; -1 for none. In that case the context must
        also be the neighbours.
    advance : callable, optional
        Called with the number of rows finished since the last call.
    """
    scores = np.zeros(len(x))
    at_once = max(1, _LOSSES_AT_ONCE // len(masks))
    for start in range(0, len(x), at_once):
        block = slice(start, start + at_once)
        rows, self_rows = x[block], None if self_index is None else self_index[block]
        losses = mask_losses(member, rows, masks, self_rows, with_log=aggregation == "nearest").double()
        if aggregation == "max":
            result = losses.amax(1)
        else:
            result = losses.sum(1) / counted_masks(rows, masks).sum(1).clamp(min=1)
        if aggregation == "nearest":
            distances = nearest_distances(rows, member.neighbours, self_rows).double()
            result = with_nearest(result, distances / member.nearest_scale)
        scores[block] = result.cpu().numpy()
        if advance is not None:
            advance(len(losses))
    return scores


@torch.no_grad()
def mask_losses(
    member: Member,
    x: Float[Tensor, "N D"],
    masks: Bool[Tensor, "M D"],
    self_index: Int[Tensor, " N"] | None = None,
    *,
    with_log: bool = False,
) -> Float[Tensor, "N M"]:
    """Loss of every row under every mask: the sum over its hidden cells, divided by the mask's scale.

    Hidden cells that are missing count as the average of the others; 0 where all of them are missing. With ``with_log``
    the cells count by :func:`log_above_one`.
    """
    losses = x.new_empty(len(x) * len(masks))
    for chunk in _reconstructions(member, x, masks, self_index, with_log=with_log):
        losses[chunk.place] = chunk.losses.sum(1)
    return losses.view(len(x), len(masks))


def counted_masks(x: Float[Tensor, "N D"], masks: Bool[Tensor, "M D"]) -> Bool[Tensor, "N M"]:
    """Whether a mask hides an observed cell; other masks do not count in a row's mean."""
    return (~x.isnan()).float() @ masks.float().T > 0


@torch.no_grad()
def pair_losses(
    member: Member,
    x: Float[Tensor, "N D"],
    cells: Int[Tensor, "N T"],
    self_index: Int[Tensor, " N"] | None = None,
) -> Float[Tensor, "N T T"]:
    """Loss of one cell while a second is ignored, for some cells of each row.

    Entry (a, b) is the loss of the row's cell b with its cells a and b hidden, entry (b, b) that with b alone hidden.
    """
    n_cells = cells.shape[1]
    first, second = torch.triu_indices(n_cells, n_cells, device=x.device)
    plain = member.unscaled(len(first))
    losses = x.new_zeros(len(x), n_cells, n_cells)
    for i in range(len(x)):
        pairs = torch.stack((cells[i, first], cells[i, second]), dim=1)
        masks = torch.zeros(len(pairs), x.shape[1], dtype=torch.bool, device=x.device).scatter_(1, pairs, True)
        for chunk in _reconstructions(
            plain, x[i : i + 1], masks, None if self_index is None else self_index[i : i + 1]
        ):
            a, b = first[chunk.place], second[chunk.place]
            of_pair = chunk.losses.gather(1, pairs[chunk.place])
            losses[i, b, a], losses[i, a, b] = of_pair[:, 0], of_pair[:, 1]
    # Ignoring a missing cell changes nothing, but a mask of both counts the other cell twice: its loss alone is right.
    alone = losses.diagonal(dim1=1, dim2=2).unsqueeze(1).expand_as(losses)
    return torch.where(x.gather(1, cells).isnan().unsqueeze(2), alone, losses)


@torch.no_grad()
def context_weights(
    member: Member,
    x: Float[Tensor, "N D"],
    masks: Bool[Tensor, "M D"],
    self_index: Int[Tensor, " N"] | None = None,
) -> Float[Tensor, "N C"]:
    """How much every row attends to each context row, averaged over heads, layers and masks.

    Masks count as they do in the score. The rest up to 1 went to the row itself; without row attention, that is all
    of it.
    """
    n_context = member.cache[0][0].shape[2] if member.cache else 0
    total = x.new_zeros(len(x), n_context, dtype=torch.float64)
    if not member.cache:
        return total
    weight_floats = 4 * member.model.settings.n_heads * n_context
    at_once = max(1, min(MEMORY_BUDGET // (4 * weight_floats), _chunk_rows(member, x.shape[1], self_index is not None)))
    counted = counted_masks(x, masks)
    for i in torch.nonzero(counted.any(1)).flatten().tolist():
        for hidden in masks[counted[i]].split(at_once):
            rows = x[i].expand(1, len(hidden), -1)
            left_out = None if self_index is None else self_index[i].expand(1, len(hidden))
            weights = member.model.context_weights(rows, hidden.unsqueeze(0), member.cache, left_out)
            total[i] += weights[0].double().sum(0)
        total[i] /= counted[i].sum()
    return total


def mean_losses(losses: Float[Tensor, "N M"], counted: Bool[Tensor, "N M"]) -> Float[Tensor, " M"]:
    """Mean over rows of the losses under each mask, where the mask counts: the scale of normalised scores."""
    return (losses.sum(0) / counted.sum(0).clamp(min=1)).clamp(min=SCALE_FLOOR)


def log_above_one(losses: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Losses of cells, with a logarithm above 1 (the loss of a number off by one standard deviation).

    Columns that hardly vary have huge standardised values now and then, in normal rows too. Without the logarithm, a
    few such cells would decide the score of a wide row. Value and slope are continuous at 1.

    Examples
    --------
    >>> log_above_one(torch.tensor([0.25, 1.0, 100.0])).tolist()
    [0.25, 1.0, 5.605170249938965]
    """
    return losses.clamp(max=1) + losses.clamp(min=1).log()


def with_nearest(losses: Float[Tensor, " N"], distances: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """One score from losses and distances to the nearest neighbour, each in units of its baseline.

    Losses are squared errors, so distances are squared too. The score is the root of the sum of squares of the two, so
    that the larger one dominates. In a plain sum, noise in one would hide what the other detects.

    Examples
    --------
    >>> with_nearest(torch.tensor([3.0, 3.0]), torch.tensor([2.0, 0.0])).tolist()  # the second is a copy
    [5.0, 3.0]
    """
    squared = distances * distances
    return (losses * losses + squared * squared).sqrt()


@torch.no_grad()
def expected_cells(member: Member, x: Float[Tensor, "N D"], self_index: Int[Tensor, " N"] | None = None) -> Prediction:
    """What the model expects in each cell when only that cell is hidden."""
    n_features = x.shape[1]
    n_numeric = member.model.layout.n_numeric
    numeric, log_probabilities = [], []
    singles = torch.eye(n_features, dtype=torch.bool, device=x.device)
    for chunk in _reconstructions(member.unscaled(n_features), x, singles, self_index):
        feature = torch.arange(chunk.place.start, chunk.place.stop, device=x.device) % n_features
        is_numeric = feature < n_numeric
        pairs = torch.arange(len(feature), device=x.device)
        numeric.append(chunk.prediction.numeric[pairs[is_numeric], feature[is_numeric]])
        categorical = pairs[~is_numeric], feature[~is_numeric] - n_numeric
        log_probabilities.append(chunk.prediction.log_probabilities[categorical])
    n_classes = log_probabilities[0].shape[-1]
    return Prediction(
        torch.cat(numeric).view(len(x), n_numeric),
        torch.cat(log_probabilities).view(len(x), n_features - n_numeric, n_classes),
    )


@dataclass(frozen=True)
class _Chunk:
    """Reconstructions of consecutive (row, mask) pairs, masks running fastest."""

    place: slice
    prediction: Prediction
    losses: Float[Tensor, "R D"]
    """Loss of each hidden cell as it counts in the loss of its mask."""


def _reconstructions(
    member: Member,
    x: Float[Tensor, "N D"],
    masks: Bool[Tensor, "M D"],
    self_index: Int[Tensor, " N"] | None,
    *,
    with_log: bool = False,
) -> Iterator[_Chunk]:
    model, n_masks = member.model, len(masks)
    total = len(x) * n_masks
    size = _chunk_rows(member, x.shape[1], self_index is not None)
    wanted = _hidden_cells(masks)
    for start in range(0, total, size):
        stop = min(start + size, total)
        pair = torch.arange(start, stop, device=x.device)
        row = pair // n_masks
        mask = pair % n_masks
        rows, hidden = x[row], masks[mask]
        left_out = None if self_index is None else self_index[row].unsqueeze(0)
        prediction = model.query(rows.unsqueeze(0), hidden.unsqueeze(0), member.cache, wanted[None, mask], left_out)
        losses = cell_losses(prediction, rows.unsqueeze(0), model.layout, member.n_train)[0]
        targets = hidden & ~rows.isnan()
        weight = hidden.sum(1) / targets.sum(1).clamp(min=1) / member.mask_scale[mask]
        losses = (log_above_one(losses) if with_log else losses) * targets * weight.unsqueeze(1)
        prediction = Prediction(prediction.numeric[0], prediction.log_probabilities[0])
        yield _Chunk(slice(start, stop), prediction, losses)


def _hidden_cells(masks: Bool[Tensor, "M D"]) -> Int[Tensor, "M T"]:
    """The cells that each mask hides; a smaller mask repeats one of its cells."""
    largest = int(masks.sum(1).max())
    ranked = torch.argsort(masks.int(), dim=1, descending=True, stable=True)[:, :largest]
    return torch.where(masks.gather(1, ranked), ranked, ranked[:, :1])


def _chunk_rows(member: Member, n_features: int, leave_out: bool) -> int:
    """How many reconstructions fit into the memory budget and into the cache."""
    settings, model = member.model.settings, member.model
    width = n_features * settings.embedding_dim
    n_context = member.cache[0][0].shape[2] if member.cache else 0
    classes = model.out_category.shape[3] * len(model.layout.cardinalities)
    cell_pairs = settings.embedding_dim * n_features**2
    floats = 24 * width + 4 * classes + min(cell_pairs, 256 * width) + (2 * n_context if leave_out else 0)
    return int(max(1, min(MEMORY_BUDGET // (4 * floats), CACHE_FRIENDLY // (4 * 4 * width))))
