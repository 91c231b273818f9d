"""A network that retrieves: a hidden cell is predicted by the values that similar rows have in its column.

Query and context rows share one projection. A context row's weight for a query row falls with the squared distance of
the two projections, at a temperature that each head learns. The prediction for a hidden cell is a mixture of kernels
on the values of the context rows, with these weights:

- a number may be exactly the value of a context row, or lie near it (a Laplace kernel of learnt width, after a learnt
  linear part of the row's other numbers has been subtracted on both sides),
- a category may be that of a context row,
- and with a small learnt probability the cell is anything: Cauchy for a number, any category alike.

One more head weighs all context rows alike, so that a value that similar rows do not have, but others do, is not
impossible. How often values are new in a column is learnt as Good and Turing estimate it: each row is left out of its
own context, so that a value that occurs once has never been seen.

A gap is a hidden cell that is never predicted. In a context row it carries no weight for its column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from nptad.tables.layout import CellLayout

_LARGEST = 50.0
"""Standard deviations at which numbers are cut off, so that one cell does not drown the others."""
_POINT = 1e3
"""Density of a number that is exactly that of a context row: as if values were exact to a thousandth of a deviation."""
_CAUCHY = 3.0
"""Standard deviations within which half of the numbers lie that can be anything."""
_LEAST = 1e-30
"""Least density, so that its logarithm is finite."""
_NEVER = -1e9
"""Logit of a context row that is not seen; finite, since a column may have no others."""
_SPEED = 5.0
"""How much faster widths, temperatures and shares are learnt than weights: they have further to go."""
_PAIRS_AT_ONCE = 2**19
"""Pairs of a query and a context row in memory at a time; no more than what a processor keeps near."""


@dataclass(frozen=True)
class RetrievalSizes:
    """Sizes of a network."""

    layout: CellLayout
    embedding: int = 8
    """Numbers that a cell becomes."""
    rank: int = 8
    """Numbers that a head compares rows by."""
    heads: int = 2

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The shape of each part of the weights of a member, in their order."""
        d, n, e = self.layout.n_features, self.layout.n_numeric, self.embedding
        return {
            "slope": (n, e),
            "bend": (n, e),
            "offset": (n, e),
            "category": (sum(self.layout.cardinalities), e),
            "hidden": (d, e),
            "project": (d, e, self.heads * self.rank),
            "temperature": (self.heads,),
            "head": (d, self.heads + 1),
            "width": (n,),
            "exact": (n,),
            "anything": (d,),
            "hint": (n, n),
            "hint_used": (n,),
        }


