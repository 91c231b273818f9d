"""The demo: find ten unusual wines and say why they are unusual."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table
from sklearn.datasets import load_wine

from nptad.detector import NPTAD
from nptad.explain.sentences import reasons_text
from nptad.metrics import ranking_metrics
from nptad.wording import duration, figure

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

    console.print(f"Learning from {len(train)} wines of two cultivars, {train.shape[1]} measurements each.")
    started = time.perf_counter()
    detector = NPTAD(random_state=seed, verbose=True).fit(train)
    scores = -detector.score_samples(test)
    seconds = time.perf_counter() - started

    quality = ranking_metrics(truth, scores)
    console.print(
        f"{len(test)} new wines, {N_ANOMALIES} of them of a third cultivar: F1 {100 * quality['f1_at_k']:.1f}%, "
        f"AUROC {100 * quality['auroc']:.1f}% ({duration(seconds)})."
    )
    table = Table(
        *(Column(name, justify="right") for name in ("wine", "score")),
        "third cultivar?",
        "reasons",
        title="The ten most anomalous wines and the reasons",
        title_justify="left",
    )
    shown = np.argsort(-scores, kind="stable")[:10]
    for i, why in zip(shown, detector.explain(test.take(shown)), strict=True):
        table.add_row(str(tested[i]), figure(scores[i]), "yes" if truth[i] else "no", reasons_text(why))
    console.print(table)
