"""The demo: find ten unusual wines and say why they are unusual."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from rich.console import Console
from sklearn.datasets import load_wine

from nptad.cli.terminal import print_anomalies
from nptad.detector import NPTAD
from nptad.metrics import ranking_metrics
from nptad.pipeline import explain_table, score_table
from nptad.wording import duration

N_ANOMALIES = 10


def run_demo(seed: int = 0) -> None:
    """Fit on half of the normal wines, score the other half and ten anomalies, and print the result.

    The data are scikit-learn's wine set, arranged as in ODDS: classes 2 and 3 are normal, and ten wines of class 1 are
    anomalies. The split is the paper's.
    """
    console = Console()
    data = load_wine()
    wines = pa.table(dict(zip(data.feature_names, data.data.T, strict=True)))
    random = np.random.default_rng(seed)
    normal = random.permutation(np.flatnonzero(data.target != 0))
    anomalies = random.choice(np.flatnonzero(data.target == 0), N_ANOMALIES, replace=False)
    half = len(normal) // 2
    tested = np.concatenate([normal[half:], anomalies])
    train, test = wines.take(normal[:half]), wines.take(tested)
    truth = np.arange(len(test)) >= len(test) - N_ANOMALIES
    test = test.append_column("wine", pa.array(tested)).append_column("third cultivar", pa.array(truth))

    console.print(f"Learning from {len(train)} wines of two cultivars, {train.shape[1]} measurements each.")
    started = time.perf_counter()
    detector = NPTAD(random_state=seed, verbose=True).fit(train)
    result = score_table(detector, test, ignore=["wine", "third cultivar"], false_alarm_rate=0.05, first_row=1)
    seconds = time.perf_counter() - started

    quality = ranking_metrics(truth, result.detection.score)
    console.print(
        f"{len(test)} new wines, {N_ANOMALIES} of them of a third cultivar: F1 {100 * quality['f1_at_k']:.1f}%, "
        f"AUROC {100 * quality['auroc']:.1f}% ({duration(seconds)})."
    )
    shown = result.detection.ranking()[:10]
    print_anomalies(explain_table(detector, result.columns, shown, result.detection), result)
