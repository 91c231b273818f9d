"""The tables of the benchmark, from stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nptad.bench.datasets import DATASETS
from nptad.bench.grid import Cell, Figure, Grid
from nptad.bench.presets import paper_table
from nptad.bench.registry import METHODS, variants_of
from nptad.bench.rules import RULES
from nptad.bench.series import (
    MethodColumn,
    Results,
    Series,
    columns_of,
    common_datasets,
    count_datasets,
    datasets_of,
    main_columns,
)
from nptad.bench.stats import DEPENDENCY_MARGIN, RESOLUTION, best_group, dependencies, mean_ranks, spread

METRICS = {"f1": "F1", "auroc": "AUROC", "average_precision": "Average precision"}
PUBLISHED = {"npt-ad": "npt_ad", "transformer": "transformer", "mask-knn": "mask_knn"}
"""The methods whose F1 the paper's available tables have: our name and theirs."""

NPT_AD = MethodColumn("npt-ad", "paper")
SCRIPTS = MethodColumn("npt-ad", "scripts")
ABLATION = [MethodColumn("transformer", "paper"), MethodColumn("mask-knn", ""), NPT_AD]
VARIED = ("drocc", "goad", "neutral-ad")
"""Methods of which the paper tries several published settings."""
_PUBLISHED_RUNS = 20
CONTAMINATION = {f"separable@{share / 100:g}": share for share in range(11)}
"""The contaminated sets and their share of anomalies in %."""


def published_f1(dataset: str, method: str) -> float | None:
    """F1 of a method in the paper, in %."""
    text = paper_table("f1").get(dataset, {}).get(PUBLISHED[method], "")
    return float(text) if text else None


def published_mean_auroc(method: str) -> float:
    """Mean AUROC of a method in the paper over its 31 data sets, in %."""
    return float(paper_table("mean_auroc")[method]["mean_auroc"])


def all_tables(results: Results) -> dict[str, Grid]:
    """Every table of the page, by name."""
    grids = (
        summary_table(results),
        rank_table(results),
        *(main_table(results, metric) for metric in METRICS),
        against_published(results),
        ablation_table(results),
        runtime_table(results),
        *(variants_table(results, method) for method in VARIED),
        *(rules_table(results, metric) for metric in ("f1", "auroc")),
        contamination_table(results),
    )
    return {grid.name: grid for grid in grids}


def main_table(results: Results, metric: str) -> Grid:
    """Every method on every data set, with means, ranks and t-tests; for F1 with the published figures."""
    datasets = datasets_of(results)
    columns = columns_of(results, datasets)
    published = list(PUBLISHED) if metric == "f1" else []
    rows: list[list[Cell]] = []
    for dataset, series in _begun(results, columns, datasets):
        marks = iter(best_group([s.values(metric) for s in series if s is not None]))
        cells: list[Cell] = [None if s is None else _figure(s.values(metric), bold=next(marks)) for s in series]
        theirs = [published_f1(dataset, method) for method in published]
        rows.append([dataset, *cells, *(None if f1 is None else Figure(f1) for f1 in theirs)])
    rows += _summary(results, columns, metric, published)
    _, common = main_columns(results)
    titles = ["data set", *(column.label for column in columns), *(f"{METHODS[m].label}, published" for m in published)]
    return Grid(
        f"main_{metric}",
        f"{METRICS[metric]} in %, mean and standard deviation over seeds. Bold: no other method is significantly "
        "better (Welch's t-test, 5 %, which says little about two or three runs); a single run is bold if no mean of "
        f"several runs is above it. The last rows are over the {count_datasets(common)} that all methods have"
        f"{_but(results)}. The mean standard deviation is over those with several runs of the method"
        + (", the published means are over those that the paper has." if published else "."),
        titles,
        rows,
    )


def _begun(
    results: Results, columns: Sequence[MethodColumn], datasets: Iterable[str]
) -> Iterator[tuple[str, list[Series | None]]]:
    """The series of the columns on each data set where any of them has results."""
    for dataset in datasets:
        series = [results.get((column, dataset)) for column in columns]
        if any(series):
            yield dataset, series


