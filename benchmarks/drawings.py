"""The figures of docs/scoring.md, drawn by the code that they explain.

    python benchmarks/drawings.py

Writes ``docs/images/how-*.svg``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from nptad.io.atomic import replacing
from nptad.nn.masks import mask_bank
from nptad.scoring.folds import left_out_rows
from nptad.scoring.surprise import Surprise
from nptad.scoring.views import NearestInRanges
from nptad.tables.layout import CellLayout

FOLDER = Path(__file__).parents[1] / "docs" / "images"
INK, PALE, STRONG = "#5b6770", "#c9d6d6", "#00897b"
"""Readable on a light and on a dark page."""


def surprise() -> Figure:
    """From the distances of training rows to surprise, with the fitted tail."""
    x = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    _, distances = NearestInRanges.fit(x, CellLayout(3, ()), left_out_rows(1000, 5, seed=0))
    fitted = Surprise.fit(distances)
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.hist(distances, bins=60, color=PALE)
    axes.set(xlabel="distance from the nearest training row", ylabel="training rows")
    right = axes.twinx()
    counted = np.linspace(0, distances.max(), 300)
    beyond = np.linspace(distances.max(), 1.8 * distances.max(), 100)
    right.plot(counted, fitted.apply(counted), color=STRONG)
    right.plot(beyond, fitted.apply(beyond), color=STRONG, linestyle="--")
    for share in (100, 10_000):
        right.axhline(np.log(share), color=INK, linewidth=0.6)
        right.text(0, np.log(share) + 0.15, f"one normal row in {share:,}", color=INK, fontsize=8)
    right.set(ylabel="surprise: counted, and beyond\nall rows from the tail", ylim=(0, 12))
    return figure


def folds() -> Figure:
    """Which rows each of five members leaves out."""
    left_out = left_out_rows(20, 5, seed=0)
    figure = Figure(figsize=(7.2, 2.2), layout="constrained")
    axes = figure.subplots()
    axes.pcolormesh(left_out, cmap=mpl.colors.ListedColormap([PALE, STRONG]), edgecolors="white", linewidth=1)
    axes.set(xlabel="training rows", ylabel="members", xticks=[], yticks=np.arange(5) + 0.5, yticklabels=range(1, 6))
    axes.set_title("dark: left out by the member, which scores it; pale: the member learns from it", fontsize=9)
    axes.invert_yaxis()
    return figure


def masks() -> Figure:
    """All masks of at most two of five cells."""
    bank = mask_bank(5, (1, 2), max_masks=100, seed=0).numpy()
    figure = Figure(figsize=(7.2, 2.2), layout="constrained")
    axes = figure.subplots()
    axes.pcolormesh(bank.T, cmap=mpl.colors.ListedColormap([PALE, STRONG]), edgecolors="white", linewidth=1)
    axes.set(xlabel="masks", ylabel="cells of a row", xticks=[], yticks=np.arange(5) + 0.5, yticklabels="abcde")
    axes.invert_yaxis()
    axes.set_title("dark: hidden, to be reconstructed from the other cells and rows", fontsize=9)
    return figure


def main() -> None:
    """Draw all of them."""
    style = {"svg.hashsalt": "nptad", "svg.fonttype": "none", "text.color": INK, "axes.labelcolor": INK}
    style |= {"axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK, "font.size": 9}
    for draw in (surprise, folds, masks):
        with mpl.rc_context(style), replacing(FOLDER / f"how-{draw.__name__}.svg") as temporary:
            draw().savefig(temporary, format="svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
