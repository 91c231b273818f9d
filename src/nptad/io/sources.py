"""Any source of a table: a file, several files or a folder as one table, a query to a data base."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nptad.errors import InputError, warn
from nptad.io.formats import ARCHIVE_SUFFIX, PACKED_SUFFIX, SUFFIXES, without_notes
from nptad.io.places import WRITABLE, is_stream, is_url, name_of, query_of
from nptad.io.read import read_table
from nptad.io.remote import files_at
from nptad.io.sql import read_query
from nptad.tables.cells import VALUES, TypeInference
from nptad.wording import plural

_TABLES = (*SUFFIXES, ARCHIVE_SUFFIX)
_OBJECTS = tuple(f"{scheme}://" for scheme in WRITABLE)


class SourceTable(NamedTuple):
    """A table, and what tells its rows apart besides their position."""

    table: pa.Table
    keys: list[str]  # columns that were added to the table: the file that a row comes from


def read_source(place: str, as_text: Collection[str] = (), sheet: str | None = None) -> SourceTable:
    """Read a file, standard input, a folder, a pattern such as ``in/*.csv``, a URL or a query as one table.

    Of several files, which must have the same columns, a column has the type that fits all its cells; a column ``file``
    is added, with the name of the file without the folder that all files are in. In a folder, the files with the suffix
    of a table count, .txt only if there is no other, but not those in folders within it. The rows are in the order of
    the names of the files.
    ``as_text`` and ``sheet`` are those of :func:`nptad.io.read.read_table`.
    """
    query = query_of(place)
    if query is not None:
        if sheet is not None:
            raise InputError(f"{name_of(place)} has no sheets; give a sheet only of a workbook.")
        return SourceTable(read_query(query, name_of(place)), [])
    files = table_files(place)
    if files == [place]:
        return SourceTable(read_table(place, as_text=as_text, sheet=sheet), [])
    table = _joined(files, as_text, sheet)
    return SourceTable(table, table.column_names[-1:])


def table_files(place: str) -> list[str]:
    """The files that a name, a folder or a pattern stands for, in the order of their names.

    A name that is none of these stands for itself.
    """
    if is_stream(place) or query_of(place) is not None:
        return [place]
    if is_url(place):
        is_object = place.lower().startswith(_OBJECTS)  # web servers have no folders
        is_folder = is_object and place.endswith("/")
        files = files_at(place) if is_folder or (is_object and glob.has_magic(place)) else [place]
    elif is_folder := os.path.isdir(place):
        files = sorted(entry.path for entry in os.scandir(place) if entry.is_file())
    elif glob.has_magic(place) and not os.path.exists(place):
        files = [path for path in sorted(glob.glob(place, recursive=True)) if os.path.isfile(path)]
    else:
        files = [place]
    if is_folder:
        shown = [path for path in files if not PurePosixPath(path).name.startswith((".", "_"))]
        files = without_notes([path for path in shown if path.lower().removesuffix(PACKED_SUFFIX).endswith(_TABLES)])
        if len(files) < len(shown):
            warn(f"{place}: {plural(len(shown) - len(files), 'file')} without the suffix of a table left out.")
    if not files:
        what = "is no table in the folder" if is_folder else "is no file"
        raise InputError(f"There {what} {place}; check the name or the pattern.")
    return files


def _joined(files: Sequence[str], as_text: Collection[str], sheet: str | None) -> pa.Table:
    """One table of several files, with the file that each row comes from."""
    tables = [read_table(path, as_text=as_text, sheet=sheet) for path in files]
    first = tables[0].column_names
    for path, table in zip(files, tables, strict=True):
        for name in {*first, *table.column_names}:
            if (name in first) != (name in table.column_names):
                without, having = (path, files[0]) if name in first else (files[0], path)
                raise InputError(
                    f"{name_of(without)} has no column {name!r}, which {name_of(having)} has; files that make one "
                    "table have the same columns."
                )
    mixed = [name for name in first if name not in as_text and _common_type(tables, name) is None]
    if mixed:  # as it would be if all rows stood in one file
        tables = [read_table(path, as_text={*as_text, *mixed}, sheet=sheet) for path in files]
    columns = {name: _joined_column(tables, name, files) for name in first}
    for name in mixed:
        if columns[name].type == pa.string():
            inference = TypeInference(VALUES)
            inference.look(columns[name])
            columns[name] = inference.read(columns[name])
    rows = np.repeat(np.arange(len(files), dtype=np.int32), [len(table) for table in tables])
    file = pa.DictionaryArray.from_arrays(rows, pa.array(_short_names(files)))
    return pa.table({**columns, _file_column(first): file})


def _short_names(files: Sequence[str]) -> list[str]:
    """The paths of files without the folder that all are in."""
    folders = [path.split("/")[:-1] for path in files]
    n_shared = next(
        (i for i, names in enumerate(zip(*folders, strict=False)) if len(set(names)) > 1), min(map(len, folders))
    )
    return ["/".join(path.split("/")[n_shared:]) for path in files]


def _common_type(tables: Sequence[pa.Table], name: str) -> pa.DataType | None:
    kinds = [table.schema.field(name).type for table in tables]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    zones = {kind.tz for kind in plain if pa.types.is_timestamp(kind) and kind.tz}
    if len(zones) > 1:  # such as those of summer and winter
        plain = [pa.timestamp(kind.unit, "UTC") if getattr(kind, "tz", None) else kind for kind in plain]
    try:
        schemas = [pa.schema([(name, kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return None


def _joined_column(tables: Sequence[pa.Table], name: str, files: Sequence[str]) -> pa.ChunkedArray:
    kind = _common_type(tables, name)
    if kind is None:  # files that say themselves what their types are
        kinds = [table.schema.field(name).type for table in tables]
        place = next(i for i, kind in enumerate(kinds) if _common_type([tables[0], tables[i]], name) is None)
        raise InputError(
            f"Column {name!r} is {kinds[0]} in {name_of(files[0])} and {kinds[place]} in {name_of(files[place])}; give "
            "it one type."
        )
    return pa.chunked_array([chunk for table in tables for chunk in table[name].cast(kind).chunks], kind)


def _file_column(names: Collection[str]) -> str:
    """The name of the column that says the file."""
    return "file" if "file" not in names else "nptad_file"
