"""Small random encoded tables and models shared by the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.settings import Settings
from nptad.tables.layout import CellLayout

MIXED = CellLayout(n_numeric=2, cardinalities=(3, 2))
NUMERIC = CellLayout(n_numeric=3, cardinalities=())
CATEGORICAL = CellLayout(n_numeric=0, cardinalities=(2, 4, 3))
LAYOUTS = (MIXED, NUMERIC, CATEGORICAL)


def random_rows(layout: CellLayout, n_rows: int, seed: int, missing: float = 0.15) -> torch.Tensor:
    """Encoded rows with missing cells."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(n_rows, layout.n_numeric))
    codes = random.integers(0, np.array(layout.cardinalities or (1,)), size=(n_rows, max(1, len(layout.cardinalities))))
    rows = np.hstack([numbers, codes[:, : len(layout.cardinalities)]]).astype(np.float32)
    rows[random.random(rows.shape) < missing] = np.nan
    return torch.from_numpy(rows)


def random_model(layout: CellLayout, seeds: list[int], **settings: Any) -> NPT:
    """An untrained stack in evaluation mode with lively weights."""
    defaults: dict[str, Any] = {"embedding_dim": 8, "rank": 8, "dropout": 0.1}
    return NPT(layout, Settings(**{**defaults, **settings}), MemberRandom(seeds)).eval()
