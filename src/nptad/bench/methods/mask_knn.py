"""Mask-KNN: hide some features of a row, impute them from its nearest training rows, add up the errors.

The method is appendix "Mask-KNN" of Thimonier et al. (ICML 2024). Done literally, it is one nearest-neighbour search
per row and mask. Here a row is compared with all training rows once, which leaves the few that can be a nearest
neighbour under *any* mask. All masks are then applied to those few only, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from nptad.bench.methods.scaling import check_count, check_new_rows, check_rows
from nptad.errors import InputError
from nptad.nn.masks import mask_bank
from nptad.nn.rng import spawn_seeds

# Sizes of work arrays, in numbers of 8 bytes. They affect memory and speed, not results.
_TILE = 2**16  # distances from some rows to all training rows
_POOL = 2**19  # candidates of many rows, kept until there are this many
_CHUNK = 2**18  # differences, by column, of some rows to their candidates


@dataclass(kw_only=True, eq=False)
class MaskKNN:
    r"""Score rows by how badly their hidden features are imputed from the nearest training rows.

    For each row z and each mask :math:`\ell` of the bank (all sets of at most r features), the k training rows x that
    are nearest to z on the visible features :math:`\mathcal{I}` impute the hidden ones (``eq:mask_knn_weighted``):

    .. math:: \hat z^i = \frac{1}{\sum_x \omega_x} \sum_x \omega_x x^i,
              \qquad \omega_x = 1 / d(z^{[\mathcal{I}]}, x^{[\mathcal{I}]})

    and the score is the mean over the bank of the distances :math:`d(z, \hat z^{(\ell)})`, to which only hidden
    features contribute. The paper has the sum (next equation, and the algorithm); the order of rows is the same, and
    means can be compared between banks. d is the Euclidean distance, not squared: it is the paper's example for d, and
    its KNNImputer uses it.

    As in scikit-learn's KNNImputer, if some of the k neighbours are at distance zero, only those count, and a mask that
    hides all features is imputed by the mean of the training rows. Of training rows at the same distance, the first in
    a random order (drawn in ``fit``) are neighbours.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> size = random.normal(size=(200, 1))
    >>> train = np.hstack([size, size]) + random.normal(scale=0.1, size=(200, 2))
    >>> scores = MaskKNN(random_state=0).fit(train).score(np.array([[1.0, 1.0], [1.0, -1.0]]))
    >>> bool(scores[1] > scores[0])
    True
    """

    n_neighbors: int = 5  # the paper's k; all training rows if there are fewer
    max_masked: int = 2  # the paper's r, the features hidden at a time; the paper takes 1 above 200,000 rows
    subsample: int = 10_000  # the paper's b: of larger training sets a random sample of this size is used
    max_masks: int = 5_000  # of a larger bank a random sample of this size is used, with a MaskBankWarning
    random_state: int | np.random.Generator | np.random.RandomState | None = None
    """Draws both samples and the order that decides between equal distances. The order in which the training rows are
    given has no influence."""

    def fit(self, x: np.ndarray, groups: np.ndarray | None = None) -> Self:
        """Keep the training rows ``x`` (or a sample of them), standardised, categories one-hot, and draw the masks.

        ``groups`` is the feature of each column, by default one each; the columns of a feature are hidden together.
        """
        for name in ("n_neighbors", "max_masked", "subsample", "max_masks"):
            check_count(name, getattr(self, name))
        rows = check_rows(x)
        columns = _columns_of_features(groups, rows.shape[1])
        order_seed, bank_seed = spawn_seeds(self.random_state, 2)
        bank = mask_bank(len(columns), range(1, self.max_masked + 1), self.max_masks, bank_seed).numpy()
        # Sorted first, so that the sample does not depend on the order of the rows; shuffled even if all rows are kept,
        # because the values that decide the sorting must not decide ties.
        rows = rows[np.lexsort(rows.T)]
        rows = rows[np.random.default_rng(order_seed).permutation(len(rows))[: self.subsample]]
        complete = bank.all(axis=1)  # without visible features there are no neighbours, and the mean imputes
        self._n_masks, self._n_complete = len(bank), int(complete.sum())
        self._largest = int(bank[~complete].sum(axis=1).max(initial=0))
        self._stems = _plan(bank[~complete], columns)
        self._columns = columns
        self._k = min(self.n_neighbors, len(rows))
        self.train_ = rows  # in the order that decides between equal distances
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: np.ndarray) -> np.ndarray:
        """Return how anomalous each row is, higher = more; a row's score does not depend on the other rows."""
        rows = check_new_rows(self, x)
        total = self._n_complete * np.linalg.norm(rows - self.train_.mean(axis=0), axis=1)
        if self._n_masks > self._n_complete:
            for batch, candidates in self._batches(rows):
                total[batch] += self._errors(rows[batch], candidates)
        return total / self._n_masks

    def _batches(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield row numbers with their candidates: ascending numbers of training rows, filled up with -1.

        Rows with similar numbers of candidates are in one batch. Every row is in exactly one batch.
        """
        n_train, n_columns = self.train_.shape
        by_column = np.ascontiguousarray(self.train_.T)
        tile = max(1, _TILE // n_train)
        pool: list[np.ndarray] = []
        for start in range(0, len(rows), tile):
            pool.append(self._candidates(rows[start : start + tile], by_column) + start * n_train)
            if start + tile < len(rows) and sum(map(len, pool)) < _POOL:
                continue
            owner, found = np.divmod(np.concatenate(pool), n_train)
            pool.clear()
            first = owner[0]
            owner -= first
            counts = np.bincount(owner)
            level = np.ceil(3 * np.log2(counts))  # numbers of candidates on a level differ by at most a quarter
            for value in np.unique(level):
                members = np.flatnonzero(level == value)
                width = counts[members].max()
                candidates = np.full((len(members), width), -1)
                candidates[np.arange(width) < counts[members, None]] = found[level[owner] == value]
                step = max(1, _CHUNK // (n_columns * width))
                for part in range(0, len(members), step):
                    yield first + members[part : part + step], candidates[part : part + step]

    def _candidates(self, rows: np.ndarray, by_column: np.ndarray) -> np.ndarray:
        """The training rows that can be a neighbour under some mask, as flat positions in (rows, training rows).

        Let D be the squared distance to a training row, P_j feature j's part of it, N any k training rows, U the
        largest D in N and q_j the smallest P_j in N. With the features of S hidden, all of N are within U - sum q_j.
        So a neighbour x has D(x) - sum P_j(x) <= U - sum q_j, with sums over S. Hence D(x) - U is at most the sum of
        the r largest of the P_j(x) - q_j, without negative ones. With the k nearest rows as N, this holds for few x.
        """
        norms = np.einsum("ij,ij->i", rows, rows)
        train_norms = np.einsum("ij,ij->j", by_column, by_column)
        distance = rows @ by_column
        distance *= -2
        distance += train_norms
        distance += norms[:, None]
        nearest = _smallest(distance, self._k)
        bound = distance.ravel()[nearest].max(axis=0)
        # This form of the distance has the rounding errors of its terms, which may be much larger than the distance.
        bound += 16 * (len(by_column) + 4) * np.finfo(float).eps * (norms + train_norms.max())
        near = np.square(rows - self.train_[nearest % len(train_norms)])
        largest = [np.zeros_like(distance) for _ in range(self._largest)]  # of the P_j - q_j, in descending order
        part, spare = np.empty_like(distance), np.empty_like(distance)
        for columns in self._columns:
            part[:] = -near[..., columns].sum(axis=-1).min(axis=0)[:, None]
            for column in columns:
                np.subtract(rows[:, column, None], by_column[column], out=spare)
                np.multiply(spare, spare, out=spare)
                np.add(part, spare, out=part)
            for rank in reversed(range(1, self._largest)):
                np.minimum(largest[rank - 1], part, out=spare)
                np.maximum(largest[rank], spare, out=largest[rank])
            np.maximum(largest[0], part, out=largest[0])
        for value in largest:
            distance -= value
        return np.flatnonzero(distance <= bound[:, None])

    def _errors(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The sum over the masks of each row's distance to its reconstruction."""
        shape = candidates.shape
        deviation = np.ascontiguousarray(np.moveaxis(self.train_[candidates] - rows[:, None], 2, 0))
        parts = np.stack([np.square(deviation[columns]).sum(axis=0) for columns in self._columns])
        parts[:, candidates < 0] = np.inf
        nothing = np.zeros((1, *shape))
        before = np.concatenate([nothing, parts.cumsum(axis=0)])
        after = np.concatenate([parts[::-1].cumsum(axis=0)[::-1], nothing])
        total = np.zeros(len(rows))
        for stem in self._stems:
            self._add_errors(total, stem, _visible_distances(stem, parts, before, after), deviation)
        return total

    def _add_errors(self, total: np.ndarray, stem: _Stem, distance: np.ndarray, deviation: np.ndarray) -> None:
        """Add the errors under the masks of a stem, given the squared distances (masks, rows, candidates)."""
        n_masks, n_rows, width = distance.shape
        nearest = _smallest(distance.reshape(-1, width), self._k)
        weight = _inverse_distances(distance.ravel()[nearest]).reshape(-1, n_masks, n_rows)
        nearest = nearest.reshape(-1, n_masks, n_rows) - np.arange(n_masks)[:, None] * (n_rows * width)
        for masks, columns in stem.hidden:
            cells = nearest[:, masks, None] + columns[..., None] * (n_rows * width)
            error = (deviation.ravel()[cells] * weight[:, masks, None]).sum(axis=0)
            total += np.sqrt(np.square(error).sum(axis=1)).sum(axis=0)


@dataclass(frozen=True)
class _Stem:
    """The masks that differ in their last feature only, which share sums of squared differences."""

    features: tuple[int, ...]  # all but the last
    leaves: tuple[int, ...]  # the last features, ascending
    hidden: list[tuple[np.ndarray, np.ndarray]]
    """Leaves with the same number of hidden columns: their positions, and the columns of each."""


def _plan(bank: np.ndarray, columns: list[np.ndarray]) -> list[_Stem]:
    """The stems of the bank (masks, features): longer ones before their own beginnings, otherwise ascending."""
    leaves: dict[tuple[int, ...], list[int]] = {}
    for mask in bank:
        *before, last = np.flatnonzero(mask).tolist()
        leaves.setdefault(tuple(before), []).append(last)
    stems = []
    for start in sorted(leaves, key=lambda features: (*features, len(columns))):
        ends = sorted(leaves[start])
        cells = [np.concatenate([columns[feature] for feature in (*start, end)]) for end in ends]
        hidden = []
        for size in sorted(set(map(len, cells))):
            masks = [i for i, mask_cells in enumerate(cells) if len(mask_cells) == size]
            hidden.append((np.array(masks), np.stack([cells[i] for i in masks])))
        stems.append(_Stem(start, tuple(ends), hidden))
    return stems


def _visible_distances(stem: _Stem, parts: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The squared distances (leaves, rows, candidates) over the features that each mask of a stem leaves visible.

    These are sums, never differences: a hidden feature may be larger than all others by any factor. ``before[j]`` is
    the sum of all parts before feature j, ``after[j]`` that of all parts from j on.
    """
    first = stem.features[0] if stem.features else stem.leaves[0]
    visible = before[first].copy()
    distance = np.empty((len(stem.leaves), *visible.shape))
    for feature in range(first, stem.leaves[-1] + 1):
        if feature in stem.leaves:
            np.add(visible, after[feature + 1], out=distance[stem.leaves.index(feature)])
        if feature not in stem.features:
            visible += parts[feature]
    return distance


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """Flat positions of the ``k`` smallest values of each row, shape (k, rows); of equal values, the first ones.

    On short rows this is several times faster than argpartition, which also takes any of equal values.
    """
    kth = np.partition(values, k - 1, axis=1)[:, k - 1, None]
    chosen = values <= kth
    positions = np.flatnonzero(chosen)
    if len(positions) > k * len(values):
        crowded = np.flatnonzero(chosen.sum(axis=1) > k)
        below = values[crowded] < kth[crowded]
        equal = values[crowded] == kth[crowded]
        room = k - below.sum(axis=1, keepdims=True)
        chosen[crowded] = below | (equal & (np.cumsum(equal, axis=1) <= room))
        positions = np.flatnonzero(chosen)
    return np.ascontiguousarray(positions.reshape(-1, k).T)


def _inverse_distances(squared: np.ndarray) -> np.ndarray:
    """Weights (neighbours, ...) with sum one; if there are neighbours at distance zero, only these have weight."""
    with np.errstate(divide="ignore"):
        weight = 1 / np.sqrt(squared)
    hit = np.isinf(weight)
    if hit.any():
        weight = np.where(hit.any(axis=0), hit, weight)
    return weight / weight.sum(axis=0)


def _columns_of_features(groups: np.ndarray | None, n_columns: int) -> list[np.ndarray]:
    if groups is None:
        return list(np.arange(n_columns)[:, None])
    groups = np.asarray(groups)
    if groups.shape != (n_columns,) or not np.issubdtype(groups.dtype, np.integer):
        raise InputError(
            f"groups must be an integer for each of the {n_columns} columns, the feature it belongs to; "
            f"got an array of shape {groups.shape} and type {groups.dtype}."
        )
    return [np.flatnonzero(groups == feature) for feature in np.unique(groups)]
