"""What the two forests share: samples of the training rows, trees grown level by level, scoring in blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CELLS = 2**17  # cells of intermediate arrays at a time: few enough for the processor's cache

ROWS = 2**14  # rows scored at a time; their values in all trees are in memory together


def draw_samples(
    n_rows: int, n_trees: int, size: int, random: np.random.Generator, *, repeat: bool = False
) -> np.ndarray:
    """Row numbers of the sample of each tree, (n_trees, size); ``repeat`` draws with replacement."""
    return np.stack([random.choice(n_rows, size=size, replace=repeat) for _ in range(n_trees)])


def interval(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Number of the interval of each value, given the upper ends of all intervals but the last; an end is inside."""
    return (values[:, None] > bounds).sum(axis=1)


def next_level(
    members: np.ndarray,
    sizes: np.ndarray,
    points: np.ndarray,
    *,
    feature: np.ndarray,
    bounds: np.ndarray,
    child: np.ndarray,
    n_nodes: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Points of the nodes of the next level, node after node, and the number of points of each node.

    ``members`` and ``sizes`` are the same for this level, ``points`` the coordinates. ``feature``, ``bounds`` and
    ``child`` say how each node is cut; a node without a child (0) is a leaf, whose points are dropped.
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    stays = child[owner] > 0
    owner, members, points = owner[stays], members[stays], points[stays]
    values = points[np.arange(len(points)), feature[owner]]
    goes_to = child[owner] - n_nodes + interval(values, bounds[owner])
    return members[np.argsort(goes_to, kind="stable")], np.bincount(goes_to)


def score_in_blocks(score: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Scores of all rows, :data:`ROWS` at a time."""
    return np.concatenate([score(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)])
