"""The data sets of the paper: what they are, where they come from, and how to get hold of one.

A set is one file, ``<name>.npz``, with ``X`` (n, d), ``y`` (1 = anomaly) and ``categorical`` (positions of the columns
that hold category codes). It is looked up in the given folder (or ``NPTAD_DATA``), then in the cache (``NPTAD_CACHE``
or the platform's), then downloaded and converted. Whatever is loaded is checked against the registry.

A set of one's own is a function that returns ``X``, ``y`` and, if it has any, the positions of its category columns;
its name is ``module:function``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from nptad.bench import convert, generate
from nptad.bench.convert import Arrays, read_npz, reading
from nptad.bench.own import import_own, is_own
from nptad.errors import DataError
from nptad.io.atomic import replacing

GENERATED = "generated"
"""The source of a set that is computed, not published."""

_ADBENCH = "https://github.com/Minqi824/ADBench/raw/main/adbench/datasets/Classical/"
_ODDS = "https://www.dropbox.com/s/"  # where the ODDS site keeps its files
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_SEISMIC = _UCI + "00266/seismic-bumps.arff"
_BACKDOOR = "https://github.com/GuansongPang/deviation-network/raw/master/dataset/UNSW_NB15_traintest_backdoor.tar.xz"
_CREDITCARD = "https://storage.googleapis.com/download.tensorflow.org/data/creditcard.csv"
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Dataset:
    """What the registry knows about a data set."""

    name: str
    """Its name in the paper's tables."""
    n: int
    """Rows."""
    d: int
    """Columns."""
    anomalies: int
    """Rows that are anomalies."""
    source: str
    """The address of the published file, or ``GENERATED``."""
    convert: Callable[[Path], Arrays] | None
    """Reads the published file; None if there is none to download."""
    sha256: str | None
    """Checksum of the content (:func:`content_sha256`); None where no copy could be had to compute it from."""
    licence: str = "CC BY 4.0"
    """What the publisher of the original data (UCI, Kaggle, ...) says; look there before passing the data on."""
    categorical: tuple[int, ...] = ()
    """Positions of the columns that hold category codes."""
    note: str = ""
    """What a user should know."""
    generate: Callable[[], Arrays] | None = None
    """Computes the set, or a stand-in for it, where there is no file."""


@dataclass(frozen=True)
class Table:
    """A data set in memory, as published: not scaled."""

    name: str
    """Name of the data set."""
    x: np.ndarray
    """Rows, (n, d) float64."""
    y: np.ndarray
    """Which rows are anomalies, (n,) bool."""
    categorical: tuple[int, ...]
    """Positions of the columns that hold category codes."""


_SHA256 = {
    "wine": "efacb3b773c5d5ec916f67137caf67916e9eebf3c925933133adbcd5a28e5ee0",
    "lympho": "2eb98850ff5147a278b2acb30ffc709bd21699ffb5b5db48034989e18e2d601b",
    "glass": "526d180dd8a6878e5e9bb9430b866f1f4e0112981965e6f4b8a2ffd366ee3075",
    "vertebral": "f77eaf9098e091cb819cf7b26084a53b7cdf60c0f57ade3d36ba1a7f12226680",
    "wbc": "c1c7a4642651b71366a1c519b25c94e2f4e130dbfa1167ec1b3cf46a851c40d2",
    "ecoli": "a86bdedbc9da2e05e3b459de268a3b33fb33d80f1da518912ef1ba1bc4cadc40",
    "ionosphere": "08d19b6de9f666f5a84abc916e57a14e711d86a6b15899009a05420d31bbe387",
    "arrhythmia": "49bfad443459ed438c0a79b7a1f5c727630bce28d45e4900d52c33f911bd5bbc",
    "breastw": "4705c1e28c65b42e95edc56338550193a119c53ea596c2ab0c1e38f931777b09",
    "pima": "795873e240e828695bec546dc03e9dd31c503565f31820c8b635a2f3f02164ab",
    "vowels": "1f37f53b095e5c62ed3742ea4f849a8143fddd4d2ea12639fad5030233bb98d2",
    "letter": "bed725b66883b54d0d4931e58c07914f281019c301567928bcbb74bbdb7a02f2",
    "cardio": "f17b466562e57abef23b08949750eb987191eed77c07d6086b6c95cb67a61096",
    "seismic": "3443e0d69014b9628d0cfac9a6f57e160938ce0f3650e40c425de15c22a5c629",
    "musk": "82bc715566a14da17fab003186e971cb849c2a3628bca3f5770fb84cbcbf7883",
    "thyroid": "dd3457de1fed68e2188a43593dc29616cd67187c685aed8731fddfd00c18a8c1",
    "abalone": "8d7efff5d4120ff8f8cf28124bfb0596ee3a9a4981220137b01885003c29ba22",
    "optdigits": "297d6d8dbd6bbf0377245983012f6f1c750dd4d04707a5e2372a935b7bb4d00f",
    "satimage2": "34ff5b2ac9a32c683e09b71cf506542bf3e1fafbd68a50249c9379bace8cbb88",
    "satellite": "df05f50bef85db9d67088ff7ff1118d037069eb85e9a927dd4d152baeb924488",
    "pendigits": "321155805cba534a2eed3fc2b8e9e8d72f86d50db02dcafa5c45fed5912a5973",
    "annthyroid": "edff6dc2e58f201389c00bfae268cbdbeda162b8333999591874819175a39eac",
    "mnist": "81ee327ecf16c0b292d1d28abb484923a7c7312698b229b515699edf2c36326a",
    "mammography": "cf060e7768a216a9f43d6c88915f5414b4c0d12db6862d7360df108826b2bd9b",
    "shuttle": "9ce21e5b09e76e6b4b21278ed8476df57ab4ef773a7873c4790954f2ddee1c8e",
    "mulcross": "609a139126d2070619d4077662320986afe9c6b94951b00d2edcc59dc2750ee2",
    "forestcover": "5f701102b9efa34080d2035cca8040d8e213cc3edc7a71e8a44f1962a8a5f081",
    "campaign": "b9483b67e8db53b648807445607f28955ef54041ddcf1b39f7cad2eb1438cedb",
    "fraud": "6c6687aa30574b752aa341932cdf2c8497f41f6a78a20e117d9666effa7138b7",
    "backdoor": "0ddf45633bfea3d8118c5fa625a69b63dac936d6edb185d601d6d9e87b784824",
    "separable": "f807caf90c24c047bb528601a0ec806eac82cc97e55f7923d8533dbeb8388873",
}


