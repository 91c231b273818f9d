"""The figures of the benchmark, from stored runs, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from nptad.bench.datasets import DATASETS
from nptad.bench.one_table import METHODS as ONE_TABLE
from nptad.bench.one_table_page import one_table_values
from nptad.bench.series import (
    MethodColumn,
    Results,
    columns_of,
    common_datasets,
    count_datasets,
    gather,
    main_columns,
)
from nptad.bench.stats import mean_ranks, spread
from nptad.bench.store import require_records
from nptad.bench.tables import CONTAMINATION, NPT_AD, published_f1

OURS, OTHERS, DARK, PALE = "#1f5fa8", "#8a94a3", "#4a5361", "#c9d4e3"
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "nptad",  # the same results give the same file
}
_NEAR = 8
_LABEL_PLACES = [
    (distance, x, y)
    for distance in (4, _NEAR, 14, 22, 32, 44, 58, 74, 92)
    for x, y in ((1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1))
]
"""Places for the name of a point, best first: the distance in points, then the direction."""
_ALIGNED_X, _ALIGNED_Y = {1: "left", 0: "center", -1: "right"}, {1: "bottom", 0: "center", -1: "top"}


def draw_all(results: Path) -> list[Path]:
    """Draw the figures that the stored runs suffice for, remove the others, and return the files."""
    series = gather(require_records(results / "runs"))
    drawings: dict[str, Callable[[Results], Figure | None]] = {
        "mean_f1": lambda s: _bars(s, lambda f1: f1.mean(axis=0), -1, "Mean F1 in % over {}, higher is better"),
        "mean_rank": lambda s: _bars(s, mean_ranks, 1, "Mean rank over {}, lower is better"),
        "critical_difference": critical_difference,
        "contamination": contamination_curves,
        "accuracy_runtime": accuracy_against_runtime,
        "against_published": ours_against_published,
    }
    written = []
    with matplotlib.rc_context(_STYLE):
        for name, draw in drawings.items():
            figure = draw(series)
            place = results / "figures" / name
            if figure is not None:
                written += _save(figure, place)
                continue
            for suffix in (".svg", ".png"):
                place.with_suffix(suffix).unlink(missing_ok=True)
    return written


def _means(results: Results) -> tuple[list[MethodColumn], list[str], np.ndarray]:
    """Columns, the data sets that all of them have, and mean F1, (data sets, columns)."""
    columns, common = main_columns(results)
    values = [[results[column, name].values().mean() for column in columns] for name in common]
    return columns, common, np.array(values).reshape(len(common), len(columns))


def _bars(results: Results, summarise: Callable[[np.ndarray], np.ndarray], sign: int, title: str) -> Figure | None:
    """A bar for each method, in ascending order of its value times ``sign``."""
    columns, common, values = _means(results)
    if not common:
        return None
    heights = summarise(values)
    order = np.argsort(sign * heights, kind="stable")
    chosen = [columns[i] for i in order]
    figure = Figure(figsize=(6, 0.34 * len(columns) + 0.9))
    axes = figure.subplots()
    bars = axes.barh([column.label for column in chosen], heights[order], color=_colours(chosen))
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.invert_yaxis()
    axes.set_title(title.format(count_datasets(common)), loc="left")
    axes.margins(x=0.12)
    return figure


def critical_difference(results: Results) -> Figure | None:
    """The diagram of mean F1 under the paper's protocol."""
    columns, common, values = _means(results)
    if len(common) < 3 or len(columns) < 3:
        return None
    title = f"Mean rank (F1) over {count_datasets(common)}, lower is better; joined: no significant difference"
    return _difference_diagram(values, [column.label for column in columns], _colours(columns, others=DARK), title)


def draw_one_table(results: Path) -> list[Path]:
    """The diagram of mean AUROC under the one-table protocol, if enough runs are stored."""
    names, methods, values = one_table_values(results, "auroc")
    if len(names) < 3 or len(methods) < 3:
        return []
    labels = [ONE_TABLE[method].label for method in methods]
    colours = [OURS if method == "nptad" else DARK for method in methods]
    title = f"Mean rank (AUROC) over {count_datasets(names)}, lower is better; joined: no significant difference"
    with matplotlib.rc_context(_STYLE):
        return _save(_difference_diagram(values, labels, colours, title), results / "one-table" / "critical_difference")


def _save(figure: Figure, place: Path) -> list[Path]:
    """Write a figure as SVG and PNG; ``place`` has no suffix."""
    place.parent.mkdir(parents=True, exist_ok=True)
    paths = [place.with_suffix(".svg"), place.with_suffix(".png")]
    for path, metadata in zip(paths, ({"Date": None}, None), strict=True):
        figure.savefig(path, bbox_inches="tight", dpi=150, metadata=metadata)
    return paths


