"""Tensors have the shapes that the annotations in nn, training and scoring give.

The checks run in a process of their own. They must be installed before nptad is imported, they nearly double the time
that small models take, and they refuse bad arguments before nptad can say what is wrong with them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jaxtyping import TypeCheckError, install_import_hook


def test_shapes_are_those_of_the_annotations(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, __file__, tmp_path / "checkpoint"], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr


def fit_detect_and_explain(checkpoint: str) -> None:
    import numpy as np

    from nptad import NPTAD, Settings
    from test_golden import SETTINGS, mixed

    for parameters in ({}, *SETTINGS.values()):
        detector = NPTAD(random_state=0, **parameters).fit(mixed(120, 0))
        detector.detect(mixed(40, 1), false_alarm_rate=0.05)
        detector.detect(mixed(120, 0), fdr=0.05).ranking()
        detector.explain(mixed(3, 1))
    numbers = np.random.default_rng(0).normal(size=(60, 30))
    numbers[:, 0] = np.where(numbers[:, 1] > 0, np.nan, numbers[:, 0])
    for dropout in (0.0, 0.1):  # many cells: another attention between them
        Path(checkpoint).unlink(missing_ok=True)
        detector = NPTAD(random_state=0, n_members=2, settings=Settings(n_steps=3, attention_dropout=dropout))
        detector.fit(numbers, checkpoint=checkpoint).score_samples(numbers + 1)


def refuse_a_wrong_shape() -> None:
    import torch

    from nptad.nn.loss import masked_mean

    try:
        masked_mean(torch.zeros(2, 3, 4), torch.ones(2, 3, 1, dtype=torch.bool))
    except TypeCheckError:
        return
    raise AssertionError("Annotations are not checked.")


if __name__ == "__main__":
    install_import_hook(["nptad.nn", "nptad.training", "nptad.scoring"], "beartype.beartype")
    refuse_a_wrong_shape()
    fit_detect_and_explain(*sys.argv[1:])
