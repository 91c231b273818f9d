"""Which score finds anomalies that are made from training rows? No label is looked at.

    python benchmarks/synthetic.py               # 17 data sets, about half an hour on one thread
    python benchmarks/synthetic.py wine cardio   # some of them; the others stay as they were

Of the training rows (seed 0 of the benchmark, all normal; at most 700 of them) a region is left out, one model with the
library's defaults, but 150 steps for every table, learns seven tenths of the rest, half of the others tell what is
usual, and the last ones are the normal rows. The rows of the region are anomalies that no model has seen, as another
class of things would be:

* ``cluster of 4``, ``cluster of 8``: one of so many k-means clusters, of 2 to 40 % of the rows;
* ``tail``: the 15 % that are farthest along one of the three largest principal components;
* ``rim``: the 15 % that are farthest from the mean.

Six more kinds are made of the normal rows, as errors would be:

* ``shuffled``: every cell from another training row;
* ``half``: about half of the cells from one other training row;
* ``one``: one cell from another training row;
* ``spread``: numbers 1.6 times as far from the mean;
* ``shift``: numbers 0.7 standard deviations farther from the mean;
* ``noise``: normal noise of half a standard deviation on every number.

The last three have no meaning for categories, which are shuffled or half exchanged. A score is good if it ranks the
anomalies above the normal rows. ``results/synthetic.csv`` has every figure, ``results/synthetic.md`` the means.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score

from nptad import NPTAD, default_settings
from nptad.bench.datasets import load
from nptad.bench.methods.knn import KNN
from nptad.bench.methods.scaling import Scaler
from nptad.bench.protocol import Split, one_hot, split_table
from nptad.bench.rules import RULES
from nptad.errors import TableWarning
from nptad.io.atomic import replacing
from nptad.scoring.nearest import nearest_distances
from nptad.scoring.score import mask_losses, with_nearest
from nptad.tables.encode import encode

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
FIGURES = ROOT / "results" / "synthetic.csv"
DATASETS = (
    *("wine", "lympho", "glass", "vertebral", "ecoli", "ionosphere", "breastw", "pima", "cardio"),
    *("abalone", "vowels", "letter", "optdigits", "satimage2", "pendigits", "annthyroid", "mammography"),
)
REGIONS = ("cluster of 4", "cluster of 8", "tail", "rim")
ERRORS = ("shuffled", "half", "one", "spread", "shift", "noise")
DEFAULTS = ("nearest", "nearest, not tempered", "nearest, single cells")
SCORES = (*RULES, "tempered", "distance", *DEFAULTS, "1-NN")
"""Those of the benchmark; ``scaled_mean`` of tempered losses; the distance from the nearest training row alone; the
library's default, which is the two together; the same with losses as they are; with one cell hidden at a time; the
baseline."""
MAX_ROWS, N_MADE, N_STEPS, REGION_SHARE = 700, 60, 150, 0.15
FALSE_ALARM_RATE = 0.05
FIELDS = ("dataset", "region", "kind", "score", "auroc", "found")


def regions(x: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Which rows of ``x`` (standardised) are in each of the regions."""
    for k in (4, 8):
        cluster = KMeans(k, n_init=3, random_state=int(random.integers(1000))).fit_predict(x)
        share = np.bincount(cluster, minlength=k) / len(x)
        fitting = np.flatnonzero((share >= 0.02) & (share <= 0.4))
        yield cluster == (random.choice(fitting) if len(fitting) else share.argmin())
    centred = x - x.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    along = centred @ directions[random.integers(len(directions))] * random.choice([-1, 1])
    for distance in (along, (centred**2).sum(axis=1)):
        yield distance > np.quantile(distance, 1 - REGION_SHARE)


