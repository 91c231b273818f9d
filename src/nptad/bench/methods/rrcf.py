"""Robust Random Cut Forest: anomalies push many points down when they join a random tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nptad.bench.methods.forests import CELLS, draw_samples, next_level, score_in_blocks
from nptad.bench.methods.scaling import Scaler, Scaling, check_count, check_new_rows, check_rows


@dataclass(kw_only=True, eq=False)
class RRCF:
    """Robust Random Cut Forest of the training rows.

    Guha, Mishra, Roy and Schrijvers, *Robust Random Cut Forest Based Anomaly Detection on Streams*, ICML 2016. A tree
    cuts its sample of the training rows until all different points are apart. The feature is drawn in proportion to the
    side of the points' bounding box, the place uniformly on that side. A row joins the tree as in Algorithm 2 of the
    paper: it walks down from the root, and at every node the bounding box is extended to hold the row. With probability
    extension / (extension + sides of the box) a cut falls between the row and the box, and the row becomes the sibling
    of that node. The collusive displacement of the row is a maximum over the subtrees C that hold it: the number of
    points that would move up if C was removed (the size of C's sibling), divided by the size of C. A row equal to a
    leaf joins that leaf: no cut can part them.

    The score is the mean displacement over the trees. The paper draws one random insertion per tree; this is the
    expectation over all insertions. The walk visits one node per level whatever is drawn, so the exact mean costs no
    more than a sample. It has less variance, and a row's score does not depend on the other rows.

    Notes
    -----
    The paper is about streams: every row first joins the sample and is then scored. Here the sample is drawn from the
    training rows and does not change. 100 trees of 256 points are customary; they are the defaults of Isolation Forest.
    """

    n_trees: int = 100  # trees in the forest
    sample_size: int = 256  # training rows per tree, drawn without replacement; all of them if there are fewer
    scaling: Scaling = "minmax"
    """How features are scaled, with statistics of the training rows. The paper says nothing about scaling, but the
    forest depends on it: without scaling, the feature with the largest numbers gets the cuts."""
    random_state: int | None = None  # seed of the samples and the cuts

    def fit(self, x: Any) -> Self:
        """Grow the forest on the training rows ``x``."""
        rows = check_rows(x)
        n_trees = check_count("n_trees", self.n_trees)
        size = min(check_count("sample_size", self.sample_size), len(rows))
        self.scaler_ = Scaler(rows, self.scaling)
        rows = self.scaler_.transform(rows)
        random = np.random.default_rng(self.random_state)
        samples = draw_samples(len(rows), n_trees, size, random)
        self.forest_ = grow_cut_trees(rows, samples, random.random((n_trees, size)))
        self.n_features_ = rows.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return the expected collusive displacement of each row, from 0 up to the sample size."""
        rows = check_new_rows(self, x)
        rows = self.scaler_.transform(rows)
        return score_in_blocks(lambda block: displacement(self.forest_, block).mean(axis=1), rows)


@dataclass(frozen=True)
class CutForest:
    """The nodes of all trees; the first ``n_trees`` are the roots."""

    n_trees: int
    low: np.ndarray  # (nodes, D): least corner of the bounding box of the node's points
    high: np.ndarray  # (nodes, D): largest corner
    sides: np.ndarray  # sum of the box's sides; 0 at leaves, which hold one point or several equal ones
    size: np.ndarray  # number of points
    feature: np.ndarray  # the feature that is cut (0 at leaves)
    cut: np.ndarray  # points up to this value go to the left child, the others to the right (0 at leaves)
    left: np.ndarray  # the left child; the right child is the next node (0 at leaves)


def grow_cut_trees(rows: np.ndarray, samples: np.ndarray, draws: np.ndarray) -> CutForest:
    """Grow one tree per sample, all trees together, level by level.

    ``samples`` (n_trees, size) are numbers of rows. ``draws``, of the same shape, are uniform random numbers in [0, 1):
    each tree takes one of its own per cut, breadth first.
    """
    n_trees, size = samples.shape
    members = samples.ravel()  # the points of the current level's nodes, node after node
    sizes = np.full(n_trees, size)
    tree = np.arange(n_trees)
    used = np.zeros(n_trees, dtype=np.intp)
    n_nodes = 0
    levels: list[tuple[np.ndarray, ...]] = []
    while len(sizes):
        points = rows.take(members, axis=0)
        starts = np.cumsum(sizes) - sizes
        low = np.minimum.reduceat(points, starts, axis=0)
        high = np.maximum.reduceat(points, starts, axis=0)
        n_nodes += len(sizes)
        reach = np.cumsum(high - low, axis=1)
        sides = reach[:, -1]
        inner = np.flatnonzero(sides > 0)
        # Number of the draw: the cuts of the tree at earlier levels, plus the node's rank among its cuts at this level.
        cut_tree = tree[inner]
        rank = np.arange(len(inner)) - np.searchsorted(cut_tree, cut_tree)
        draw = draws[cut_tree, used[cut_tree] + rank]
        used += np.bincount(cut_tree, minlength=n_trees)
        # One number gives feature and place: the sides are laid end to end, and the cut is a point on that line.
        place = np.minimum(draw * sides[inner], np.nextafter(sides[inner], 0))
        axis = (reach[inner] <= place[:, None]).sum(axis=1)
        top = high[inner, axis]
        feature, left = np.zeros((2, len(sizes)), dtype=np.intp)
        cut = np.zeros(len(sizes))
        feature[inner] = axis
        left[inner] = n_nodes + 2 * np.arange(len(inner))
        # Rounding must not put the cut at the top, where nothing would be on its right, nor below the bottom.
        cut[inner] = np.clip(top - (reach[inner, axis] - place), low[inner, axis], np.nextafter(top, -np.inf))
        levels.append((low, high, sides, sizes, feature, cut, left))
        members, sizes = next_level(
            members, sizes, points, feature=feature, bounds=cut[:, None], child=left, n_nodes=n_nodes
        )
        tree = np.repeat(cut_tree, 2)
    return CutForest(n_trees, *map(np.concatenate, zip(*levels, strict=True)))


def displacement(forest: CutForest, rows: np.ndarray) -> np.ndarray:
    """Return the expected collusive displacement of every row in every tree, (rows, trees)."""
    result = np.empty(forest.n_trees * len(rows))
    block = max(1, CELLS // rows.shape[1])
    for start in range(0, len(result), block):
        # Pairs are numbered tree by tree: a block has many rows and one tree, whose boxes stay in the cache.
        pairs = np.arange(start, min(start + block, len(result)))
        result[pairs] = _walk(forest, rows, *np.divmod(pairs, len(rows)))
    # Contiguous rows: their means do not depend on the number of rows.
    return np.ascontiguousarray(result.reshape(forest.n_trees, len(rows)).T)


def _walk(forest: CutForest, rows: np.ndarray, tree: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Displacement of ``rows[row[i]]`` in ``tree[i]``: all pairs walk down together, one level at a time."""
    result = np.zeros(len(row))
    pair = np.arange(len(row))
    node = tree
    chance = np.ones(len(row))  # probability that the row gets here
    above = np.zeros(len(row))  # largest ratio of the subtrees higher up
    while len(pair):
        points = rows.take(row, axis=0)  # faster than an index
        nearest = np.clip(points, forest.low.take(node, axis=0), forest.high.take(node, axis=0))
        extension = np.einsum("ij->i", np.abs(points - nearest))  # of the sides of the node's box
        sides = forest.sides[node]
        total = extension + sides
        equal = total == 0  # the row equals a leaf
        stops = np.where(equal, 1.0, extension / np.where(equal, 1.0, total))
        result[pair] += chance * stops * np.where(equal, above, np.maximum(above, forest.size[node]))
        inner = np.flatnonzero(sides)
        pair, row, node = pair[inner], row[inner], node[inner]
        chance = chance[inner] * (sides[inner] / total[inner])
        left = forest.left[node]
        right = rows[row, forest.feature[node]] > forest.cut[node]
        node = left + right
        above = np.maximum(above[inner], forest.size[left + ~right] / (forest.size[node] + 1))
    return result
