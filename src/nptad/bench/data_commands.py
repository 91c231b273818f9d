"""The commands of ``nptad data``: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from nptad.errors import DataError

if TYPE_CHECKING:
    from nptad.bench.datasets import Dataset

data_app = App(name="data", help="List, download and check the data sets of the benchmark.")

DataFolder = Annotated[Path | None, Parameter(help="Folder to look in before the cache; by default NPTAD_DATA.")]


@data_app.command(name="list")
def list_datasets(*, data: DataFolder = None) -> None:
    """Show every data set: its size, its licence, where it comes from, and whether it is here."""
    from nptad.bench.datasets import find_file

    table = RichTable("data set")
    for heading in ("size", "categories", "anomalies"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("licence")
    datasets = _chosen(())
    for dataset in datasets:
        here = "yes" if find_file(dataset.name, data) else "generated" if dataset.generate else "no"
        sizes = (f"{dataset.n} x {dataset.d}", str(len(dataset.categorical)), str(dataset.anomalies))
        table.add_row(dataset.name, *sizes, here, dataset.licence)
    console = Console()
    console.print(table)
    for dataset in datasets:  # below the table: an address folded into a cell cannot be copied
        line = f"{dataset.name}: {dataset.source} {dataset.note}"
        console.print(line.rstrip(), markup=False, highlight=False, soft_wrap=True)


@data_app.command
def fetch(*names: str, data: DataFolder = None) -> None:
    """Download data sets into the cache, converted and checked.

    Parameters
    ----------
    names : str
        Data sets; by default all that can be downloaded.
    """
    from nptad.bench.datasets import fetch as fetch_file

    table, failed = RichTable("data set", "outcome"), []
    datasets = [dataset for dataset in _chosen(names) if names or dataset.convert]
    for dataset in datasets:
        outcome = "generated when it is loaded, nothing to download"
        if dataset.convert is not None:
            try:
                outcome = str(fetch_file(dataset.name, data))
            except DataError as error:
                outcome = str(error)
                failed.append(dataset.name)
        table.add_row(dataset.name, Text(outcome, overflow="fold"))
    _finish(table, failed, len(datasets), "could not be fetched")


@data_app.command
def verify(*names: str, data: DataFolder = None) -> None:
    """Check the files that are here against the registry.

    Parameters
    ----------
    names : str
        Data sets; by default all.
    """
    from nptad.bench.datasets import find_file, read_file

    table, wrong = RichTable("data set", "state", "file"), []
    datasets = _chosen(names)
    for dataset in datasets:
        path = find_file(dataset.name, data)
        state, details = "missing", ""
        if path is not None:
            try:
                read_file(dataset, path)
                state, details = "ok" if dataset.sha256 else "not verified", str(path)
            except DataError as error:
                state, details = "wrong", str(error)
                wrong.append(dataset.name)
        elif dataset.generate is not None:
            state = "generated"
        elif names:
            wrong.append(dataset.name)
        table.add_row(dataset.name, state, Text(details, overflow="fold"))
    _finish(table, wrong, len(datasets), "are wrong or missing")


def _finish(table: RichTable, failed: list[str], n_datasets: int, what: str) -> None:
    """Print the table and raise an error if any data set has failed."""
    Console().print(table)
    if failed:
        raise DataError(f"{len(failed)} of {n_datasets} data sets {what}: {', '.join(failed)}; see above.")


def _chosen(names: tuple[str, ...]) -> list[Dataset]:
    from nptad.bench.datasets import DATASETS, EXTRA, find_dataset

    return [find_dataset(name) for name in names] or [*DATASETS.values(), *EXTRA.values()]