_NOTES = {
    "wbc": "The paper prints 278 rows.",
    "ecoli": "UCI's file with classes omL, imL and imS as anomalies; the one of ODDS has no numbers in it.",
    "seismic": "The paper prints 11 columns.",
    "speech": "Not verified: no copy could be had to compute a checksum from, only the size is checked.",
    "abalone": "Rows with 8, 9 or 10 rings are normal, with 3 or 21 anomalies; the paper prints 4177 x 9.",
    "fraud": "Kaggle's creditcard.csv, which needs a login there, as TensorFlow's tutorials host it.",
    "separable": "Of the contamination study; without the authors' file a set of the same kind is generated.",
}


def _entry(
    name: str, n: int, d: int, anomalies: int, source: str, read: Callable[[Path], Arrays] | None, **more: Any
) -> Dataset:
    return Dataset(name, n, d, anomalies, source, read, _SHA256.get(name), note=_NOTES.get(name, ""), **more)


def _adbench(name: str, n: int, d: int, anomalies: int, file: str, **more: Any) -> Dataset:
    return _entry(name, n, d, anomalies, f"{_ADBENCH}{file}.npz", convert.read_adbench, **more)


def _odds(name: str, n: int, d: int, anomalies: int, key: str, **more: Any) -> Dataset:
    return _entry(name, n, d, anomalies, f"{_ODDS}{key}/{name}.mat?dl=1", convert.read_mat, **more)


