"""The demo: find ten unusual wines and say what gave them away."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

from nptad.detector import NPTAD

N_ANOMALIES = 10
SHOWN_ROWS, SHOWN_CELLS = 10, 3


def run_demo(seed: int = 0) -> None:
    """Fit on half of the normal wines, score the rest and ten anomalies, print what was found.

    The data are scikit-learn's wine set arranged as ODDS does: classes 2 and 3 are normal, ten wines of class 1 are
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

    order = np.argsort(-scores, kind="stable")
    f1 = truth[order[:N_ANOMALIES]].mean()
    console.print(
        f"{len(test)} new wines, {N_ANOMALIES} of them of a third cultivar: F1 {100 * f1:.1f} %, "
        f"AUROC {100 * roc_auc_score(truth, scores):.1f} % ({seconds:.0f} s)."
    )
    table = Table(
        title="The ten most anomalous wines and what gave them away (seen, expected or nearest)", title_justify="left"
    )
    table.add_column("wine", justify="right")
    table.add_column("score", justify="right")
    table.add_column("third cultivar?", justify="center")
    table.add_column("because of")
    shown = order[:SHOWN_ROWS]
    for i, why in zip(shown, detector.explain(test.take(shown)), strict=True):
        because = ", ".join(
            f"{r.column} {r.seen:.4g} ({f'not {r.expected:.4g}' if r.nearest is None else f'nearest {r.nearest:.4g}'})"
            for r in why.reasons[:SHOWN_CELLS]
        )
        table.add_row(str(tested[i]), f"{scores[i]:.2f}", "yes" if truth[i] else "no", because)
    console.print(table)