def summary_table(results: Results) -> Grid:
    """A row for every method: over the data sets that all methods have, best mean F1 first, and beside NPT-AD."""
    columns, common = main_columns(results)
    rows: list[list[Cell]] = []
    if common:
        f1, auroc = (np.array([_means(results, c, common, metric) for c in columns]) for metric in ("f1", "auroc"))
        ranks = mean_ranks(f1.T)
        for place in np.argsort(-f1.mean(axis=1), kind="stable"):
            figures = _figures(np.array([f1[place].mean(), auroc[place].mean(), ranks[place]]))
            rows.append(_summary_row(results, columns[place], figures, common))
    rows += [
        _summary_row(results, column, [None] * 3, common_datasets(results, [column], datasets_of(results)))
        for column in columns_of(results, datasets_of(results))
        if column not in columns
    ]
    beside = ["sets", "F1 there", "NPT-AD there", "won-lost"]
    return Grid(
        "summary",
        f"F1 and AUROC in %: means over random splits and the {count_datasets(common)} on which every method has run"
        f"{_but(results)}. Seconds: processor time of training and scoring on the median data set. The last four "
        "columns compare the method with NPT-AD with the paper's settings, on all data sets on which both have run: "
        "the mean F1 of each, and on how many sets the method's F1 is above and below.",
        ["method", "F1", "AUROC", "mean rank (F1)", "splits", "seconds", *beside],
        rows,
    )


def _summary_row(results: Results, column: MethodColumn, figures: Sequence[Cell], datasets: list[str]) -> list[Cell]:
    """A method's figures, its runs on the data sets that count, and the comparison with NPT-AD on all data sets."""
    series = [results[column, name] for name in datasets]
    counts = [len(s.records) for s in series]
    splits = f"{min(counts)}-{max(counts)}" if min(counts) < max(counts) else str(counts[0])
    middle = float(np.median([sum(s.seconds()) for s in series]))
    shared = common_datasets(results, [column, NPT_AD], datasets_of(results))
    theirs, ours = (_means(results, c, shared, "f1") for c in (column, NPT_AD))
    compared: list[Cell] = [None, None]
    if shared and column != NPT_AD:
        ahead = np.subtract(theirs, ours)
        compared = [_mean(ours), f"{(ahead > RESOLUTION).sum()}-{(ahead < -RESOLUTION).sum()}"]
    seconds = f"{middle:.2g}" if middle < 100 else f"{middle:.0f}"
    return [column.label, *figures, splits, seconds, str(len(shared)), _mean(theirs), *compared]


def _but(results: Results) -> str:
    """The methods with too few results to count in means over data sets, in words."""
    main, _ = main_columns(results)
    others = [column.label for column in columns_of(results, datasets_of(results)) if column not in main]
    return f" (except {', '.join(others)})" if others else ""


def _means(results: Results, column: MethodColumn, datasets: list[str], metric: str) -> list[float]:
    return [float(results[column, name].values(metric).mean()) for name in datasets]


def paper_order(results: Results) -> list[tuple[MethodColumn, float, float]]:
    """The methods that the paper ranks, with our mean rank and the published one, best first by ours.

    Our mean rank is over the data sets that all of them have. Methods with equal ranks are in the paper's order.
    """
    published = paper_table("mean_rank_f1")
    columns = [c for c in columns_of(results, DATASETS) if c.method in published and c.preset in ("paper", "")]
    common = common_datasets(results, columns, list(DATASETS))
    if not common:
        return []
    ours = mean_ranks(np.array([_means(results, column, common, "f1") for column in columns]).T)
    theirs = [float(published[column.method]["with_mask_knn"]) for column in columns]
    return sorted(zip(columns, map(float, ours), theirs, strict=True), key=lambda line: line[1:])


