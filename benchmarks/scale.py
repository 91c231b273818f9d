"""Scoring past one process: the same scores on every engine, rows per second, and memory that does not grow.

    python benchmarks/scale.py                       # all stages; what is in results/scale.csv is not repeated
    python benchmarks/scale.py memory --rows 100000  # one stage, smaller

Stages: `equal` scores 300,000 rows of forestcover (all 286,048 and the first 13,952 again; 10 columns, 10 masks, two
members with a context of 500 rows each) on every engine and compares scores with `NPTAD.detect` in one
process. `engines`
and `memory` use a cheap model, stated in the result, since they are about everything but the model: `engines` times a
million rows on each, `memory` scores one to ten million with two processes.

Every measurement runs in a process of its own, whose memory, with all its descendants', is added up twice a second
(Linux; shared pages counted once). Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from nptad import NPTAD, load
from nptad.io.atomic import replacing
from nptad.io.read import open_stream
from nptad.io.write import write_table
from nptad.scale.arrow import ArrowScorer, ScoringOptions
from nptad.scale.bigfiles import find_files, score_files
from nptad.scale.processes import score_table
from nptad.scale.ray import connect, ray_workers, score_dataset
from nptad.scale.spark import score_dataframe

DATA = Path(os.environ.get("NPTAD_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parents[1] / "results"
STAGES = ("equal", "engines", "memory")
MODELS = {"equal": (10, 1000), "engines": (4, 400), "memory": (4, 400)}
"""Columns and training rows of the model of each stage."""
MEMORY_STEPS = (1, 2, 5, 10)
_JOBS = 2
_BILLION, _CLUSTER_CORES, _CORES_OF_A_GPU = 10**9, 160, 140
_SAMPLE_SECONDS = 0.5


@dataclass(frozen=True)
class Measured:
    """One line of the result."""

    stage: str
    engine: str
    rows: int
    start_seconds: float
    """Until the engine stands; starting our own workers is part of ``seconds``."""
    seconds: float
    peak_mib: int
    same_scores: bool


# The engines: each starts, then scores files into a directory. They run in processes of their own.

Score = Callable[[ScoringOptions, list[str], Path], object]


def one_process() -> Score:
    """The reference: no workers, one thread."""

    def score(options: ScoringOptions, inputs: list[str], output: Path) -> None:
        output.mkdir()
        scorer = ArrowScorer(options)
        for file, path in enumerate(inputs):
            for part, table in enumerate(open_stream(path).parts()):
                write_table(score_table(scorer, table)[0], output / f"part-{file:05}-{part:05}.parquet")

    return score


def two_processes() -> Score:
    """`nptad score --jobs 2`."""
    return partial(score_files, jobs=_JOBS)


def ray_files() -> Score:
    """`nptad score --engine ray --jobs 2`."""
    connect()
    return partial(score_files, jobs=_JOBS, engine=ray_workers)


def ray_data() -> Score:
    """`score_dataset` on Ray Data, which reads and writes as well."""
    ray = connect()

    def score(options: ScoringOptions, inputs: list[str], output: Path) -> None:
        scored = score_dataset(ray.data.read_parquet(inputs), options.model, ignore=options.ignore)
        scored.write_parquet(str(output))

    return score


def spark() -> Score:
    """`score_dataframe` on Spark, which reads and writes as well."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes the first python3 of the path
    builder = SparkSession.builder.master(f"local[{_JOBS}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false").getOrCreate()

    def score(options: ScoringOptions, inputs: list[str], output: Path) -> None:
        score_dataframe(session.read.parquet(*inputs), options.model, ignore=options.ignore).write.parquet(str(output))

    return score


ENGINES: dict[str, Callable[[], Score]] = {
    "one process": one_process,
    "2 processes": two_processes,
    "Ray (files)": ray_files,
    "Ray Data": ray_data,
    "Spark": spark,
}


def run_child(task: dict) -> None:
    """Start an engine, score, and say how long it took."""
    started = time.perf_counter()
    score = ENGINES[task["engine"]]()
    ready = time.perf_counter()
    score(ScoringOptions(task["model"], ["id"], device="cpu", threads=1), task["inputs"], Path(task["output"]))
    print(json.dumps({"start_seconds": ready - started, "seconds": time.perf_counter() - ready}), flush=True)


