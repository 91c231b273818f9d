"""The output directory of a long run: finished parts, and a manifest that ties them to model, inputs and options.

A part is there under its name and complete, or it is not there. So a run that was killed goes on with what is missing,
and one with another model, other inputs or other options is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nptad.errors import InputError
from nptad.io.atomic import TEMPORARY, remove_leftovers, replacing, writing_explained
from nptad.io.locks import open_locked
from nptad.io.read import reading_explained
from nptad.io.write import write_table

# Names with an underscore or a dot in front are no data to whoever reads the directory as one table.
MANIFEST, _LOCK = "_nptad.json", "_nptad.lock"
_FORMAT = 2  # rows are counted from 1; from 0 in format 1
_KEY = b"nptad"


@dataclass(frozen=True)
class Part:
    """What is known about a finished part."""

    rows: int
    anomalies: int
    rows_of_file: int  # of the whole input file


class OutputFolder:
    """A directory that :func:`open_folder` opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[int, dict[int, Part]] = {}  # the finished parts of each input, both by number

    def read_parts(self) -> None:
        """Find out what is finished; what a killed run left unfinished is removed."""
        remove_leftovers(self.path)
        for path in sorted(self.path.glob("part-*.parquet")):
            try:
                metadata = pq.read_metadata(path)
                _, file, number = path.stem.split("-")
                known = json.loads(metadata.metadata[_KEY])
                part = Part(metadata.num_rows, known["anomalies"], known["rows_of_file"])
                self.parts.setdefault(int(file), {})[int(number)] = part
            except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path} is damaged; delete it and run the same command again.") from error

    def write_part(self, file: int, number: int, table: pa.Table, part: Part) -> None:
        """Keep a finished part for good."""
        known = {"anomalies": part.anomalies, "rows_of_file": part.rows_of_file}
        table = table.replace_schema_metadata({_KEY: json.dumps(known)})
        write_table(table, self.path / f"part-{file:05}-{number:05}.parquet")
        self.parts.setdefault(file, {})[number] = part

    def is_done(self, file: int) -> bool:
        """True if all rows of an input are finished."""
        parts = list(self.parts.get(file, {}).values())
        return bool(parts) and sum(part.rows for part in parts) == parts[0].rows_of_file

    def total(self) -> tuple[int, int, int]:
        """Finished parts, their rows and their anomalies."""
        parts = [part for of_file in self.parts.values() for part in of_file.values()]
        return len(parts), sum(part.rows for part in parts), sum(part.anomalies for part in parts)


@contextmanager
def open_folder(path: Path, made_with: dict[str, Any], inputs: Sequence[str]) -> Iterator[OutputFolder]:
    """Create an output directory, or open one to go on; nobody else can meanwhile.

    The directory is new, empty, or that of a run with the same inputs, in the same order, and the same options.
    ``made_with`` has everything that decides about the results, by what messages call it.
    """
    manifest = {"format": _FORMAT, "made_with": made_with, "inputs": [_identity(name) for name in inputs]}
    with ExitStack() as stack:
        with writing_explained(path):
            path.mkdir(parents=True, exist_ok=True)
            ours = (path / MANIFEST).exists()
            if not ours and any(child.name != _LOCK and not child.match(TEMPORARY) for child in path.iterdir()):
                raise InputError(f"{path} holds other files; name a new or an empty directory for the scores.")
            busy = f"Another nptad is writing to {path}; wait for it, or name another directory."
            stack.enter_context(open_locked(path / _LOCK, busy=busy))
            folder = OutputFolder(path)
            folder.read_parts()
            if ours:
                _require_same(folder, _read_manifest(path), manifest)
            with replacing(path / MANIFEST) as temporary:
                temporary.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        yield folder


def _identity(name: str) -> dict[str, Any]:
    with reading_explained(name):
        status = os.stat(name)
    return {"path": name, "bytes": status.st_size, "modified": status.st_mtime_ns}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = dict(json.loads((path / MANIFEST).read_text(encoding="utf-8")))
        if manifest["format"] == _FORMAT:
            return manifest
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path / MANIFEST} is damaged or of another version of nptad; name another directory.")


def _require_same(folder: OutputFolder, before: dict[str, Any], now: dict[str, Any]) -> None:
    advice = f"name another directory, or delete {folder.path} to start again"
    for name, value in now["made_with"].items():
        if before["made_with"].get(name) != value:
            raise InputError(f"The scores in {folder.path} were made with another {name}; {advice}.")
    if [entry["path"] for entry in before["inputs"]] != [entry["path"] for entry in now["inputs"]]:
        raise InputError(f"The scores in {folder.path} are those of other input files; {advice}.")
    for file, (old, new) in enumerate(zip(before["inputs"], now["inputs"], strict=True)):
        if old != new and file in folder.parts:  # before anything of it was scored, a file may be replaced
            raise InputError(
                f"{new['path']} was changed after rows of it had been scored; delete "
                f"{folder.path / f'part-{file:05}-*.parquet'} and run the same command again."
            )