DATASETS: dict[str, Dataset] = {
    entry.name: entry
    for entry in (
        _adbench("wine", 129, 13, 10, "45_wine"),
        _odds("lympho", 148, 18, 6, "ag469ssk0lmctco", categorical=tuple(range(18))),
        _odds("glass", 214, 9, 9, "iq3hjxw77gpbl7u"),
        _adbench("vertebral", 240, 6, 30, "39_vertebral"),
        _odds("wbc", 378, 30, 21, "ebz9v9kdnvykzcb"),
        _entry("ecoli", 336, 7, 9, _UCI + "ecoli/ecoli.data", convert.read_ecoli),
        _odds("ionosphere", 351, 33, 126, "lpn4z73fico4uup"),
        _odds("arrhythmia", 452, 274, 66, "lmlwuspn1sey48r"),
        _adbench("breastw", 683, 9, 239, "4_breastw"),
        _adbench("pima", 768, 8, 268, "29_Pima", licence="CC0"),
        _adbench("vowels", 1456, 12, 50, "40_vowels"),
        _adbench("letter", 1600, 32, 100, "20_letter"),
        _adbench("cardio", 1831, 21, 176, "6_cardio"),
        _entry("seismic", 2584, 18, 170, _SEISMIC, convert.read_seismic, categorical=(0, 1, 2, 7)),
        _adbench("musk", 3062, 166, 97, "25_musk"),
        _adbench("speech", 3686, 400, 61, "36_speech", licence="none stated"),
        _adbench("thyroid", 3772, 6, 93, "38_thyroid"),
        _entry("abalone", 1920, 8, 29, _UCI + "abalone/abalone.data", convert.read_abalone, categorical=(0,)),
        _adbench("optdigits", 5216, 64, 150, "26_optdigits"),
        _adbench("satimage2", 5803, 36, 71, "31_satimage-2"),
        _adbench("satellite", 6435, 36, 2036, "30_satellite"),
        _adbench("pendigits", 6870, 16, 156, "28_pendigits"),
        _adbench("annthyroid", 7200, 6, 534, "2_annthyroid"),
        _adbench("mnist", 7603, 100, 700, "24_mnist", licence="CC BY-SA 3.0"),
        _adbench("mammography", 11183, 6, 260, "23_mammography", licence="none stated"),
        _adbench("shuttle", 49097, 9, 3511, "32_shuttle"),
        _entry("mulcross", 262144, 4, 26214, GENERATED, None, licence="none needed", generate=generate.mulcross),
        _adbench("forestcover", 286048, 10, 2747, "10_cover"),
        _adbench("campaign", 41188, 62, 4640, "5_campaign"),
        _entry("fraud", 284807, 29, 492, _CREDITCARD, convert.read_creditcard, licence="DbCL 1.0"),
        _entry("backdoor", 95329, 196, 2329, _BACKDOOR, convert.read_backdoor, licence="research only"),
    )
}
"""The 31 sets of the paper's tables, in their order."""

EXTRA: dict[str, Dataset] = {
    "separable": _entry(
        *("separable", 2000, 6, 200, "https://github.com/hugothimonier/NPT-AD", None),
        licence="none stated",
        generate=generate.separable,
    )
}
"""Sets outside the paper's tables."""


def find_dataset(name: str) -> Dataset:
    """The registry's entry for a name.

    Examples
    --------
    >>> find_dataset("wbc").n
    378
    >>> find_dataset("whine")
    Traceback (most recent call last):
    nptad.errors.DataError: There is no data set 'whine', did you mean 'wine'? `nptad data list` shows all.
    """
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
    """An entry for the set that a function of the user's makes."""
    make = import_own(name, "data set")
    with reading(f"The data set {name}", "return X (n, d), y (n) with 1 = anomaly, and the positions of categories"):
        x, y, *more = make()
        categorical = tuple(int(j) for positions in more for j in positions)
        table = _labelled(name, np.asarray(x, dtype=np.float64), np.asarray(y), categorical)
        if table.y.all() or not table.y.any():
            raise ValueError("it needs normal rows and anomalies")
        if unknown := set(categorical) - set(range(table.x.shape[1])):
            raise ValueError(f"it has no column {min(unknown)}")
    n, d = table.x.shape
    return Dataset(
        name,
        n,
        d,
        int(table.y.sum()),
        source=name,
        convert=None,
        sha256=None,
        licence="",
        categorical=categorical,
        generate=lambda: (table.x, table.y),
    )


def load(name: str, data: str | Path | None = None) -> Table:
    """A data set by its name, from disk or the network, checked against the registry.

    Parameters
    ----------
    name : str
        A name in ``DATASETS`` or ``EXTRA``.
    data : str or Path, optional
        The folder to look in first; by default ``NPTAD_DATA``, if set.
    """
    dataset = find_dataset(name)
    path = find_file(name, data)
    if path is not None:
        return read_file(dataset, path)
    if dataset.generate is not None:
        table = _table(dataset, *dataset.generate())
        if dataset.source == GENERATED:  # otherwise it only stands in for the published file
            _check(dataset, table, "what was generated", "numpy's random numbers have changed, install numpy 2.4")
        return table
    return _download(dataset)


def fetch(name: str, data: str | Path | None = None) -> Path:
    """The file of a data set, downloaded into the cache unless a good one is at hand already."""
    dataset = find_dataset(name)
    path, cached = find_file(name, data), _cached(name)
    if path is not None:
        try:
            read_file(dataset, path)
        except DataError:
            if path != cached:  # a folder of the user's is not ours to repair
                raise
        else:
            return path
    _download(dataset)
    return cached


