"""Which training rows each member leaves out, and which members may score which row."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np


def left_out_rows(n_rows: int, n_members: int, seed: int) -> np.ndarray:
    """Which training rows each member leaves out, (K, n); equally many each, every row at least once.

    A single member leaves out none.

    Examples
    --------
    >>> left_out_rows(7, 3, seed=0).sum(axis=1).tolist()
    [3, 3, 3]
    """
    left_out = np.zeros((n_members, n_rows), dtype=bool)
    if n_members > 1:
        fold = -(-n_rows // n_members)
        order = np.random.default_rng(seed).permutation(n_rows)
        for k in range(n_members):
            left_out[k, order[np.arange(k * fold, (k + 1) * fold) % n_rows]] = True
    return left_out


@dataclass(frozen=True)
class MemberAssignment:
    """The members that score each of n rows."""

    weights: np.ndarray
    """Weight of every member in the row's score, (n, K); each row sums to 1."""
    self_index: np.ndarray
    """Entry of the row in the only member's context, (n,); -1 for none."""
    training_row: np.ndarray
    """The training row that the row is, the first of several copies, (n,); -1 for a new row."""

    def mean(self, scores: np.ndarray) -> np.ndarray:
        """Score of each row from those under each member (n, K), which are NaN where the row is not assigned.

        The geometric mean: one member of many with a huge score does not make an outlier.
        """
        with np.errstate(divide="ignore"):  # a row without any observed cell scores 0
            return np.exp(np.where(self.weights > 0, np.log(scores) * self.weights, 0.0).sum(axis=1))


def row_keys(x: np.ndarray) -> np.ndarray:
    """A 64-bit key for each encoded row, equal for equal rows.

    Standardised numbers count to four decimals: a table keeps its keys on the way through a float32 or text file.
    """
    canonical = np.where(np.isnan(x), np.float32(np.nan), np.round(x, 4) + np.float32(0))  # one NaN, one zero
    digests = b"".join(
        blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(canonical, np.float32)
    )
    return np.frombuffer(digests, dtype=np.uint64)