def rank_table(results: Results) -> Grid:
    """Our mean ranks beside the published ones, for the methods that the paper ranks and their other settings."""
    lines = paper_order(results)
    columns = [column for column, _, _ in lines]
    common = common_datasets(results, columns, list(DATASETS))
    published = sorted(theirs for _, _, theirs in lines)
    variants = {name for column in columns for name in variants_of(column.method)[1:]}
    others = [column for column in columns_of(results, DATASETS) if column.method in variants]
    others = [column for column in others if all((column, name) in results for name in common)]
    everything = [*columns, *others]
    rows: list[list[Cell]] = []
    if common:
        ranks = mean_ranks(np.array([_means(results, column, common, "f1") for column in everything]).T)
        among_all = [Figure(float(rank)) for rank in ranks]
        for place, (column, ours, theirs) in enumerate(lines):
            its_place = str(1 + published.index(theirs))
            rows.append([column.label, str(place + 1), Figure(ours), among_all[place], its_place, Figure(theirs)])
        rows += [[column.label, None, None, among_all[everything.index(column)], None, None] for column in others]
    return Grid(
        "mean_ranks",
        f"Mean rank by F1 among the {len(lines)} methods that the paper ranks and we have run, over the "
        f"{count_datasets(common)} that all of them have; and among all {len(everything)} approaches, with other "
        "settings that their authors published. The published mean ranks are among 18 approaches, over 31 data sets.",
        ["method", "place", "mean rank", "among all", "published place", "published mean rank"],
        rows,
    )


def _summary(results: Results, columns: list[MethodColumn], metric: str, published: list[str]) -> list[list[Cell]]:
    """The last rows of a main table, over the data sets that all main columns have."""
    main, common = main_columns(results)
    if not common:
        return []
    runs = [[results[column, name].values(metric) for name in common] for column in main]
    means = np.array([[values.mean() for values in column] for column in runs]).T
    spreads = [[value for values in column if (value := spread(values)) is not None] for column in runs]
    theirs = [[value for name in common if (value := published_f1(name, m)) is not None] for m in published]
    blank: list[Cell] = [None] * len(published)

    def placed(figures: Iterable[Cell]) -> list[Cell]:
        of_column = dict(zip(main, figures, strict=True))
        return [of_column.get(column) for column in columns]

    return [
        ["mean", *placed(_figures(means.mean(axis=0))), *map(_mean, theirs)],
        ["mean std", *placed(map(_mean, spreads)), *blank],
        ["mean rank", *placed(_figures(mean_ranks(means))), *blank],
    ]


def ablation_table(results: Results) -> Grid:
    """Transformer, Mask-KNN and NPT-AD with the paper's settings, and the dependencies that are needed."""
    common = common_datasets(results, ABLATION, list(DATASETS))
    rows: list[list[Cell]] = []
    for dataset in common:
        samples = [results[column, dataset].values() for column in ABLATION]
        needed = dependencies(*(float(values.mean()) for values in samples))
        theirs = paper_table("dependencies")[dataset]
        published = [theirs[kind] == "1" for kind in ("feature_feature", "sample_sample")]
        rows.append([dataset, *_marked(samples), *("yes" if kind else "no" for kind in (*needed, *published))])
    if common:
        blank: list[Cell] = [None] * 4
        for metric in ("f1", "auroc"):
            means = [_mean(_means(results, column, common, metric)) for column in ABLATION]
            rows.append([f"mean {METRICS[metric]}", *means, *blank])
        aurocs = [Figure(published_mean_auroc(column.method)) for column in ABLATION]
        rows.append(["mean AUROC, published", *aurocs, *blank])
    kinds = ["features", "rows", "features, published", "rows, published"]
    return Grid(
        "ablation",
        "F1 in % of the three ways to reconstruct, and the dependencies that are needed, between features or between "
        "rows. One kind suffices if the method that sees only this kind is within "
        f"{DEPENDENCY_MARGIN:g} points of the best of the three, and the method that sees only the other kind is not. "
        "Means decide, whatever their spread. The published mean AUROC is over all 31 sets; the paper gives no other.",
        ["data set", *(column.label for column in ABLATION), *kinds],
        rows,
    )


@dataclass(frozen=True)
class Comparison:
    """The mean F1 of our runs beside a published figure, in %."""

    ours: float
    published: float
    margin: float  # two standard errors of the difference

    @property
    def verdict(self) -> str:
        """Whether we are level with the published figure, above or below."""
        if abs(self.ours - self.published) <= self.margin + RESOLUTION:
            return "level"
        return "above" if self.ours > self.published else "below"