def find_file(name: str, data: str | Path | None = None) -> Path | None:
    """Where the file of a data set is: in the given folder (or ``NPTAD_DATA``), in the cache, or nowhere."""
    folder = data or os.environ.get("NPTAD_DATA")
    if folder:
        if not Path(folder).is_dir():
            raise DataError(f"The data folder {folder} does not exist; correct --data or NPTAD_DATA.")
        path = Path(folder) / f"{name}.npz"
        if path.is_file():
            return path
    return _cached(name) if _cached(name).is_file() else None


def read_file(dataset: Dataset, path: Path) -> Table:
    """Read a file in our format and check that it holds the data set."""
    advice = f"remove it and run `nptad data fetch {dataset.name}`"
    with reading(str(path), advice):
        x, y, columns = read_npz(path, "X", "y", "categorical")
        table = _table(dataset, x, y)
    if tuple(columns.tolist()) != dataset.categorical:
        raise DataError(f"{path} has categories in columns {columns.tolist()}, not {dataset.categorical}; {advice}.")
    _check(dataset, table, str(path), advice)
    return table


def content_sha256(table: Table) -> str:
    """Checksum of the numbers, whatever types and compression they are stored with.

    Examples
    --------
    >>> small = Table("tiny", np.array([[0, 2]], dtype=np.uint8), np.array([1]), categorical=(0,))
    >>> large = Table("tiny", np.array([[-0.0, 2.0]]), np.array([True]), categorical=(0,))
    >>> content_sha256(small) == content_sha256(large)
    True
    """
    digest = sha256(repr((table.x.shape, table.categorical)).encode())
    digest.update((np.ascontiguousarray(table.x, dtype="<f8") + 0.0).data)  # + 0.0 turns -0.0 into its equal, 0.0
    digest.update(np.ascontiguousarray(table.y, dtype=np.uint8).data)
    return digest.hexdigest()


def _table(dataset: Dataset, x: np.ndarray, y: np.ndarray) -> Table:
    return _labelled(dataset.name, x, y, dataset.categorical)


def _labelled(name: str, x: np.ndarray, y: np.ndarray, categorical: tuple[int, ...]) -> Table:
    if x.ndim != 2 or y.shape != x.shape[:1] or not np.isin(y, (0, 1)).all():
        raise ValueError(f"rows of shape {x.shape} with labels of shape {y.shape} are no table with labels 0 and 1")
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
    """Download, convert and check outside of the cache; only what is right gets in."""
    if dataset.convert is None:
        raise DataError(f"{dataset.name} is generated when it is loaded; there is nothing to download.")
    advice = f"nothing was kept; try again later, or put {dataset.name}.npz into a folder and name that with --data"
    origin = f"what {dataset.source} sent"
    with TemporaryDirectory(prefix="nptad-") as folder:
        published = Path(folder) / "published"
        _transfer(dataset, published, advice)
        with reading(f"{dataset.name}: {origin}", advice):
            table = _table(dataset, *dataset.convert(published))
    _check(dataset, table, origin, advice)
    _save(table, _cached(dataset.name))
    return table


def _save(table: Table, path: Path) -> None:
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            categorical = np.array(table.categorical, dtype=np.int64)
            np.savez_compressed(file, X=table.x, y=table.y.astype(np.uint8), categorical=categorical)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error}); name a folder that can with NPTAD_CACHE.") from error


def _transfer(dataset: Dataset, path: Path, advice: str) -> None:
    pooch = _pooch()
    from requests import exceptions  # pooch brings it

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = _Bar(progress, dataset.name)
        try:
            pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK_BYTES)(dataset.source, path, None)
            return
        except exceptions.HTTPError as error:
            why = str(error).partition(" for url")[0]
        except exceptions.ChunkedEncodingError:
            why = "the transfer broke off"
        except exceptions.Timeout:
            why = "the server does not answer"
        except exceptions.ConnectionError:
            why = "there is no connection"
        except OSError as error:
            why = str(error)
    raise DataError(f"{dataset.name} could not be downloaded from {dataset.source} ({why}); {advice}.")


class _Bar:
    """A progress bar with the names that pooch calls."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._task = progress, progress.add_task(name, total=None)

    @property
    def total(self) -> float | None:
        """Bytes to come."""
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count or None)

    def update(self, count: int) -> None:
        """Count bytes."""
        self._progress.update(self._task, advance=count)

    def reset(self) -> None:
        """Back to nothing; pooch counts whole chunks and corrects itself at the end."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """The bar is closed by whoever opened it."""


def _cached(name: str) -> Path:
    given = os.environ.get("NPTAD_CACHE")
    return (Path(given) if given else Path(_pooch().os_cache("nptad"))) / f"{name}.npz"


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError as error:
        raise DataError(
            "Finding and downloading data sets needs pooch; `pip install 'nptad[bench]'` installs it."
        ) from error
    return pooch