def run_engine(engine: str, model: Path, inputs: list[str], output: Path) -> dict:
    """The same in a process that is watched; also its peak memory in MiB."""
    shutil.rmtree(output, ignore_errors=True)
    task = {"engine": engine, "model": str(model), "inputs": inputs, "output": str(output)}
    command = [sys.executable, __file__, "--child", json.dumps(task)]
    peak = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ) as child:
        while child.poll() is None:
            peak = max(peak, _memory(child.pid))
            time.sleep(_SAMPLE_SECONDS)
        lines = child.stdout.read().strip().splitlines()
    if child.returncode:
        raise SystemExit(f"{engine} ended with exit code {child.returncode}.")
    return {**json.loads(lines[-1]), "peak_mib": round(peak / 2**20)}


def _memory(pid: int) -> int:
    """Bytes of a process and all its descendants; pages that several share are counted once."""
    total = 0
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    for member in family:
        try:
            total += member.memory_full_info().pss
        except psutil.Error:
            continue
    return total


# The tables and the models.


def random_rows(n_rows: int, n_columns: int, seed: int) -> pa.Table:
    """A key and numbers that depend on one another, one row in a hundred wrong."""
    random = np.random.default_rng(seed)
    common = random.normal(size=(n_rows, 1))
    rows = common + random.normal(0, 0.3, (n_rows, n_columns))
    wrong = random.random(n_rows) < 0.01
    rows[wrong] = random.normal(0, 2, (wrong.sum(), n_columns))
    ids = np.arange(n_rows) + seed * 10**9
    return pa.table({"id": ids, **{f"x{j}": rows[:, j] for j in range(n_columns)}})


def forestcover(n_rows: int) -> pa.Table:
    """So many rows of forestcover, from the beginning again where it ends."""
    with np.load(DATA / "forestcover.npz", allow_pickle=False) as file:
        rows = file["X"].astype(np.float64)
    rows = rows[np.arange(n_rows) % len(rows)]
    return pa.table({"id": np.arange(n_rows), **{f"x{j}": rows[:, j] for j in range(rows.shape[1])}})


def saved_model(work: Path, stage: str, rows: pa.Table) -> Path:
    """A model with two members and masks of one cell; hardly trained, which costs scoring nothing."""
    n_train = MODELS[stage][1]
    train = rows.take(np.random.default_rng(0).choice(len(rows), min(n_train, len(rows)), replace=False))
    detector = NPTAD(2, n_steps=50, embedding_dim=8, max_masked=1, random_state=0)
    detector.fit(train.drop_columns("id")).save(work / f"model-{stage}")
    return work / f"model-{stage}"


def input_files(work: Path, name: str, tables: Iterator[pa.Table]) -> list[str]:
    """The tables as Parquet files, one in memory at a time."""
    folder = work / name
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        write_table(table, folder / f"{number:03}.parquet")
    return find_files(folder / "*.parquet")


