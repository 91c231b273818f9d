"""The data sets of the paper: a registry (``datasets.csv``) of what they are and where they come from, and loading.

A set is one file, ``<name>.npz``, with ``X`` (n, d), ``y`` (1 = anomaly) and ``categorical`` (positions of the columns
that hold category codes). It is looked up in the given folder (or ``NPTAD_DATA``), then in the cache (``NPTAD_CACHE``
or the platform's), then downloaded and converted. Every loaded set is checked against the registry.

A set of the user's is a function that returns ``X``, ``y`` and, if there are any, the positions of its category
columns; its name is ``module:function``.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nptad.bench import convert, generate
from nptad.bench.convert import Arrays, read_npz, reading
from nptad.bench.own import import_own, is_own
from nptad.errors import DataError
from nptad.io.atomic import replacing
from nptad.progress import progress_bar

GENERATED = "generated"  # the source of a set that is generated, not published

_CHUNK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Dataset:
    """An entry of the registry."""

    name: str  # name in the paper's tables
    n: int  # rows
    d: int  # columns
    anomalies: int  # rows that are anomalies
    source: str  # the address of the published file, or ``GENERATED``
    convert: Callable[[Path], Arrays] | None  # reads the published file; None if there is no file to download
    sha256: str | None  # checksum of the content (:func:`content_sha256`); None if we had no copy to compute it from
    licence: str  # as its publisher (UCI, Kaggle, ...) says; check there before passing the data on
    categorical: tuple[int, ...] = ()  # positions of the columns that hold category codes
    note: str = ""  # what a user should know
    generate: Callable[[], Arrays] | None = None  # generates the set, or a similar one, if there is no file


@dataclass(frozen=True)
class Table:
    """A data set in memory, as published: not scaled."""

    name: str  # name of the data set
    x: np.ndarray  # rows, (n, d) float64
    y: np.ndarray  # which rows are anomalies, (n,) bool
    categorical: tuple[int, ...]  # positions of the columns that hold category codes


def _read_registry() -> dict[str, Dataset]:
    """The entries of ``datasets.csv``; a set without a reader is generated."""
    entries = {}
    text = files("nptad.bench").joinpath("datasets.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        name, reader = row["dataset"], row["reader"]
        entries[name] = Dataset(
            *(name, int(row["n"]), int(row["d"]), int(row["anomalies"]), row["source"]),
            convert=getattr(convert, f"read_{reader}") if reader else None,
            sha256=row["sha256"] or None,
            licence=row["licence"],
            categorical=tuple(map(int, row["categorical"].split())),
            note=row["note"],
            generate=None if reader else getattr(generate, name),
        )
    return entries


DATASETS = _read_registry()
"""The 31 sets of the paper's tables, in their order."""

EXTRA = {"separable": DATASETS.pop("separable")}
"""Sets outside the paper's tables."""


def find_dataset(name: str) -> Dataset:
    """The registry's entry for a name."""
    known = {**DATASETS, **EXTRA}
    if name in known:
        return known[name]
    if is_own(name):
        return _own_dataset(name)
    close = get_close_matches(name, known, 1)
    guess = f", did you mean {close[0]!r}?" if close else ";"
    raise DataError(f"There is no data set {name!r}{guess} `nptad data list` shows all.")


@cache
def _own_dataset(name: str) -> Dataset:
    """An entry for a set that a function of the user's returns."""
    make = import_own(name, "data set")
    with reading(f"The data set {name}", "return X (n, d), y (n) with 1 = anomaly, and the positions of categories"):
        x, y, *more = make()
        categorical = tuple(int(j) for positions in more for j in positions)
        table = _table(name, np.asarray(x, dtype=np.float64), np.asarray(y), categorical)
        if table.y.all() or not table.y.any():
            raise ValueError("it needs normal rows and anomalies")
        if unknown := set(categorical) - set(range(table.x.shape[1])):
            raise ValueError(f"it has no column {min(unknown)}")
    n, d = table.x.shape
    return Dataset(name, n, d, int(table.y.sum()), name, None, None, "", categorical, "", lambda: (table.x, table.y))


def load(name: str, data: str | Path | None = None) -> Table:
    """A data set by its name, from the folder ``data``, the cache or the network, checked against the registry."""
    dataset = find_dataset(name)
    path = find_file(name, data)
    if path is not None:
        return read_file(dataset, path)
    if dataset.generate is not None:
        table = _table(name, *dataset.generate(), dataset.categorical)
        if dataset.source == GENERATED:  # others only replace the published file
            _check(dataset, table, "what was generated", "numpy's random numbers have changed, install numpy 2.4")
        return table
    return _download(dataset)


def fetch(name: str, data: str | Path | None = None) -> Path:
    """The file of a data set, downloaded into the cache unless a valid one exists."""
    dataset = find_dataset(name)
    path, cached = find_file(name, data), _cached(name)
    if path is not None:
        try:
            read_file(dataset, path)
        except DataError:
            if path != cached:  # we repair the cache, not the user's folder
                raise
        else:
            return path
    _download(dataset)
    return cached


