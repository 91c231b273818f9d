"""Saved models and checkpoints, changed at random and sealed again as somebody would who wants to do harm.

Each must be refused in one sentence of ours, or give finite scores. ``python tests/models/mutants.py 2000`` tries as
many of each kind; the seed of one that fails comes with it.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nptad
from nptad import NPTADError
from nptad.errors import MaskBankWarning, TableWarning
from nptad.io.tensors import from_bytes, to_bytes
from nptad.models.config import CONTEXT
from saved_models import FILES, change_tensors, config_of, path_of, reseal
from tiny_detector import tiny

NUMBERS = [0, 1, -1, 2, 7, 2**31, -(2**63), 2**63 - 1, 0.5, -0.0, 1e-300, 1e30, 1e308, np.nan, np.inf, -np.inf]
VALUES: list[Any] = [
    *NUMBERS,
    None,
    True,
    False,
    "",
    "a",
    "nan",
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
    "0" * 64,
    10**30,
    "\ud800",
]
KINDS = ("views", "network", "checkpoint", "living")


def table(n_rows: int = 40, seed: int = 0) -> pd.DataFrame:
    """Columns of all kinds, some cells missing."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=n_rows)
    numbers[random.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "size": random.normal(size=n_rows),
            "weight": numbers,
            "colour": random.choice(np.array(["red", "blue", "green", None]), n_rows),
            "flag": random.random(n_rows) < 0.5,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 10**6, n_rows), unit="s"),
        }
    )


def odd_rows() -> pd.DataFrame:
    """Rows unlike those of training: far away, unseen, empty."""
    rows = table(6, 1)
    rows.loc[0, ["size", "weight"]] = 1e9
    rows.loc[1, "colour"] = "never"
    rows.loc[2, ["size", "weight", "colour"]] = [np.nan, np.nan, None]
    rows.loc[3, "when"] = pd.Timestamp("2200-01-01")
    return rows


