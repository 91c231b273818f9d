"""Tables for the tests of this folder."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def orders(n_rows: int, seed: int) -> pa.Table:
    """Rows with a key, numbers that depend on one another, gaps and a category."""
    random = np.random.default_rng(seed)
    size = random.normal(size=n_rows)
    weight = np.where(random.random(n_rows) < 0.02, 9.0, 2 * size + random.normal(0, 0.1, n_rows))
    gaps = pa.array([None if i % 50 == 7 else value for i, value in enumerate(size.tolist())])
    colour = np.where(size > 0, "red", "blue")
    return pa.table({"id": [f"A{i}" for i in range(n_rows)], "size": gaps, "weight": weight, "colour": colour})
