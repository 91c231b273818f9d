"""The scoring service under load, on the loopback interface: rows a second, latency, failures and memory.

    python benchmarks/load.py                  # two minutes; writes results/load.md
    python benchmarks/load.py --soak 10        # the same number of clients for ten minutes; adds what it finds

A model of 2,000 rows and 20 columns, one worker, one thread for each process. The service, its worker and the clients
share the cores of the machine, and so does whatever else runs on it: what the service costs is also given in processor
seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import torch

from nptad import NPTAD, load
from nptad.io.atomic import replacing
from nptad.wording import plural

RESULT = Path(__file__).parents[1] / "results" / "load.md"
CLIENTS, BATCHES = (1, 8, 64), (1, 100)
SECONDS, WARM_SECONDS = 8.0, 2.0
SOAK = "## Soak"


def made_table(n_rows: int, seed: int) -> pd.DataFrame:
    """Numbers that depend on one another, categories, a time and some gaps."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n_rows, 3))
    weights = np.random.default_rng(0).normal(size=(3, 15))  # the same in all tables
    numbers = hidden @ weights + 0.3 * random.normal(size=(n_rows, 15))
    numbers[random.random(numbers.shape) < 0.01] = np.nan
    table = pd.DataFrame(numbers.round(4), columns=[f"number_{j}" for j in range(15)])
    for j in range(4):
        table[f"kind_{j}"] = np.where(hidden[:, 0] > j - 1.5, "a", random.choice(list("bcd"), n_rows))
    start = np.datetime64("2026-01-01T00:00:00")
    table["when"] = start + random.integers(0, 300 * 86400, n_rows).astype("timedelta64[s]")
    return table


def json_rows(table: pd.DataFrame) -> list[dict[str, object]]:
    """The rows as clients send them."""
    return json.loads(table.assign(when=table["when"].astype(str)).to_json(orient="records"))


@dataclass
class Load:
    """What clients have seen."""

    seconds: list[float] = field(default_factory=list)
    """Of each request."""
    failures: int = 0
    wall: float = 0.0
    processor: float = 0.0
    """Processor seconds of the service and its workers."""
    others: float = 0.0
    """Processor seconds of everything else on the machine but the clients."""


@dataclass
class Running:
    """A service that is up."""

    process: subprocess.Popen[bytes]
    port: int

    def _all(self) -> list[psutil.Process]:
        service = psutil.Process(self.process.pid)
        return [service, *service.children(recursive=True)]

    def processor_seconds(self) -> float:
        """Of the service and its workers since they were started."""
        return sum(sum(process.cpu_times()[:2]) for process in self._all())

    def megabytes(self) -> float:
        """Memory of the service and its workers that is theirs alone."""
        return sum(process.memory_full_info().uss for process in self._all()) / 1e6


@contextmanager
def running(model: Path) -> Iterator[Running]:
    """A service on a free port."""
    command = [sys.executable, "-m", "nptad.cli", "api", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            port = next(json.loads(line)["port"] for line in process.stderr if b'"started"' in line)
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)  # the log
            yield Running(process, port)
        finally:
            process.terminate()
            process.wait(60)
            drain.wait(60)


