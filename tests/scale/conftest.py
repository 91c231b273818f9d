"""A small saved model, shared by all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nptad import NPTAD
from order_tables import orders


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("scale") / "model"
    detector = NPTAD(2, n_steps=20, embedding_dim=16, max_masked=1, random_state=0)
    detector.fit(orders(150, 0).drop_columns("id")).save(directory)
    return directory