def compare_with_published(results: Results, dataset: str) -> Comparison | None:
    """NPT-AD on a data set beside the published figure, if both are there.

    The spread of a run is the larger one of our standard deviation and the published one. The paper has 20 runs.
    """
    series, theirs = results.get((NPT_AD, dataset)), published_f1(dataset, "npt-ad")
    if series is None or theirs is None:
        return None
    values = series.values()
    of_a_run = max(spread(values) or 0.0, float(paper_table("f1")[dataset]["npt_ad_std"]))
    margin = 2 * of_a_run * float(np.sqrt(1 / len(values) + 1 / _PUBLISHED_RUNS))
    return Comparison(float(values.mean()), theirs, margin)


def against_published(results: Results) -> Grid:
    """NPT-AD with the paper's settings beside the published column."""
    compared = {dataset: one for dataset in DATASETS if (one := compare_with_published(results, dataset)) is not None}
    rows: list[list[Cell]] = []
    for dataset, one in compared.items():
        series, scripts = results[NPT_AD, dataset], results.get((SCRIPTS, dataset))
        rows.append(
            [
                dataset,
                str(len(series.records)),
                ", ".join(change.partition(" ")[0] for change in series.changes()) or "none",
                _figure(series.values()),
                *_beside(one.ours, one.published)[1:],
                Figure(one.margin),
                one.verdict,
                None if scripts is None else _figure(scripts.values()),
            ]
        )

    def mean_row(title: str, datasets: list[str], metric: str, published: float) -> list[Cell]:
        ours = float(np.mean(_means(results, NPT_AD, datasets, metric)))
        scored = [name for name in datasets if (SCRIPTS, name) in results]
        scripts = _mean(_means(results, SCRIPTS, datasets, metric)) if scored == datasets else None
        return [title, None, None, *_beside(ours, published), None, None, scripts]

    whole = [name for name in compared if not results[NPT_AD, name].changes()]
    cut = [name for name in compared if name not in whole]
    for title, chosen in (("all", list(compared)), ("without cuts", whole), ("with cuts", cut)):
        if chosen:
            published = float(np.mean([compared[name].published for name in chosen]))
            rows.append(mean_row(f"mean, {count_datasets(chosen)}, {title}", chosen, "f1", published))
    if compared:
        rows.append(mean_row("mean AUROC", list(compared), "auroc", published_mean_auroc("npt-ad")))
    return Grid(
        "against_published",
        "F1 of NPT-AD in %: ours, with the settings of the paper's text, and the published figure. Cuts: the settings "
        "that were changed to save time (Coverage has their values). Level: the difference is within two standard "
        "errors, with the larger one of our spread over splits and the published spread over 20 runs on one split. Of "
        "one run only the latter is known, which leaves out how splits differ. The last column scores the same models "
        "as the authors' scripts do. Of AUROC only the mean over all 31 sets is published.",
        [
            "data set",
            "seeds",
            "cuts",
            "ours",
            "published",
            "difference",
            "two standard errors",
            "verdict",
            SCRIPTS.label,
        ],
        rows,
    )


def _beside(ours: float, published: float) -> list[Cell]:
    """Our figure, the published one, and the difference."""
    return [Figure(ours), Figure(published), Figure(ours - published)]


def runtime_table(results: Results) -> Grid:
    """Seconds of training and scoring beside the paper's."""
    rows: list[list[Cell]] = []
    columns = [NPT_AD, MethodColumn("npt-ad", "default"), *ABLATION[:2]]
    for dataset, series in _begun(results, columns, DATASETS):
        cells: list[Cell] = []
        for s in series:
            cells += [None, None] if s is None else map(Figure, s.seconds())
        theirs = paper_table("runtime_seconds")[dataset]
        rows.append([dataset, *cells, theirs["train"], theirs["inference"]])
    titles = [f"{column.label}, {phase}" for column in columns for phase in ("train", "score")]
    return Grid(
        "runtime",
        "Processor seconds per run on one core; runs that are trained together share the time equally. The paper used "
        "4 or 8 V100.",
        ["data set", *titles, "paper, train", "paper, score"],
        rows,
    )