class Originals:
    """Saved models, one of them updated and told about rows, and a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        nptad.NPTAD(random_state=0).fit(table()).save(folder / "views")
        living = nptad.NPTAD(random_state=0).fit(table()).update(table(20, 2), most_rows=50)
        living.accept(odd_rows()[:3], "fine")
        living.reject(table()[5:7])
        living.save(folder / "living")
        tiny(n_steps=2).fit(table(), checkpoint=folder / "checkpoint")
        tiny(n_steps=2).fit(table(), checkpoint=folder / "checkpoint").save(folder / "network")

    def try_one(self, kind: str, seed: int) -> str:
        """What became of one mutant: "refused" or "scored"; an error if it is anything else."""
        random = np.random.default_rng([KINDS.index(kind), seed])
        place = self.folder / "mutant"
        with warnings.catch_warnings(action="error"):
            for ours in (TableWarning, MaskBankWarning):
                warnings.simplefilter("ignore", ours)
            try:
                if kind == "checkpoint":
                    shutil.copy(self.folder / kind, place)
                    _mutate_checkpoint(place, random)
                    detector = tiny(n_steps=3 if random.random() < 0.1 else 2).fit(table(), checkpoint=place)
                else:
                    shutil.copytree(self.folder / kind, place)
                    _mutate_model(place, random)
                    detector = nptad.load(place)
                scores = np.concatenate([detector.score_samples(rows) for rows in (odd_rows(), table())])
                found = detector.detect(odd_rows(), false_alarm_rate=0.1)
                detector.explain(odd_rows()[:2])
            except NPTADError as error:
                if "\n" in str(error):
                    raise ValueError("more than a line") from error
                return "refused"
            finally:
                shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        if not (np.isfinite(scores).all() and np.isfinite(found.p_value).all()):
            raise ValueError(f"scores {scores}, p-values {found.p_value}")
        return "scored"


def _mutate_model(place: Path, random: np.random.Generator) -> None:
    for _ in range(random.integers(1, 3)):
        kind = random.choice(["tensors", "context", "config", "bytes"], p=[0.5, 0.2, 0.25, 0.05])
        if kind == "tensors":
            change_tensors(place, lambda tensors: _mutate_tensors(tensors, random))
        elif kind == "context":
            reseal(place, {CONTEXT: _mutate_context(path_of(place, CONTEXT), random)})
        elif kind == "config":
            config = config_of(place)
            name = random.choice(["offset", "schema", "settings", "history", "parameters", "versions", "format"])
            holder = {str(name): config[name]}
            _mutate_json(holder, random)
            reseal(place, **holder)
        else:
            path = path_of(place, str(random.choice(FILES)))
            path.write_bytes(_mutate_bytes(path.read_bytes(), random))
            break


def _mutate_checkpoint(place: Path, random: np.random.Generator) -> None:
    if random.random() < 0.2:
        place.write_bytes(_mutate_bytes(place.read_bytes(), random))
        return
    content = from_bytes(place.read_bytes().partition(b"\n")[2])
    if random.random() < 0.5:
        _mutate_tensors(content["tensors"], random)
    else:
        rest = {name: value for name, value in content.items() if name != "tensors"}
        _mutate_json(rest, random)
        content = {**rest, "tensors": content["tensors"]}
    state = to_bytes(content)
    place.write_bytes(b"nptad checkpoint " + hashlib.sha256(state).hexdigest().encode() + b"\n" + state)


def _mutate_bytes(data: bytes, random: np.random.Generator) -> bytes:
    at = int(random.integers(len(data)))
    changes: list[Callable[[], bytes]] = [
        lambda: data[:at],
        lambda: data[at:],
        lambda: data[:at] + bytes([data[at] ^ 1 << int(random.integers(8))]) + data[at + 1 :],
        lambda: data[:at] + random.bytes(9) + data[at:],
    ]
    return changes[random.integers(len(changes))]()


def _mutate_tensors(tensors: dict[str, Any], random: np.random.Generator) -> None:
    name = str(random.choice(sorted(tensors)))
    array = tensors[name].numpy().copy()
    what = random.choice(
        ["cell", "cells", "order", "type", "shape", "gone", "other"], p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05]
    )
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        if what in ("cell", "cells") and array.size:
            flat, value = array.reshape(-1), np.array(NUMBERS)[random.integers(len(NUMBERS))]
            which = random.integers(array.size, size=1 if what == "cell" else array.size)
            flat[which] = np.array(value).astype(array.dtype) if random.random() < 0.7 else np.flip(flat[which])
        elif what == "order" and array.ndim:
            array = np.flip(array) if random.random() < 0.5 else random.permutation(array, axis=-1)
        elif what == "type":
            array = array.astype(random.choice(["f4", "f8", "i8", "i4", "b1", "f2", "u1"]))
        elif what == "shape":
            shapes = [
                lambda a: a[:0],
                lambda a: a[..., :-1],
                lambda a: np.stack([a, a]),
                lambda a: a.reshape(-1),
                lambda a: a.T,
            ]
            array = shapes[random.integers(len(shapes))](np.atleast_1d(array))
    if what == "gone":
        del tensors[name]
    elif what == "other":
        tensors[name] = tensors[str(random.choice(sorted(tensors)))].clone()
    else:
        tensors[name] = torch.from_numpy(np.ascontiguousarray(array))


def _mutate_context(path: Path, random: np.random.Generator) -> bytes:
    content = pq.read_table(path)
    j, options = int(random.integers(content.num_columns)), {}
    column = content.column(j).to_numpy().copy()
    what = random.integers(7)
    if what == 0:
        with np.errstate(over="ignore"):
            column[random.integers(len(column))] = NUMBERS[random.integers(len(NUMBERS))]
    elif what == 1:
        content = content.slice(1) if random.random() < 0.5 else pa.concat_tables([content, content])
    elif what == 2:
        content = content.remove_column(j)
    elif what == 3:
        options = {"compression": random.choice(["gzip", "zstd", "none"])}
    kinds = [pa.float32(), pa.float64(), pa.string(), pa.int64(), pa.list_(pa.float32())]
    kind = kinds[random.integers(len(kinds))] if what == 4 else kinds[0]
    if what in (0, 4):
        values = pa.array([None] * len(column)) if random.random() < 0.2 else pa.array(column)
        if pa.types.is_list(kind):
            values = pa.array([[cell, cell] for cell in column])
        with warnings.catch_warnings(action="ignore"):
            content = content.set_column(j, content.field(j).name, values.cast(kind, safe=False))
    sink = pa.BufferOutputStream()
    pq.write_table(content, sink, row_group_size=int(random.choice([3, 1000])), **options)
    return bytes(sink.getvalue())


def _mutate_json(value: Any, random: np.random.Generator) -> None:
    """Change one place of a value that is made of lists and dicts."""
    places: list[tuple[Any, Any]] = []

    def collect(item: Any) -> None:
        entries = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, inner in entries:
            places.append((item, key))
            collect(inner)

    collect(value)
    holder, key = places[random.integers(len(places))]
    what = random.integers(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == 2 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * int(random.choice([-1, 0, 1000, 10**9]))
    else:
        holder[key] = VALUES[random.integers(len(VALUES))]


def main() -> None:
    """Try many."""
    count, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        originals = Originals(Path(folder))
        for kind in KINDS:
            outcomes: Counter[str] = Counter()
            for seed in range(start, start + count):
                try:
                    outcomes[originals.try_one(kind, seed)] += 1
                except Exception:
                    outcomes["FAILED"] += 1
                    print(f"--- {kind} {seed}", "".join(traceback.format_exc().splitlines(True)[-12:]), flush=True)
            print(kind, dict(outcomes), flush=True)


if __name__ == "__main__":
    main()
