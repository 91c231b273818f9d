"""Commands of nptad in processes of their own, under limits, for the generators that disturb them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from nptad.io.read import read_table
from nptad.io.write import write_table

LIMITED = """
import sys
limit, most, *sys.argv[1:] = sys.argv[1:]
if limit:
    import resource, signal
    if limit == "RLIMIT_FSIZE":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(getattr(resource, limit), (int(most), int(most)))
from nptad.cli.app import main
main()
"""


def start(*arguments: object, limit: str = "", most: int = 0) -> subprocess.Popen[str]:
    """``nptad`` with these arguments."""
    command = [sys.executable, "-c", LIMITED, limit, str(most), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: object, limit: str = "", most: int = 0) -> subprocess.CompletedProcess[str]:
    """The same, waited for."""
    with start(*arguments, limit=limit, most=most) as process:
        out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def table(path: Path, n_rows: int, seed: int) -> Path:
    """A table of numbers and categories, as a file."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_rows, 4))
    columns = {f"x{j}": x[:, j] for j in range(4)} | {"kind": random.choice(["a", "b", "c"], n_rows)}
    write_table(pa.table(columns), path)
    return path


def writing_command(random: Random, folder: Path) -> tuple[list[object], Path]:
    """A command that writes, and what it writes."""
    data = folder / "data.parquet"
    kind = random.choice(["output.csv", "output.parquet", "output.arrow", "report.html", "model"])
    target = folder / kind
    if kind == "model":
        return ["fit", data, "--model", target, "--quiet"], target
    option = "--report" if kind == "report.html" else "--output"
    return ["detect", data, option, target, "--quiet"], target


def is_whole(target: Path, n_rows: int) -> bool:
    """Whether a finished command can have written this."""
    if target.suffix == ".html":
        return target.read_text(encoding="utf-8").rstrip().endswith("</html>")
    if target.is_dir():
        import nptad

        nptad.load(target)
        return True
    return read_table(target).num_rows == n_rows


def leftovers(folder: Path) -> list[str]:
    """What a command that ended by itself must not leave."""
    return [path.name for path in folder.rglob("*") if path.name.endswith(".tmp")]