def find_file(name: str, data: str | Path | None = None) -> Path | None:
    """The file of a data set in the given folder (or ``NPTAD_DATA``) or in the cache; None if there is none."""
    folder = data or os.environ.get("NPTAD_DATA")
    if folder:
        if not Path(folder).is_dir():
            raise DataError(f"The data folder {folder} does not exist; correct --data or NPTAD_DATA.")
        path = Path(folder) / f"{name}.npz"
        if path.is_file():
            return path
    return _cached(name) if _cached(name).is_file() else None


def read_file(dataset: Dataset, path: Path) -> Table:
    """Read a file in our format and check it against the registry."""
    advice = f"remove it and run `nptad data fetch {dataset.name}`"
    with reading(str(path), advice):
        x, y, columns = read_npz(path, "X", "y", "categorical")
        table = _table(dataset.name, x, y, dataset.categorical)
    if tuple(columns.tolist()) != dataset.categorical:
        raise DataError(f"{path} has categories in columns {columns.tolist()}, not {dataset.categorical}; {advice}.")
    _check(dataset, table, str(path), advice)
    return table


def content_sha256(table: Table) -> str:
    """Checksum of the numbers; it does not depend on the types and the compression of the file."""
    digest = sha256(repr((table.x.shape, table.categorical)).encode())
    digest.update((np.ascontiguousarray(table.x, dtype="<f8") + 0.0).data)  # + 0.0 turns -0.0 into 0.0
    digest.update(np.ascontiguousarray(table.y, dtype=np.uint8).data)
    return digest.hexdigest()


def _table(name: str, x: np.ndarray, y: np.ndarray, categorical: tuple[int, ...]) -> Table:
    if x.ndim != 2 or y.shape != x.shape[:1] or not np.isin(y, (0, 1)).all():
        raise ValueError(f"rows of shape {x.shape} with labels of shape {y.shape} are not a table with labels 0 and 1")
    return Table(name, np.ascontiguousarray(x, dtype=np.float64), y == 1, categorical)


def _check(dataset: Dataset, table: Table, origin: str, advice: str) -> None:
    n, d, anomalies = *table.x.shape, int(table.y.sum())
    if (n, d, anomalies) != (dataset.n, dataset.d, dataset.anomalies):
        raise DataError(
            f"{dataset.name}: {origin} has {n} rows, {d} columns and {anomalies} anomalies, not {dataset.n}, "
            f"{dataset.d} and {dataset.anomalies}; {advice}."
        )
    if dataset.sha256 is not None and (found := content_sha256(table)) != dataset.sha256:
        raise DataError(
            f"{dataset.name}: {origin} is not the data of the registry (checksum {found[:12]}..., not "
            f"{dataset.sha256[:12]}...); {advice}."
        )


def _download(dataset: Dataset) -> Table:
    """Download, convert and check in a temporary folder; only a valid set is moved into the cache."""
    if dataset.convert is None:
        raise DataError(f"{dataset.name} is generated when it is loaded; there is nothing to download.")
    advice = f"nothing was kept; try again later, or put {dataset.name}.npz into a folder and give it as --data"
    origin = f"what {dataset.source} sent"
    with TemporaryDirectory(prefix="nptad-") as folder:
        published = Path(folder) / "published"
        _transfer(dataset, published, advice)
        with reading(f"{dataset.name}: {origin}", advice):
            table = _table(dataset.name, *dataset.convert(published), dataset.categorical)
    _check(dataset, table, origin, advice)
    path = _cached(dataset.name)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            categorical = np.array(table.categorical, dtype=np.int64)
            np.savez_compressed(file, X=table.x, y=table.y.astype(np.uint8), categorical=categorical)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error}); set NPTAD_CACHE to a writable folder.") from error
    return table


def _transfer(dataset: Dataset, path: Path, advice: str) -> None:
    requests = _import("requests")
    try:
        with requests.get(dataset.source, stream=True, timeout=_TIMEOUT_SECONDS) as response, path.open("wb") as file:
            response.raise_for_status()
            size = int(response.headers.get("Content-Length", 0))
            with progress_bar(dataset.name, size, visible=True, in_bytes=True) as advance:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    advance(file.write(chunk))
            return
    except requests.HTTPError as error:
        why = str(error).partition(" for url")[0]
    except requests.exceptions.ChunkedEncodingError:
        why = "the transfer was interrupted"
    except requests.Timeout:
        why = "the server does not answer"
    except requests.ConnectionError:
        why = "there is no connection"
    except OSError as error:
        why = str(error)
    raise DataError(f"{dataset.name} could not be downloaded from {dataset.source} ({why}); {advice}.")


def _cached(name: str) -> Path:
    folder = os.environ.get("NPTAD_CACHE") or _import("pooch").os_cache("nptad")
    return Path(folder) / f"{name}.npz"


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise DataError(
            f"Finding and downloading data sets needs {name}; `pip install 'nptad[bench]'` installs it."
        ) from error