def _difference_diagram(values: np.ndarray, labels: list[str], colours: list[str], title: str) -> Figure:
    """Mean ranks on a line; a bar joins methods that do not differ significantly (Nemenyi test, 5 %)."""
    import scikit_posthocs

    # Methods are numbers here: the diagram iterates over sets, whose order of texts differs between processes.
    ranks = dict(enumerate(mean_ranks(values)))
    p_values = scikit_posthocs.posthoc_nemenyi_friedman(values)
    figure = Figure(figsize=(7, 0.22 * len(labels) + 1.2))
    axes = figure.subplots()
    scikit_posthocs.critical_difference_diagram(
        ranks,
        p_values,
        ax=axes,
        alpha=0.05,
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        color_palette=dict(enumerate(colours)),
        text_h_margin=0.02 * float(np.ptp(list(ranks.values()))),
        elbow_props={"linewidth": 1},
        marker_props={"s": 16},
        crossbar_props={"linewidth": 3, "color": PALE},
    )
    for text in axes.texts:
        place = int(text.get_text())
        text.set_text(f" {labels[place]} ({ranks[place]:.1f}) ")
    axes.set_title(title, loc="left", pad=14)
    return figure


def contamination_curves(results: Results) -> Figure | None:
    """F1 and AUROC on the separable set against the contamination of the training rows."""
    columns = columns_of(results, CONTAMINATION)
    if not columns:
        return None
    figure = Figure(figsize=(8, 3.2))
    panels = figure.subplots(1, 2)
    for axes, metric, title in zip(panels, ("f1", "auroc"), ("F1 in %", "AUROC in %"), strict=True):
        for column in columns:
            datasets = common_datasets(results, [column], list(CONTAMINATION))
            x = np.array([CONTAMINATION[dataset] for dataset in datasets])
            runs = [results[column, dataset].values(metric) for dataset in datasets]
            mean = np.array([values.mean() for values in runs])
            around = np.array([spread(values) or 0.0 for values in runs])
            (line,) = axes.plot(x, mean, marker="o", markersize=3, label=column.label)
            axes.fill_between(x, mean - around, np.minimum(mean + around, 100), alpha=0.2, color=line.get_color())
        axes.set_xlabel("anomalies among the training rows, %")
        axes.set_title(title, loc="left")
        axes.set_ylim(0, 102)
    panels[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))  # inside it would cover curves
    return figure


def accuracy_against_runtime(results: Results) -> Figure | None:
    """Mean F1 against the processor seconds of a run, over the common data sets."""
    columns, common, values = _means(results)
    if not common:
        return None
    totals = [[max(1e-3, sum(results[column, name].seconds())) for name in common] for column in columns]
    seconds = np.exp(np.log(totals).mean(axis=1))
    figure = Figure(figsize=(7, 4.6))
    axes = figure.subplots()
    means = values.mean(axis=0)
    axes.scatter(seconds, means, color=_colours(columns))
    axes.set_xscale("log")
    axes.margins(x=0.2, y=0.15)
    _label_points(figure, axes, list(zip(seconds, means, strict=True)), [column.label for column in columns])
    axes.set_xlabel("processor seconds per run, geometric mean (training and scoring)")
    axes.set_title(f"Mean F1 in % over {count_datasets(common)}", loc="left")
    return figure


def _label_points(
    figure: Figure, axes: Axes, points: list[tuple[float, float]], labels: list[str], **style: Any
) -> None:
    """Write a name beside every point, inside the axes and where it covers no other name or point."""
    figure.draw_without_rendering()  # only then are the limits final, and places depend on them
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in axes.transData.transform(points)]
    for label, point in zip(labels, points, strict=True):
        text = axes.annotate(label, point, textcoords="offset points", xytext=(0, 0), **style)
        for distance, x, y in _LABEL_PLACES:
            text.set(ha=_ALIGNED_X[x], va=_ALIGNED_Y[y], position=(distance * x, distance * y))
            box = text.get_window_extent().padded(1)
            inside = np.all(box.min >= axes.bbox.min) and np.all(box.max <= axes.bbox.max)
            if inside and box.count_overlaps(taken) == 0:
                break
        taken.append(box)
        if distance > _NEAR:
            line = {"arrowstyle": "-", "color": OTHERS, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3}
            axes.annotate("", point, (distance * x, distance * y), textcoords="offset points", arrowprops=line)


def ours_against_published(results: Results) -> Figure | None:
    """F1 of NPT-AD with the paper's settings against the published figure, a point per data set."""
    points = [
        (name, theirs, results[NPT_AD, name].values().mean())
        for name in DATASETS
        if (NPT_AD, name) in results and (theirs := published_f1(name, "npt-ad")) is not None
    ]
    if not points:
        return None
    figure = Figure(figsize=(6.6, 5.4))
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color=PALE, linewidth=1)
    axes.scatter([x for _, x, _ in points], [y for _, _, y in points], color=OURS, s=18)
    axes.set_xlabel("published F1 in %")
    axes.set_ylabel("our F1 in %")
    axes.set_title("NPT-AD, the paper's settings as far as two cores allow", loc="left")
    axes.set_aspect("equal")
    axes.set_xlim(-4, 124)  # most points are in the upper right corner, and their names need room
    axes.set_xticks(range(0, 101, 20))
    _label_points(figure, axes, [(x, y) for _, x, y in points], [name for name, _, _ in points], fontsize=7)
    return figure


def _colours(columns: list[MethodColumn], others: str = OTHERS) -> list[str]:
    return [OURS if column.method in ("npt-ad", "nptad") else others for column in columns]
