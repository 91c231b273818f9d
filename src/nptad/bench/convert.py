"""Read the data sets in the formats they are published in.

Every converter takes the path of a downloaded file and returns the rows and their labels, in the order of the file.
Nothing in a file is executed, and no name in it is ever used as a path.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nptad.errors import DataError

Arrays = tuple[np.ndarray, np.ndarray]  # rows (n, d) and labels (n,) with 1 = anomaly

_ECOLI_ANOMALIES = ("omL", "imL", "imS")
_ABALONE_SEX = {"M": 0, "F": 1, "I": 2}
_ABALONE_NORMAL, _ABALONE_ANOMALIES = (8, 9, 10), (3, 21)


@contextmanager
def reading(origin: str, advice: str) -> Iterator[None]:
    """Turn any error of a parser into one sentence: which file, why, and what to do."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # the parsers raise errors of all kinds on damaged files
        lines = str(error).splitlines() or [""]
        why = lines[0] if isinstance(error, ValueError) else f"{type(error).__name__}: {lines[0]}"
        raise DataError(f"{origin} cannot be read ({why}); {advice}.") from error


def read_npz(path: Path, *names: str) -> tuple[np.ndarray, ...]:
    """Arrays of an ``.npz`` file by their names; pickled objects are refused."""
    # Opened here, because numpy does not close a damaged file.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return tuple(arrays[name] for name in names)


def read_adbench(path: Path) -> Arrays:
    """An ``.npz`` of ADBench: arrays X and y."""
    x, y = read_npz(path, "X", "y")
    return x, y.ravel()


def read_mat(path: Path) -> Arrays:
    """A ``.mat`` of ODDS: matrices X and y, in MATLAB's format or, from version 7.3 on, in HDF5."""
    from scipy.io import loadmat

    try:
        with path.open("rb") as file:
            content = loadmat(file, variable_names=("X", "y"))
        return content["X"], content["y"].ravel()
    except NotImplementedError:  # scipy does not read version 7.3
        pass
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise ValueError("MATLAB 7.3 files need h5py, `pip install h5py`") from error
    with h5py.File(path, "r") as file:
        return file["X"][()].T, file["y"][()].ravel()  # MATLAB stores columns first


def read_ecoli(path: Path) -> Arrays:
    """UCI's ``ecoli.data``: a name, seven numbers and a class; the three rare classes of membrane are the anomalies."""
    rows = [line.split() for line in _lines(path)]
    x = np.array([row[1:8] for row in rows], dtype=np.float64)
    return x, np.array([row[8] in _ECOLI_ANOMALIES for row in rows])


def read_abalone(path: Path) -> Arrays:
    """UCI's ``abalone.data``: sex, seven numbers and rings; the middle ages are normal, the extreme ones anomalies."""
    rows = [line.split(",") for line in _lines(path)]
    kept = [row for row in rows if int(row[8]) in _ABALONE_NORMAL + _ABALONE_ANOMALIES]
    x = np.array([[_ABALONE_SEX[row[0]], *row[1:8]] for row in kept], dtype=np.float64)
    return x, np.array([int(row[8]) in _ABALONE_ANOMALIES for row in kept])


def read_seismic(path: Path) -> Arrays:
    """UCI's ``seismic-bumps.arff``: codes of categories are in alphabetical order; class 1 is the anomaly."""
    from scipy.io.arff import loadarff

    rows, header = loadarff(path)
    columns = []
    for name in header.names()[:-1]:
        kind, values = header[name]
        codes = {value.encode(): code for code, value in enumerate(sorted(values))} if kind == "nominal" else None
        columns.append([codes[cell] for cell in rows[name]] if codes else rows[name])
    return np.column_stack(columns).astype(np.float64), rows["class"] == b"1"


def read_creditcard(path: Path) -> Arrays:
    """Kaggle's ``creditcard.csv`` without its Time column, in single precision, as in the paper's benchmark."""
    x, y = _read_csv(path, "Class", dropped="Time")
    return x.astype(np.float32), y


def read_backdoor(path: Path) -> Arrays:
    """The deviation-network repository's ``.tar.xz`` with one CSV file in it."""
    with tarfile.open(path, "r:xz") as archive:
        # Archives made on a Mac have small hidden files beside the table.
        return _read_csv(archive.extractfile(max(archive.getmembers(), key=lambda member: member.size)), "class")


def _read_csv(source: Any, label: str, dropped: str | None = None) -> Arrays:
    from pyarrow.csv import read_csv

    table = read_csv(source)
    features = [name for name in table.column_names if name not in (label, dropped)]
    return np.column_stack([table[name].to_numpy() for name in features]), table[label].to_numpy().astype(np.int64)


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="ascii").splitlines() if line.strip()]