class RetrievalNetwork:
    """K members of the network, from their weights in one matrix.

    Parameters
    ----------
    sizes : RetrievalSizes
    weights : Tensor of shape (K, P)
        The parts of :attr:`RetrievalSizes.parts`, flattened, one after the other.
    """

    def __init__(self, sizes: RetrievalSizes, weights: Float[Tensor, "K P"]) -> None:
        self.sizes, self.weights = sizes, weights
        shapes = sizes.parts
        pieces = weights.split([math.prod(shape) for shape in shapes.values()], dim=1)
        part = {name: piece.unflatten(1, shapes[name]) for name, piece in zip(shapes, pieces, strict=True)}
        self._part = part
        cards = sizes.layout.cardinalities
        k, n_numeric = len(weights), sizes.layout.n_numeric
        ones = weights.new_ones(k, len(cards))
        self._starts = torch.tensor(np.cumsum([0, *cards])[:-1], dtype=torch.long)
        self._temperature = (_SPEED * part["temperature"]).exp()
        # What follows has an entry for each column, so that numbers and categories are computed alike.
        self._exact = torch.cat([(_SPEED * part["exact"]).sigmoid() * _POINT, ones], 1)
        self._near = torch.cat([(-_SPEED * part["exact"]).sigmoid(), 0 * ones], 1)
        self._width = torch.cat([(_SPEED * part["width"]).exp(), ones], 1)
        self._head = (_SPEED * part["head"]).softmax(-1)
        self._anything = (_SPEED * part["anything"]).sigmoid()
        self._hint = part["hint"] * part["hint_used"].sigmoid()[..., None] * (1 - torch.eye(n_numeric))
        self._uniform = torch.tensor([1 / (c + 1) for c in cards], dtype=weights.dtype)

    @classmethod
    def start(cls, sizes: RetrievalSizes, x: Float[np.ndarray, "_ D"], seeds: list[int]) -> Float[Tensor, "K P"]:
        """Weights to start from, drawn with a seed for each member and fitted to the rows where a formula does it."""
        return torch.stack([_start(sizes, x, seed) for seed in seeds])

    def cells(self, x: Float[Tensor, "K N D"], hidden: Bool[Tensor, "K N D"]) -> Float[Tensor, "K N D R"]:
        """What each cell adds to the projection of its row."""
        return torch.einsum("knde,kder->kndr", self._embed(x, hidden), self._part["project"])

    def project(self, x: Float[Tensor, "K N D"], hidden: Bool[Tensor, "K N D"]) -> Float[Tensor, "K N R"]:
        """The projection of each row, the sum over its cells."""
        return self._embed(x, hidden).flatten(2) @ self._part["project"].flatten(1, 2)

    def _embed(self, x: Tensor, hidden: Tensor) -> Float[Tensor, "K N D E"]:
        part, n = self._part, self.sizes.layout.n_numeric
        numbers = x[..., :n].nan_to_num().clamp(-_LARGEST, _LARGEST)[..., None]
        embedded = functional.gelu(
            numbers * part["slope"][:, None] + numbers.tanh() * part["bend"][:, None] + part["offset"][:, None]
        )
        codes = x[..., n:]
        unknown = hidden | x.isnan()
        if len(self._starts):
            unknown = unknown | functional.pad(codes < 0, (n, 0))
            place = codes.nan_to_num().clamp(min=0).long() + self._starts
            member = torch.arange(len(x))[:, None, None]
            embedded = torch.cat([embedded, part["category"][member, place]], 2)
        return torch.where(unknown[..., None], part["hidden"][:, None], embedded)

    def hidden_cells(self) -> Float[Tensor, "K D R"]:
        """What a hidden cell of each column adds to the projection."""
        return torch.einsum("kde,kder->kdr", self._part["hidden"], self._part["project"])

    def logits(self, query: Float[Tensor, "K N R"], context: Float[Tensor, "K C R"]) -> Float[Tensor, "K heads N C"]:
        """Minus the squared distance of the projections, times the temperature."""
        q, c = (rows.unflatten(2, (self.sizes.heads, -1)).transpose(1, 2) for rows in (query, context))
        product = 2 * q @ c.transpose(2, 3) - c.square().sum(-1)[:, :, None] - q.square().sum(-1)[..., None]
        return product * self._temperature[..., None, None]

    def residuals(self, x: Float[Tensor, "K N D"]) -> Float[Tensor, "K N D"]:
        """Numbers without what the linear hint expects from the row's other numbers; categories as they are."""
        n = self.sizes.layout.n_numeric
        numbers = x[..., :n].clamp(-_LARGEST, _LARGEST)
        return torch.cat([numbers - numbers.nan_to_num() @ self._hint.transpose(1, 2), x[..., n:]], -1)

    def residuals_in(
        self, column: Int[Tensor, "K N"], values: Float[Tensor, "K N _"], x: Float[Tensor, "K _ D"]
    ) -> Float[Tensor, "K N _"]:
        """The residuals of the values that the rows ``x`` have in each of N columns, without those of all others."""
        n = self.sizes.layout.n_numeric
        if n == 0:
            return values
        numbers = x[..., :n].clamp(-_LARGEST, _LARGEST).nan_to_num()
        hint = self._hint[torch.arange(len(column))[:, None], column.clamp(max=n - 1)]
        return values.clamp(-_LARGEST, _LARGEST) - hint @ numbers.transpose(1, 2)

    def densities(
        self,
        column: Int[Tensor, "K N"],
        logits: Float[Tensor, "K heads N C"],
        cell: tuple[Float[Tensor, "K N"], Float[Tensor, "K N"]],
        others: tuple[Float[Tensor, "K _ C"], Float[Tensor, "K _ C"]],
    ) -> Float[Tensor, "K N"]:
        """The density (the probability, for a category) of one cell in each row.

        Parameters
        ----------
        column : Tensor of shape (K, N)
            Which cell.
        logits : Tensor of shape (K, heads, N, C)
        cell : two Tensors of shape (K, N)
            Its value, and its residual.
        others : two Tensors of shape (K, N or 1, C)
            Values and residuals of the context rows in the same column.
        """
        member = torch.arange(len(column))[:, None]
        (value, residual), (values, residuals) = cell, others
        exact, near, width = (p[member, column][..., None] for p in (self._exact, self._near, self._width))
        present = ~values.isnan()
        # Gaps become numbers here, since the gradient of NaN is NaN even where it has no weight.
        distance = (residual.nan_to_num()[..., None] - residuals.nan_to_num()).abs() / width
        kernel = exact * (value[..., None] == values) + near / (2 * width) * torch.exp(-distance)
        kernel = torch.where(present, kernel, 0.0)
        logits = torch.where(present[:, None], logits, _NEVER)
        weight = logits.softmax(-1)
        found = torch.einsum("khnc,knc->knh", weight, kernel)
        alike = kernel.sum(-1) / present.sum(-1).clamp(min=1)
        share = self._head[member, column]
        mixed = (share[..., :-1] * found).sum(-1) + share[..., -1] * alike
        anything = self._anything[member, column]
        return (1 - anything) * mixed + anything * self._anywhere(column, value)

    def _anywhere(self, column: Int[Tensor, "K N"], value: Float[Tensor, "K N"]) -> Float[Tensor, "K N"]:
        """The density of a cell that can be anything."""
        n = self.sizes.layout.n_numeric
        cauchy = 1 / (math.pi * _CAUCHY * (1 + (value.clamp(-_LARGEST, _LARGEST) / _CAUCHY).square()))
        if not len(self._uniform):
            return cauchy
        return torch.where(column < n, cauchy, self._uniform[(column - n).clamp(min=0)])


