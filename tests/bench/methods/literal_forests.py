"""RRCF and PIDForest as their papers word them: one tree, one node, one row at a time, in plain Python.

The oracles of the vectorised forests. They are given the same samples and random numbers.
"""

from __future__ import annotations

import math
import random
from collections import deque
from itertools import accumulate, pairwise

import numpy as np

from nptad.bench.methods.pidforest import PIDForest
from nptad.bench.methods.rrcf import RRCF

Point = list[float]


class CutNode:
    """A node of a robust random cut tree; a leaf holds one point or several equal ones."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points
        self.low = [min(column) for column in zip(*points, strict=True)]
        self.high = [max(column) for column in zip(*points, strict=True)]
        self.reach = list(accumulate(high - low for low, high in zip(self.low, self.high, strict=True)))
        self.is_leaf = self.reach[-1] == 0

    def split(self, draw: float) -> tuple[CutNode, CutNode]:
        """Cut the box where ``draw`` says, on the line that its sides make if laid end to end."""
        place = min(draw * self.reach[-1], math.nextafter(self.reach[-1], 0))
        self.feature = next(j for j, reach in enumerate(self.reach) if reach > place)
        low, high = self.low[self.feature], self.high[self.feature]
        self.cut = min(max(high - (self.reach[self.feature] - place), low), math.nextafter(high, -math.inf))
        self.left = CutNode([point for point in self.points if point[self.feature] <= self.cut])
        self.right = CutNode([point for point in self.points if point[self.feature] > self.cut])
        return self.left, self.right

    def follow(self, point: Point) -> tuple[CutNode, CutNode]:
        """The child that the point goes to, and the other."""
        return (self.left, self.right) if point[self.feature] <= self.cut else (self.right, self.left)

    def extension(self, point: Point) -> float:
        """By how much the point extends the sides of the box."""
        box = zip(point, self.low, self.high, strict=True)
        return sum(max(low - value, 0.0) + max(value - high, 0.0) for value, low, high in box)


def grow_cut_tree(points: list[Point], draws: list[float]) -> CutNode:
    """Cut until all different points are apart; breadth first, so that it is clear which cut uses which draw."""
    root = CutNode(points)
    left_over = iter(draws)
    queue = deque([root])
    while queue:
        node = queue.popleft()
        if not node.is_leaf:
            queue.extend(node.split(next(left_over)))
    return root


def random_displacement(root: CutNode, point: Point, generator: random.Random) -> float:
    """Insert the point once (Algorithm 2 of Guha et al.) and return its collusive displacement."""
    ratios = [0.0]
    node = root
    while True:
        extension, sides = node.extension(point), node.reach[-1]
        if extension == 0 and node.is_leaf:
            return max(ratios)  # the point joins its equals
        if generator.uniform(0, extension + sides) < extension:
            return max([*ratios, len(node.points)])  # a cut between box and point: the node becomes its sibling
        node, sibling = node.follow(point)
        ratios.append(len(sibling.points) / (len(node.points) + 1))


def expected_displacement(root: CutNode, point: Point) -> float:
    """The mean of :func:`random_displacement` over all random numbers."""
    result, chance, above = 0.0, 1.0, 0.0
    node = root
    while True:
        extension, sides = node.extension(point), node.reach[-1]
        if extension == 0 and node.is_leaf:
            return result + chance * above
        stops = extension / (extension + sides)
        result += chance * stops * max(above, len(node.points))
        if node.is_leaf:
            return result
        chance *= sides / (extension + sides)
        node, sibling = node.follow(point)
        above = max(above, len(sibling.points) / (len(node.points) + 1))


def member_displacement(root: CutNode, point: Point) -> float:
    """The collusive displacement of a point that the tree was grown with."""
    ratios = [0.0]
    node = root
    while not node.is_leaf:
        node, sibling = node.follow(point)
        ratios.append(len(sibling.points) / len(node.points))
    return max(ratios)


def rrcf_scores(rows: np.ndarray, samples: np.ndarray, draws: np.ndarray, new_rows: np.ndarray) -> np.ndarray:
    """What RRCF scores, from scaled rows."""
    points = rows.tolist()
    roots = [
        grow_cut_tree([points[i] for i in sample], numbers)
        for sample, numbers in zip(samples.tolist(), draws.tolist(), strict=True)
    ]
    scores = [sum(expected_displacement(root, row) for root in roots) / len(roots) for row in new_rows.tolist()]
    return np.array(scores)


class BoxNode:
    """A node of a PIDForest tree: a box and the points in it."""

    def __init__(self, points: list[Point], low: Point, high: Point, depth: int) -> None:
        self.points = points
        self.low = low
        self.high = high
        self.depth = depth
        self.children: list[BoxNode] = []

    def grow(self, max_depth: int, n_buckets: int) -> None:
        """Cut the box along the feature with the largest variance of sparsity, then its children."""
        if self.depth == max_depth or len(self.points) == 1:
            return
        columns = [sorted(column) for column in zip(*self.points, strict=True)]
        cuts = [best_cut(column, self.low[j], self.high[j], n_buckets) for j, column in enumerate(columns)]
        self.feature = max(range(len(cuts)), key=lambda j: cuts[j][0])
        self.bounds = cuts[self.feature][1]
        edges = [self.low[self.feature], *self.bounds, self.high[self.feature]]
        for k in range(len(edges) - 1) if self.bounds else ():
            low, high = self.low.copy(), self.high.copy()
            low[self.feature], high[self.feature] = edges[k], edges[k + 1]
            child = BoxNode([p for p in self.points if self._bucket(p) == k], low, high, self.depth + 1)
            child.grow(max_depth, n_buckets)
            self.children.append(child)

    def _bucket(self, point: Point) -> int:
        return sum(point[self.feature] > bound for bound in self.bounds)

    def leaf(self, point: Point) -> BoxNode:
        """The final box of a point, or the one nearest to it."""
        node = self
        while node.children:
            node = node.children[node._bucket(point)]
        return node

    def log_sparsity(self, point: Point, root: BoxNode, units: list[float]) -> float:
        """Of the box, extended to hold the point, compared with the root's; constant features have a unit's length."""
        result = -math.log(len(self.points) / len(root.points))
        for j, value in enumerate(point):
            if root.high[j] > root.low[j]:
                side = max(self.high[j], value) - min(self.low[j], value)
                result += math.log(side / (root.high[j] - root.low[j]))
            else:
                result += math.log((units[j] + abs(value - root.low[j])) / units[j])
        return result


def best_cut(values: list[float], low: float, high: float, n_buckets: int) -> tuple[float, list[float]]:
    """The intervals of sorted values with the largest sum of (share of length)^2 / points, and that sum.

    best[b][j] is the largest sum for the first j values in b intervals.
    """
    n = len(values)
    middles = [math.nan] + [min((a + b) / 2, math.nextafter(b, -math.inf)) for a, b in pairwise(values)]
    place = [0.0] + [(middle - low) / (high - low) if high > low else 0.0 for middle in middles[1:]] + [1.0]
    possible = [False] + [a < b for a, b in pairwise(values)] + [True]
    best = [[-math.inf] * (n + 1) for _ in range(n_buckets + 1)]
    come_from = [[0] * (n + 1) for _ in range(n_buckets + 1)]
    best[0][0] = 0.0
    for b in range(1, n_buckets + 1):
        for j in range(1, n + 1):
            if not possible[j]:
                continue
            for i in range(j):
                length = place[j] - place[i]
                total = best[b - 1][i] + length * length / (j - i)
                if total > best[b][j]:
                    best[b][j] = total
                    come_from[b][j] = i
    b = max(range(n_buckets + 1), key=lambda b: best[b][n])
    total = best[b][n]
    bounds: list[float] = []
    j = n
    while b > 1:
        j = come_from[b][j]
        bounds.insert(0, middles[j])
        b -= 1
    return total, bounds


def pidforest_scores(
    rows: np.ndarray, samples: np.ndarray, new_rows: np.ndarray, max_depth: int, n_buckets: int, quantile: float
) -> np.ndarray:
    """What PIDForest scores."""
    points = rows.tolist()
    units = [(max(column) - min(column)) or 1.0 for column in zip(*points, strict=True)]
    roots = []
    for sample in samples.tolist():
        chosen = [points[i] for i in sample]
        columns = list(zip(*chosen, strict=True))
        root = BoxNode(chosen, [min(column) for column in columns], [max(column) for column in columns], depth=0)
        root.grow(max_depth, n_buckets)
        roots.append(root)
    scores = []
    for row in new_rows.tolist():
        sparsity = [root.leaf(row).log_sparsity(row, root, units) for root in roots]
        scores.append(np.quantile(sparsity, quantile))
    return np.array(scores)


def draw_cut_forest(rows: np.ndarray, n_trees: int, size: int, seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Samples and random numbers as RRCF draws them."""
    generator = np.random.default_rng(seed)
    samples = np.stack([generator.choice(len(rows), size=size, replace=False) for _ in range(n_trees)])
    return samples, generator.random((n_trees, size))


def literal_rrcf(detector: RRCF, x: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The scores of a fitted RRCF."""
    rows, new_rows = detector.scaler_.transform(x), detector.scaler_.transform(new)
    draws = draw_cut_forest(rows, detector.n_trees, min(detector.sample_size, len(x)), detector.random_state)
    return rrcf_scores(rows, *draws, new_rows)


def literal_pidforest(detector: PIDForest, x: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The scores of a fitted PIDForest."""
    generator = np.random.default_rng(detector.random_state)
    size = min(detector.sample_size, len(x))
    repeat = len(x) <= size
    samples = np.stack([generator.choice(len(x), size=size, replace=repeat) for _ in range(detector.n_trees)])
    return pidforest_scores(x, samples, new, detector.max_depth, detector.n_buckets, detector.quantile)