def scores_in(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Scores and p-values by key."""
    table = pq.read_table(folder, columns=["id", "score", "p_value"]).sort_by("id")
    return table["score"].to_numpy(), table["p_value"].to_numpy()


def is_same(one: tuple[np.ndarray, np.ndarray], two: tuple[np.ndarray, np.ndarray]) -> bool:
    """True if all scores are equal to 1e-5."""
    return all(np.allclose(a, b, rtol=1e-5) for a, b in zip(one, two, strict=True))


# The stages.


def equal(work: Path, rows: int, known: set[str]) -> Iterator[Measured]:
    """All engines against one call of `NPTAD.detect`."""
    table = forestcover(rows)
    model = saved_model(work, "equal", table)
    inputs = input_files(work, "forestcover", (table.slice(start, 50_000) for start in range(0, rows, 50_000)))
    torch.set_num_threads(1)
    found = load(model, "cpu").detect(table.drop_columns("id"), false_alarm_rate=0.01)
    for engine in ENGINES:
        if engine not in known:
            measured = run_engine(engine, model, inputs, work / "out")
            same = is_same((found.score, found.p_value), scores_in(work / "out"))
            yield Measured("equal", engine, rows, **measured, same_scores=same)


def engines(work: Path, rows: int, known: set[str]) -> Iterator[Measured]:
    """Rows per second on each engine."""
    model = saved_model(work, "engines", random_rows(400, MODELS["engines"][0], 99))
    each = -(-rows // 10)
    tables = (random_rows(each, MODELS["engines"][0], seed) for seed in range(10))
    inputs = input_files(work, "engines", tables)
    reference = None
    for engine in ENGINES:
        if engine in known and reference is not None:
            continue
        measured = run_engine(engine, model, inputs, work / "out")
        scores = scores_in(work / "out")
        reference = scores if reference is None else reference  # of the first, which is one process
        if engine not in known:
            yield Measured("engines", engine, 10 * each, **measured, same_scores=is_same(reference, scores))


def memory(work: Path, rows: int, known: set[str]) -> Iterator[Measured]:
    """Peak memory of two processes for more and more files of so many rows."""
    model = saved_model(work, "memory", random_rows(400, MODELS["memory"][0], 99))
    tables = (random_rows(rows, MODELS["memory"][0], seed) for seed in range(max(MEMORY_STEPS)))
    inputs = input_files(work, "memory", tables)
    for files in MEMORY_STEPS:
        if str(files * rows) not in known:
            measured = run_engine("2 processes", model, inputs[:files], work / "out")
            scored = sum(pq.read_metadata(path).num_rows for path in (work / "out").glob("part-*"))
            assert scored == files * rows
            yield Measured("memory", "2 processes", files * rows, **measured, same_scores=True)


# The result.


def read_results(path: Path) -> list[Measured]:
    """What was measured before."""
    if not path.exists():
        return []
    kinds = {"rows": int, "peak_mib": int, "start_seconds": float, "seconds": float, "same_scores": "True".__eq__}
    with path.open(newline="", encoding="utf-8") as file:
        return [Measured(**{n: kinds.get(n, str)(v) for n, v in line.items()}) for line in csv.DictReader(file)]


def write_results(results: Path, measured: list[Measured]) -> None:
    """CSV, page and figure."""
    with replacing(results / "scale.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Measured.__annotations__), lineterminator="\n")
        writer.writeheader()
        for one in measured:
            line = asdict(one)
            writer.writerow({n: round(v, 2) if isinstance(v, float) else v for n, v in line.items()})
    with replacing(results / "scale.md") as temporary:
        temporary.write_text(page(measured), encoding="utf-8")
    steps = [one for one in measured if one.stage == "memory"]
    if steps:
        draw(steps, results / "figures")


def page(measured: list[Measured]) -> str:
    """The tables with what they mean."""
    by_stage = {stage: [one for one in measured if one.stage == stage] for stage in STAGES}
    lines = [
        "# Past one process",
        "",
        f"Generated by `python benchmarks/scale.py`. torch {torch.__version__}, {os.cpu_count()} cores, "
        f"{platform.machine()}. One thread in each worker, two workers. Peak memory is that of all processes together. "
        "Seconds count from the first file to the last part, with starting our workers and loading the model; start-up "
        "is what Ray or Spark needs before.",
    ]
    if by_stage["equal"]:
        differ = [one.engine for one in by_stage["equal"] if not one.same_scores]
        agree = [one.engine for one in by_stage["equal"] if one.same_scores]
        lines += [
            "",
            "## The same scores",
            "",
            f"{by_stage['equal'][0].rows:,} rows of forestcover, scores and p-values compared with one call of "
            f"`NPTAD.detect` (equal to 1e-5). The same: {', '.join(agree) or 'none'}. Different: "
            f"{', '.join(differ) or 'none'}.",
        ]
    if by_stage["engines"]:
        alone = next((one.rows / one.seconds for one in by_stage["engines"] if one.engine == "one process"), None)
        lines += [
            "",
            "## Rows per second",
            "",
            f"{by_stage['engines'][0].rows:,} rows with a key and 4 numbers, in 10 Parquet files; {_cheap()}. The "
            "ideal is twice one process.",
            "",
            "| engine | start-up, s | scoring, s | rows per second | share of ideal | peak memory, MiB | same scores |",
            "|---|---:|---:|---:|---:|---:|---|",
        ]
        for one in by_stage["engines"]:
            pace = one.rows / one.seconds
            share = "" if alone is None or one.engine == "one process" else f"{pace / (_JOBS * alone):.0%}"
            same = "yes" if one.same_scores else "no"
            lines.append(
                f"| {one.engine} | {one.start_seconds:.1f} | {one.seconds:.1f} | {pace:,.0f} | {share} | "
                f"{one.peak_mib:,} | {same} |"
            )
        if alone is not None:
            lines += ["", estimate(by_stage["engines"], alone)]
    if by_stage["memory"]:
        lines += [
            "",
            "## Memory",
            "",
            f"2 processes, files of {min(one.rows for one in by_stage['memory']):,} rows with a key and 4 numbers; "
            f"{_cheap()}.",
            "",
            "| rows | peak memory, MiB | rows per second |",
            "|---:|---:|---:|",
            *(f"| {one.rows:,} | {one.peak_mib:,} | {one.rows / one.seconds:,.0f} |" for one in by_stage["memory"]),
            "",
            "![Peak memory](figures/memory.svg)",
        ]
    return "\n".join(lines) + "\n"


def estimate(measured: list[Measured], pace: float) -> str:
    """A billion rows on paper."""
    share = next((one.rows / one.seconds / (_JOBS * pace) for one in measured if one.engine == "Ray Data"), None)
    if share is None:
        return ""
    cluster = _BILLION / (_CLUSTER_CORES * pace * share) / 60
    gpus = _BILLION / (8 * _CORES_OF_A_GPU * pace) / 60
    return (
        f"On paper: a billion such rows on 10 machines of 16 cores, at {pace:,.0f} rows per second and core and the "
        f"{share:.0%} of the ideal that Ray Data reached here, take {cluster:.0f} minutes; on one core "
        f"{_BILLION / pace / 3600:,.0f} hours. On 8 GPUs, each taken for {_CORES_OF_A_GPU} such cores (an assumption, "
        f"see docs/scaling.md; not measured): {gpus:.1f} minutes."
    )


def _cheap() -> str:
    return "a cheap model (4 masks, embedding 8, two members with a context of 200 rows each)"


def draw(steps: list[Measured], folder: Path) -> None:
    """Peak memory against rows."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(4.5, 2.8), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([one.rows / 1e6 for one in steps], [one.peak_mib for one in steps], "o-", color="#1f5fa8")
        axes.set(xlabel="rows, millions", ylabel="peak memory, MiB", xlim=(0, None))
        axes.set_ylim(0, 1.3 * max(one.peak_mib for one in steps))
        axes.set_title("Scoring files in parts, two processes", fontsize=9, loc="left")
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": "nptad"}):
            figure.savefig(folder / "memory.svg", metadata={"Date": None})
            figure.savefig(folder / "memory.png", dpi=150)


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", help=", ".join(STAGES))
    parser.add_argument("--rows", type=int, help="300,000 for equal, 1,000,000 otherwise")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "nptad-scale", help="for tables")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(json.loads(arguments.child))
        return
    stages = arguments.stages or STAGES
    if unknown := [stage for stage in stages if stage not in STAGES]:
        parser.error(f"there is no stage {unknown[0]}; choose of {', '.join(STAGES)}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.results.mkdir(parents=True, exist_ok=True)
    measured = read_results(arguments.results / "scale.csv")
    run = {"equal": equal, "engines": engines, "memory": memory}
    for stage in stages:
        known = {str(one.rows) if stage == "memory" else one.engine for one in measured if one.stage == stage}
        done = len(known) == (len(MEMORY_STEPS) if stage == "memory" else len(ENGINES))
        if done:
            print(f"{stage}: measured before")
            continue
        for one in run[stage](arguments.work, arguments.rows or (300_000 if stage == "equal" else 1_000_000), known):
            measured.append(one)
            write_results(arguments.results, measured)  # at once: a run that is stopped goes on from here
            scores = "the same scores" if one.same_scores else "OTHER SCORES"
            pace = f"{one.rows / one.seconds:,.0f} rows/s, {one.peak_mib:,} MiB"
            print(f"{one.stage}, {one.engine}, {one.rows:,} rows: {pace}, {scores}", flush=True)
    write_results(arguments.results, measured)
    shutil.rmtree(arguments.work)


if __name__ == "__main__":
    main()
