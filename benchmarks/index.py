"""Ways to find the nearest of many rows: all pairs, the tree, and approximate indexes of faiss and usearch.

    pip install faiss-cpu usearch
    python benchmarks/index.py       # some minutes

The nearest training row of 1,000 test rows of two sets, in the spaces of two views, by one thread. Writes
``results/index.md``.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import faiss
import numpy as np
import torch
from usearch.index import Index

from nptad.bench.datasets import load
from nptad.bench.protocol import split_table
from nptad.errors import TableWarning
from nptad.io.atomic import replacing
from nptad.scoring.views import NearestInQuantiles, NearestInRanges
from nptad.scoring.views.tree import Tree
from nptad.tables.encode import encode
from nptad.tables.schema import learn_schema

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NPTAD_DATA", ROOT.parent / "shared" / "data"))
SETS = ("forestcover", "fraud")
SEARCHES = 1000

Search = Callable[[np.ndarray], np.ndarray]


def all_pairs(rows: np.ndarray) -> Iterator[tuple[str, Search]]:
    """A matrix product, in blocks."""
    squares = (rows**2).sum(axis=1)

    def search(x: np.ndarray) -> np.ndarray:
        blocks = np.array_split(x, max(1, len(x) // 10))
        return np.concatenate([(squares - 2 * block @ rows.T).argmin(axis=1) for block in blocks])

    yield "all pairs", search


def tree(rows: np.ndarray) -> Iterator[tuple[str, Search]]:
    """Ours."""
    found = Tree(rows)
    yield f"tree ({found.points_compared():.0f} rows compared)", found.nearest


def faiss_graph(rows: np.ndarray) -> Iterator[tuple[str, Search]]:
    """Hierarchical navigable small worlds."""
    index = faiss.IndexHNSWFlat(rows.shape[1], 16)
    index.add(rows.astype(np.float32))
    for effort in (16, 64):
        index.hnsw.efSearch = effort
        yield f"faiss, graph, effort {effort}", lambda x: index.search(x.astype(np.float32), 1)[1][:, 0]


def faiss_cells(rows: np.ndarray) -> Iterator[tuple[str, Search]]:
    """As many cells as the root of the number of rows."""
    n_cells = int(np.sqrt(len(rows)))
    cells = faiss.IndexFlatL2(rows.shape[1])
    index = faiss.IndexIVFFlat(cells, rows.shape[1], n_cells)
    index.train(rows[: 40 * n_cells].astype(np.float32))
    index.add(rows.astype(np.float32))
    for n_searched in (4, 16):
        index.nprobe = n_searched
        yield f"faiss, {n_searched} of {n_cells} cells", lambda x: index.search(x.astype(np.float32), 1)[1][:, 0]


def usearch_graph(rows: np.ndarray) -> Iterator[tuple[str, Search]]:
    """Hierarchical navigable small worlds."""
    index = Index(ndim=rows.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=40)
    index.add(np.arange(len(rows)), rows.astype(np.float32), threads=1)
    for effort in (16, 64):
        index.expansion_search = effort
        yield (
            f"usearch, graph, effort {effort}",
            lambda x: index.search(x.astype(np.float32), 1, threads=1).keys.ravel().astype(np.int64),
        )


def compare(rows: np.ndarray, new: np.ndarray) -> Iterator[list[str]]:
    """Each way: seconds to build, microseconds a search, the share found, and how far off the others are."""
    nearest = np.empty(0)
    for way in (all_pairs, tree, faiss_graph, faiss_cells, usearch_graph):
        started = time.process_time()
        for name, search in way(rows):
            built = time.process_time()
            distances = np.linalg.norm(rows[search(new)] - new, axis=1)
            ended = time.process_time()
            nearest = nearest if len(nearest) else distances
            missed = distances > nearest * (1 + 1e-6) + 1e-9
            worst = np.median(distances[missed] / np.maximum(nearest[missed], 1e-9)) if missed.any() else 1.0
            yield [
                name,
                f"{built - started:.1f}",
                f"{1e6 * (ended - built) / len(new):.0f}",
                f"{1 - missed.mean():.1%}",
                f"{worst:.3g}",
            ]
            started = time.process_time()


def main() -> None:
    """Measure and write the page."""
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    lines = []
    for name in SETS:
        split = split_table(load(name, DATA), 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            schema = learn_schema(split.train, split.uses if split.categorical else None)
        train, random = encode(schema, split.train), np.random.default_rng(0)
        test = encode(schema, split.test[random.permutation(len(split.test))[:SEARCHES]])
        for kind in (NearestInRanges, NearestInQuantiles):
            view = kind(train, np.array(schema.layout.n_numeric))
            rows, new = view._cells(train).numbers, view._cells(test).numbers
            for cells in compare(rows, new):
                lines.append(f"| {name}, {len(rows):,} x {rows.shape[1]} | {kind.name} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    text = "\n".join(
        [
            "# Finding the nearest of many rows",
            "",
            f"Generated by `python benchmarks/index.py`: faiss {version('faiss-cpu')}, usearch {version('usearch')} "
            "(graphs with 16 neighbours, built with effort 40), one thread, processor time. Found: the share of "
            f"{SEARCHES:,} test rows whose nearest training row is found. Too far: for the others, the median of the "
            "distance from the row that is found, divided by that from the nearest. A second search in an index "
            "needs no building.",
            "",
            "| set | view | way | build, s | search, us | found | too far |",
            "|---|---|---|---:|---:|---:|---:|",
            *lines,
        ]
    )
    with replacing(ROOT / "results" / "index.md") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
