"""Commands of nptad that write, and what must be there when they have ended in any way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

import nptad
from nptad.io.atomic import TEMPORARY
from nptad.io.read import read_table
from nptad.io.write import write_table
from nptad.models.config import CONFIG
from torture.outcomes import Failure

OUTPUTS = ("x.csv", "x.csv.gz", "x.jsonl", "x.parquet", "x.arrow", "x.xlsx")
KINDS = (
    *(f"detect {name}" for name in (*OUTPUTS, "x.html", "model")),
    *(f"score {name}" for name in OUTPUTS),
    *("fit model", "fit model"),
)
"""Command and what it writes."""
SLOW_KINDS = ("score parts", "fit network")


@dataclass(frozen=True)
class Writing:
    """A command that writes."""

    words: list[object]
    target: Path
    """What it writes."""
    rows: int
    """Of its table."""

    @property
    def is_there(self) -> bool:
        """Whether there is a result; a model without a configuration is none."""
        return (self.target / CONFIG if self.target.name in ("model", "network") else self.target).exists()


def table(path: Path, n_rows: int, seed: int) -> Path:
    """A table of numbers and categories, as a file."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_rows, 3))
    columns = {f"x{j}": x[:, j] for j in range(3)} | {"kind": random.choice(["a", "b", "c"], n_rows)}
    write_table(pa.table(columns), path)
    return path


def writing(kind: str, folder: Path, rows: int) -> Writing:
    """A command of this kind, with its table, and for scoring a model, in a folder."""
    command, name = kind.split()
    data, target = table(folder / f"data{rows}.parquet", rows, rows), folder / name
    if command == "score":
        model = folder / "scorer"
        if not model.exists():
            nptad.NPTAD(random_state=0).fit(read_table(table(folder / "training.parquet", 60, 0))).save(model)
        output = f"{target}/" if name == "parts" else target
        return Writing(["score", model, data, "--output", output, "--quiet"], target, rows)
    if command == "fit":
        network = ["--network", "--time-limit", "0.2", "--checkpoint", folder / "run"] if name == "network" else []
        return Writing(["fit", data, "--model", target, "--quiet", *network], target, rows)
    option = {"x.html": "--report", "model": "--model"}.get(name, "--output")
    return Writing(["detect", data, option, target, "--quiet"], target, rows)


def any_kind(random: Random) -> str:
    """Slow ones rarely."""
    return random.choice(SLOW_KINDS if random.random() < 0.03 else KINDS)


def require_whole(target: Path, rows: set[int]) -> None:
    """Fail unless a finished command can have written this, from a table of so many rows."""
    if target.suffix == ".html":
        text = target.read_text(encoding="utf-8")
        found = next((count for count in rows if f"{count:,}" in text and text.rstrip().endswith("</html>")), 0)
    elif (target / CONFIG).exists():
        found = nptad.load(target).model_.schema.n_rows
    elif target.is_dir():
        found = sum(read_table(path).num_rows for path in target.glob("*.parquet"))
    else:
        found = read_table(target).num_rows
    if found not in rows:
        raise Failure(f"{target.name} has {found} rows, not {rows}")


def require_no_leftovers(folder: Path) -> None:
    """Fail if there is what a command that ended by itself must not leave."""
    if left := [path.name for path in folder.rglob(TEMPORARY)]:
        raise Failure(f"left behind: {left}")