def rules_table(results: Results, metric: str = "f1") -> Grid:
    """The scoring rules, which make one score of the losses under all masks, on the same trained models."""
    names = list(RULES)
    rows: list[list[Cell]] = []
    means = []
    for dataset in DATASETS:
        series = results.get((NPT_AD, dataset))
        if series is None or not series.records[0]["rules"]:
            continue
        samples = [series.values(metric, rule) for rule in names]
        rows.append([dataset, *_marked(samples)])
        means.append([float(values.mean()) for values in samples])
    if means:
        values = np.array(means)
        rows += [
            ["mean", *_figures(values.mean(axis=0))],
            ["mean rank", *_figures(mean_ranks(values))],
            ["largest loss to the best rule", *_figures((values.max(axis=1, keepdims=True) - values).max(axis=0))],
        ]
    return Grid(
        f"rules_{metric}",
        f"{METRICS[metric]} in % of NPT-AD with the paper's settings under each scoring rule; the paper's is mean.",
        ["data set", *names],
        rows,
    )


def rules_verdict(grid: Grid) -> str:
    """The best rules of :func:`rules_table`: on average, by mean rank and in the worst case.

    Examples
    --------
    >>> rows = [["mean", Figure(61.0), Figure(60.0)], ["mean rank", Figure(1.6), Figure(1.4)]]
    >>> rows += [["largest loss to the best rule", Figure(5.0), Figure(30.0)]]
    >>> rules_verdict(Grid("rules_f1", "", ["data set", "log", "max"], rows))
    'By F1, log is best on average (61.0), max by mean rank (1.4), log in the worst case (5.0 below the best rule).'
    """
    best = []
    for row, choose in zip(grid.rows[-3:], (max, min, min), strict=True):
        means = {name: cell.mean for name, cell in zip(grid.columns, row, strict=True) if isinstance(cell, Figure)}
        name = choose(means, key=means.__getitem__)
        best.append((name, f"{means[name]:.1f}"))
    (average, mean), (ranked, rank), (worst, loss) = best
    return (
        f"By {METRICS[grid.name.removeprefix('rules_')]}, {average} is best on average ({mean}), {ranked} by mean rank "
        f"({rank}), {worst} in the worst case ({loss} below the best rule)."
    )


def variants_table(results: Results, method: str) -> Grid:
    """F1 of a method with each of the settings that its authors published."""
    columns = [column for column in columns_of(results, DATASETS) if column.method in variants_of(method)]
    rows: list[list[Cell]] = []
    for dataset, series in _begun(results, columns, DATASETS):
        rows.append([dataset, *(None if s is None else _figure(s.values()) for s in series)])
    if common := common_datasets(results, columns, list(DATASETS)):
        rows.append(["mean", *(_mean(_means(results, column, common, "f1")) for column in columns)])
    return Grid(
        f"variants_{method}",
        f"F1 of {METHODS[method].label} in % with the settings that its authors published for some of their data sets; "
        f"the mean is over the {count_datasets(common)} that all of them have.",
        ["data set", *(column.label for column in columns)],
        rows,
    )


def contamination_table(results: Results) -> Grid:
    """F1 and AUROC on the separable set against the share of anomalies among the training rows."""
    columns = columns_of(results, CONTAMINATION)
    rows: list[list[Cell]] = []
    for dataset, series in _begun(results, columns, CONTAMINATION):
        cells: list[Cell] = []
        for s in series:
            cells += [None, None] if s is None else [_figure(s.values(metric)) for metric in ("f1", "auroc")]
        rows.append([f"{CONTAMINATION[dataset]}%", *cells])
    return Grid(
        "contamination",
        "The separable set: F1 and AUROC in %, mean and standard deviation over seeds.",
        ["contamination", *(f"{column.label}, {metric}" for column in columns for metric in ("F1", "AUROC"))],
        rows,
    )


def _figure(values: np.ndarray, bold: bool = False) -> Figure:
    return Figure(float(values.mean()), spread(values), bold)


def _marked(samples: list[np.ndarray]) -> list[Cell]:
    """A figure for each sample, bold for the best ones."""
    return [_figure(values, bold) for values, bold in zip(samples, best_group(samples), strict=True)]


def _figures(values: np.ndarray) -> list[Cell]:
    return [Figure(float(value)) for value in values]


def _mean(values: list[float]) -> Figure | None:
    return Figure(float(np.mean(values))) if values else None
