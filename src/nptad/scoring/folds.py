"""Which training rows each member leaves out, and which members may score which row."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64


def left_out_rows(n_rows: int, n_members: int, seed: int) -> Bool[np.ndarray, "K N"]:
    """Which training rows each member leaves out; equally many each, every row at least once.

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
    """The members that score each row."""

    weights: Float[np.ndarray, "N K"]
    """Weight of every member in the row's score; each row sums to 1."""
    self_index: Int[np.ndarray, " N"]
    """Entry of the row in the only member's context; -1 for none."""
    training_row: Int[np.ndarray, " N"]
    """The training row that the row is, the first of several copies; -1 for a new row."""

    def mean(self, scores: Float[np.ndarray, "N K"]) -> Float[np.ndarray, " N"]:
        """Score of each row from its scores under each member, which are NaN where the row is not assigned.

        It is the geometric mean: a huge score under one of many members does not make the row an outlier.
        """
        with np.errstate(divide="ignore"):  # a row without any observed cell scores 0
            return np.exp(np.where(self.weights > 0, np.log(scores) * self.weights, 0.0).sum(axis=1))


def row_keys(x: Float[np.ndarray, "N D"]) -> UInt64[np.ndarray, " N"]:
    """A 64-bit key for each encoded row, equal for equal rows.

    Standardised numbers are rounded to four decimals, so that a table written to a float32 or text file keeps its keys.
    """
    canonical = np.where(np.isnan(x), np.float32(np.nan), np.round(x, 4) + np.float32(0))  # one NaN, one zero
    digests = b"".join(
        blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(canonical, np.float32)
    )
    return np.frombuffer(digests, dtype=np.uint64)