async def client(port: int, bodies: list[bytes], until: float, load: Load) -> None:
    """One client with one connection, which asks again as soon as it is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    turn = 0
    while time.perf_counter() < until:
        body = bodies[turn % len(bodies)]
        turn += 1
        started = time.perf_counter()
        writer.write(head % len(body) + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        load.seconds.append(time.perf_counter() - started)
        load.failures += not answer.startswith(b"http/1.1 200")
    writer.close()


def machine_seconds() -> float:
    """Processor seconds of all processes of the machine since it was started."""
    spent = psutil.cpu_times()
    return spent.user + spent.nice + spent.system  # user and nice have the time of guests


async def clients(service: Running, n_clients: int, bodies: list[bytes], seconds: float) -> Load:
    """Several clients at once, for some seconds."""
    load, started, before = Load(), time.perf_counter(), service.processor_seconds()
    machine, own = machine_seconds(), time.process_time()
    turned = [bodies[start:] + bodies[:start] for start in range(n_clients)]
    await asyncio.gather(*(client(service.port, each, started + seconds, load) for each in turned))
    load.wall, load.processor = time.perf_counter() - started, service.processor_seconds() - before
    load.others = machine_seconds() - machine - (time.process_time() - own) - load.processor
    return load


def bodies_of(rows: list[dict[str, object]], batch: int) -> list[bytes]:
    """Requests of so many rows each."""
    return [json.dumps(rows[start : start + batch]).encode() for start in range(0, len(rows), batch)]


def in_process(model: Path, table: pd.DataFrame, batch: int) -> str:
    """What the same rows cost with ``detect``, without HTTP, as a sentence."""
    detector, seconds = load(model), []
    parts = [table.iloc[start : start + batch] for start in range(0, len(table), batch)][:100]
    detector.detect(parts[0])
    started = time.process_time()
    for part in parts:
        called = time.perf_counter()
        detector.detect(part)
        seconds.append(time.perf_counter() - called)
    each = (time.process_time() - started) / (len(parts) * batch) * 1e3
    rate, p50 = len(parts) * batch / sum(seconds), float(np.median(seconds)) * 1e3
    return (
        f"{plural(batch, 'row')} a call: {rate:,.0f} rows a second, {p50:.1f} ms a call (p50), "
        f"{each:.2f} ms of processor a row"
    )


def measure(model: Path) -> list[str]:
    """The table of the result."""
    new = made_table(2000, seed=1)
    rows = json_rows(new)
    lines = [
        "| clients | rows in a request | rows a second | p50, ms | p99, ms | failures | processor, ms a row | "
        "cores that others used |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with running(model) as service:
        for batch in BATCHES:
            bodies = bodies_of(rows, batch)
            for n_clients in CLIENTS:
                asyncio.run(clients(service, n_clients, bodies, WARM_SECONDS))
                seen = asyncio.run(clients(service, n_clients, bodies, SECONDS))
                p50, p99 = np.percentile(seen.seconds, (50, 99)) * 1e3
                n_rows = len(seen.seconds) * batch
                lines.append(
                    f"| {n_clients} | {batch} | {n_rows / seen.wall:,.0f} | {p50:.1f} | {p99:.1f} | {seen.failures} | "
                    f"{seen.processor / n_rows * 1e3:.2f} | {seen.others / seen.wall:.1f} |"
                )
                print(lines[-1], flush=True)
    alone = [f"* {in_process(model, new, batch)}" for batch in BATCHES]
    return [*lines, "", "In one process without HTTP, with `detect`, right after:", "", *alone]


def soak(model: Path, minutes: float) -> list[str]:
    """Eight clients for some minutes: failures, and memory as it goes."""
    bodies = bodies_of(json_rows(made_table(2000, seed=1)), 1) + bodies_of(json_rows(made_table(500, seed=2)), 100)
    lines = [
        "| minute | requests | failures | p99, ms | memory, MB | cores that others used |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    with running(model) as service:
        asyncio.run(clients(service, 8, bodies, 20.0))
        lines.append(f"| 0 | | | | {service.megabytes():.1f} | |")
        for minute in range(1, round(minutes) + 1):
            seen = asyncio.run(clients(service, 8, bodies, 60.0))
            p99 = np.percentile(seen.seconds, 99) * 1e3
            lines.append(
                f"| {minute} | {len(seen.seconds):,} | {seen.failures} | {p99:.0f} | {service.megabytes():.1f} | "
                f"{seen.others / seen.wall:.1f} |"
            )
            print(lines[-1], flush=True)
    said = "Eight clients without pause, most requests of one row, some of 100. Memory after 20 seconds is minute 0."
    return [SOAK, "", said, "", *lines]


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="only the soak, for so many minutes")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    page = RESULT.read_text(encoding="utf-8") if RESULT.exists() else ""
    before, _, soaked = page.partition(SOAK)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        NPTAD(random_state=0).fit(made_table(2000, seed=0)).save(model)
        if arguments.soak:
            page = before.rstrip() + "\n\n" + "\n".join(soak(model, arguments.soak)) + "\n"
        else:
            lines = [
                "# The scoring service under load",
                "",
                f"`python benchmarks/load.py`: {len(os.sched_getaffinity(0))} cores, for all that runs on the machine.",
                "A model of 2,000 rows and 20 columns, one worker of one thread; the clients run on the same cores.",
                "The last column says how many cores other programs used meanwhile.",
                "",
                *measure(model),
            ]
            page = "\n".join(lines) + "\n" + (f"\n{SOAK}{soaked}" if soaked else "")
    with replacing(RESULT) as temporary:
        temporary.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