def cell_losses(
    network: RetrievalNetwork,
    x: Float[Tensor, "N D"],
    context: Float[Tensor, "C D"],
    own: Int[Tensor, " N"],
    columns: list[int],
) -> Float[Tensor, "N _"]:
    """Minus the log density of some cells of each row, each hidden alone, under a network of one member.

    Gaps are NaN. ``own`` is a row's own place in the context, which it does not see; -1 for none.
    """
    everyone, nothing = context[None], torch.zeros(1, 1, 1, dtype=torch.bool)
    keys, residuals = network.project(everyone, nothing), network.residuals(everyone)
    absent = network.hidden_cells()
    losses = torch.empty(len(x), len(columns))
    at_once = max(1, _PAIRS_AT_ONCE // max(1, len(context)))
    for start in range(0, len(x), at_once):
        query = x[None, start : start + at_once]
        mine = own[start : start + at_once, None] == torch.arange(len(context))
        cells, residual = network.cells(query, nothing), network.residuals(query)
        whole = cells.sum(2)
        for place, j in enumerate(columns):
            # The projection is a sum over cells, so that hiding one costs little.
            logits = network.logits(whole - cells[:, :, j] + absent[:, None, j], keys)
            values, expected = everyone[:, None, :, j], residuals[:, None, :, j]
            if mine.any():
                values = values.masked_fill(mine, math.nan)
            column = torch.full((1, query.shape[1]), j)
            density = network.densities(column, logits, (query[..., j], residual[..., j]), (values, expected))[0]
            losses[start : start + at_once, place] = -density.clamp(min=_LEAST).log()
    return losses.masked_fill(x[:, columns].isnan(), math.nan)


def nearest_retrieved(
    network: RetrievalNetwork, x: Float[Tensor, "N D"], context: Float[Tensor, "C D"], own: Int[Tensor, " N"]
) -> Float[Tensor, "N heads"]:
    """The distance of each row from the nearest context row under each head, with nothing hidden; arguments as above.

    Columns in which a row has a gap are left out on both sides, and the distance counts for the others.
    """
    nothing = torch.zeros(1, 1, 1, dtype=torch.bool)
    cells, absent = network.cells(context[None], nothing), network.hidden_cells()
    keys = cells.sum(2)
    found = torch.empty(len(x), network.sizes.heads)
    patterns, which = x.isnan().unique(dim=0, return_inverse=True)
    for place, gaps in enumerate(patterns):
        observed = keys - cells[:, :, gaps].sum(2)
        scale = len(gaps) / max(1, int((~gaps).sum()))
        for rows in torch.nonzero(which == place)[:, 0].split(max(1, _PAIRS_AT_ONCE // max(1, len(context)))):
            query = network.project(x[None, rows], nothing) - absent[:, gaps].sum(1)
            mine = own[rows, None] == torch.arange(len(context))
            logits = network.logits(query, observed).masked_fill(mine, _NEVER)
            found[rows] = -scale * logits.amax(-1)[0].T
    return found


def retrieval_weights(
    network: RetrievalNetwork, x: Float[Tensor, "N D"], context: Float[Tensor, "C D"], own: Int[Tensor, " N"]
) -> Float[Tensor, "N C"]:
    """How much each row attends to each context row with nothing hidden, the mean over heads; arguments as above."""
    nothing = torch.zeros(1, 1, 1, dtype=torch.bool)
    query, keys = (network.project(rows[None], nothing) for rows in (x, context))
    mine = own[:, None] == torch.arange(len(context))
    return network.logits(query, keys).masked_fill(mine, _NEVER).softmax(-1).mean(1)[0]


def _start(sizes: RetrievalSizes, x: np.ndarray, seed: int) -> Tensor:
    """Weights of one member."""
    random = torch.Generator().manual_seed(seed)
    n, cells = sizes.layout.n_numeric, sizes.layout.n_features * sizes.embedding
    scales = {"slope": 0.5, "bend": 0.2, "offset": 0.3, "category": 0.5, "project": 1 / math.sqrt(cells)}
    part = {name: scales.get(name, 0.0) * torch.randn(shape, generator=random) for name, shape in sizes.parts.items()}
    part["hidden"][:n] = functional.gelu(part["offset"])
    part["width"] += math.log(0.3) / _SPEED
    repeated = torch.tensor([_repeated(column) for column in x.T], dtype=torch.float32)
    part["exact"] = repeated[:n].logit() / _SPEED
    part["anything"] += math.log(0.03) / _SPEED
    numbers = np.nan_to_num(x[:, :n]).clip(-_LARGEST, _LARGEST)
    ridge = 0.05 if len(x) > 5 * n else 0.3
    precision = np.linalg.inv(numbers.T @ numbers / len(x) + ridge * np.eye(n))
    part["hint"] = torch.from_numpy(-0.5 * precision / np.diag(precision)[:, None]).float().fill_diagonal_(0.0)
    return torch.cat([values.flatten() for values in part.values()])


def _repeated(column: np.ndarray) -> float:
    """The share of cells whose value another row has too, between 0 and 1."""
    _, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return float((counts[counts > 1].sum() + 0.5) / (counts.sum() + 1))