def make_errors(
    normal: np.ndarray, train: np.ndarray, categorical: tuple[int, ...], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Anomalies of every kind that errors make of normal rows, as many of each."""
    rows = np.resize(normal, (N_MADE, normal.shape[1]))
    partner = train[random.integers(len(train), size=N_MADE)]
    shuffled = np.stack([random.choice(column, N_MADE) for column in train.T], axis=1)
    half = np.where(random.random(rows.shape) < 0.5, partner, rows)
    one = np.where(np.arange(rows.shape[1]) == random.integers(rows.shape[1], size=(N_MADE, 1)), partner, rows)
    is_number = ~np.isin(np.arange(rows.shape[1]), categorical)
    mean, spread = train.mean(axis=0), train.std(axis=0)
    away = np.sign(rows - mean) * spread
    noise = spread * random.normal(size=rows.shape)
    return {
        "shuffled": shuffled,
        "half": half,
        "one": one,
        "spread": np.where(is_number, mean + 1.6 * (rows - mean), shuffled),
        "shift": np.where(is_number, rows + 0.7 * away, shuffled),
        "noise": np.where(is_number, rows + 0.5 * noise, half),
    }


def scores_of(kinds: dict[str, np.ndarray], train: np.ndarray, usual: np.ndarray, split: Split) -> dict[str, dict]:
    """Scores of the rows of every kind: score -> kind -> values."""
    settings = replace(default_settings(*train.shape), n_steps=N_STEPS, scale_masks=False, aggregation="mean")
    detector = NPTAD(1, settings=settings, columns=split.uses if split.categorical else None, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        ensemble = detector.fit(train).ensemble_
    member, layout = ensemble.members[0], detector.schema_.layout
    singles = torch.eye(layout.n_features, dtype=torch.bool)
    alone = member.unscaled(len(singles))

    def measure(rows: np.ndarray) -> tuple[list[np.ndarray], torch.Tensor]:
        """Tempered losses under the masks, losses as they are, tempered ones of single cells; distances."""
        encoded = torch.from_numpy(encode(detector.schema_, rows))
        losses = (
            mask_losses(member, encoded, ensemble.masks, with_log=True),
            mask_losses(member, encoded, ensemble.masks),
            mask_losses(alone, encoded, singles, with_log=True),
        )
        return [part.double().numpy() for part in losses], nearest_distances(encoded, member.neighbours).double()

    references, usual_distances = measure(usual)
    scores: dict[str, dict] = {score: {} for score in SCORES}
    for kind, rows in kinds.items():
        losses, distance = measure(rows)
        distance /= usual_distances.square().mean().sqrt()
        for name, rule in RULES.items():
            scores[name][kind] = rule(losses[1], references[1])
        means = [RULES["scaled_mean"](*both) for both in zip(losses, references, strict=True)]
        scores["tempered"][kind], scores["distance"][kind] = means[0], distance.numpy()
        for name, mean in zip(DEFAULTS, means, strict=True):
            scores[name][kind] = with_nearest(torch.from_numpy(mean), distance).numpy()
        known, new, _ = one_hot(replace(split, train=train, test=rows))
        scores["1-NN"][kind] = KNN(k=1, scaling="minmax").fit(known).score(new)
    return scores


def run(dataset: str) -> list[dict[str, object]]:
    """How every score ranks every kind of anomaly of one data set."""
    random = np.random.default_rng(5)
    split = split_table(load(dataset, DATA), 0)
    x = split.train[random.permutation(len(split.train))[:MAX_ROWS]]
    plain = one_hot(replace(split, train=x, test=x[:1]))[0]
    figures: list[dict[str, object]] = []
    for region, inside in zip(REGIONS, regions(Scaler(plain, "standard").transform(plain), random), strict=True):
        outside = random.permutation(np.flatnonzero(~inside))
        train, usual, normal = (
            x[part] for part in np.split(outside, (np.array([0.7, 0.85]) * len(outside)).astype(int))
        )
        kinds = {region: x[inside], **make_errors(normal, train, split.categorical, random)}
        for score, of_kind in scores_of({"normal": normal, **kinds}, train, usual, split).items():
            for kind in kinds:
                both = np.concatenate([of_kind["normal"], of_kind[kind]])
                auroc = roc_auc_score(np.arange(len(both)) >= len(normal), both)
                # A normal row's own score: one between two rows' would depend on how a rule spaces them.
                limit = np.quantile(of_kind["normal"], 1 - FALSE_ALARM_RATE, method="higher")
                found = (of_kind[kind] > limit).mean()
                values = (dataset, region, kind, score, f"{100 * auroc:.2f}", f"{100 * found:.2f}")
                figures.append(dict(zip(FIELDS, values, strict=True)))
    return figures


def page(figures: list[dict[str, object]]) -> str:
    """The means as Markdown."""
    datasets = list(dict.fromkeys(str(f["dataset"]) for f in figures))

    def mean(metric: str, kinds: tuple[str, ...], **wanted: str) -> float:
        """Over data sets, then over kinds."""
        return float(
            np.mean(
                [
                    np.mean(
                        [float(str(f[metric])) for f in figures if f["kind"] == kind and wanted.items() <= f.items()]
                    )
                    for kind in kinds
                ]
            )
        )

    def line(*cells: object) -> str:
        return f"| {' | '.join(f'{cell:.1f}' if isinstance(cell, float) else str(cell) for cell in cells)} |"

    lines = [
        "# Scores on anomalies made from training rows",
        "",
        "Generated by `python benchmarks/synthetic.py`, which says how; every figure is in `synthetic.csv`. AUROC in %",
        f"of the anomalies against normal rows, means over data sets ({len(datasets)}); found: the share of the",
        f"anomalies that score above {100 - 100 * FALSE_ALARM_RATE:.0f} % of the normal rows. `nearest` is the",
        "library's default, `scaled_mean` of `tempered` losses (above 1 by their logarithm) together with the",
        "`distance` from the nearest training row; `not tempered` and `single cells` are the same with losses as they",
        "are and with one cell hidden at a time; `mean` and `max` are the paper's scores. The first four kinds are",
        "regions left out of training, the other six errors in rows; the last columns are means over both groups,",
        "AUROC and found.",
        "",
        line("score", *REGIONS, *ERRORS, "regions", "errors", "regions found", "errors found"),
        f"|---|{'---:|' * (len(REGIONS) + len(ERRORS) + 4)}",
    ]
    groups = (REGIONS, ERRORS)
    for score in SCORES:
        by_kind = [mean("auroc", (kind,), score=score) for kind in (*REGIONS, *ERRORS)]
        by_group = [mean(metric, group, score=score) for metric in ("auroc", "found") for group in groups]
        lines.append(line(score, *by_kind, *by_group))
    compared = ("mean", "scaled_mean", *DEFAULTS, "1-NN")
    lines += [
        "",
        "By data set, found in regions and among errors:",
        "",
        line("data set", *compared),
        f"|---|{'---:|' * len(compared)}",
    ]
    for dataset in datasets:
        found = [[mean("found", group, score=s, dataset=dataset) for group in groups] for s in compared]
        lines.append(line(dataset, *(f"{in_regions:.1f} / {errors:.1f}" for in_regions, errors in found)))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the data sets asked for, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for dataset in arguments.datasets:
        earlier: list[dict[str, object]] = []
        if FIGURES.exists():
            with FIGURES.open(newline="") as file:
                earlier = [line for line in csv.DictReader(file) if line["dataset"] != dataset]
        figures = sorted(earlier + run(dataset), key=lambda f: str(f["dataset"]))
        with replacing(FIGURES) as target, target.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(figures)
        (ROOT / "results" / "synthetic.md").write_text(page(figures), encoding="utf-8")
        print(f"{dataset} done", flush=True)


if __name__ == "__main__":
    main()
