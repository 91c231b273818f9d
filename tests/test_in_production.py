"""README's section "In production", carried out from its first line to its last with real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest

README = Path(__file__).parents[1] / "README.md"
SECTION = README.read_text(encoding="utf-8").partition("## In production")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"(?m)^    (nptad .*)$|^```bash\n([^`]*)^```$", SECTION)
PORT = "8766"


def orders(n_rows, seed):
    random = np.random.default_rng(seed)
    size = random.normal(size=n_rows).round(3)
    weight = (3 * size + 0.1 * random.normal(size=n_rows)).round(3)
    colour = np.where(size > 0, "red", "blue")
    return pd.DataFrame({"id": np.arange(n_rows), "size": size, "weight": weight, "colour": colour})


@pytest.fixture
def folder(tmp_path):
    orders(200, 0).to_parquet(tmp_path / "last_year.parquet")
    orders(60, 1).to_csv(tmp_path / "today.csv", index=False)
    (tmp_path / "in").mkdir()
    orders(60, 2).to_parquet(tmp_path / "in" / "monday.parquet")
    orders(60, 3).assign(weight=40.0).to_parquet(tmp_path / "in" / "tuesday.parquet")
    orders(20, 4).to_json(tmp_path / "orders.jsonl", orient="records", lines=True)
    return tmp_path


def started(command, folder, stack, **streams):
    """A process group of its own that ends with the test."""
    process = subprocess.Popen(["bash", "-c", command], cwd=folder, text=True, start_new_session=True, **streams)
    stack.enter_context(process)
    stack.callback(os.killpg, process.pid, signal.SIGTERM)
    return process


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def known_rows(port):
    with urlopen(f"http://localhost:{port}/model") as answer:
        return json.load(answer)["training_rows"]


def test_the_section_runs_as_it_is_written(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    port, ran, scores = PORT, [], folder / "scores.jsonl"
    with ExitStack() as stack:
        for line, block in COMMANDS:
            command = (line or block).replace(PORT, port)
            ran.append(command.split()[1])
            if command.startswith("nptad api"):
                service = started(f"exec {command} --port 0", folder, stack, stderr=subprocess.PIPE)
                port = next(str(json.loads(line)["port"]) for line in service.stderr if '"started"' in line)
            elif command.startswith("tail -F"):
                started(command, folder, stack)
                wait_until(lambda: scores.exists() and len(scores.read_text().splitlines()) >= 10)
            else:
                done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300)
                assert done.returncode == 0, done.stderr
                if command.startswith("curl"):
                    assert json.loads(done.stdout)["flagged"] == 1
        wait_until(lambda: known_rows(port) == 260)  # the service takes over the changed model by itself
    assert ran == ["fit", "api", f"localhost:{port}/score", "score", "monitor", "feedback", "update", "-F"]
    assert "tuesday.parquet" in (folder / "monitor.html").read_text(encoding="utf-8")
    assert all("score" in json.loads(line) for line in scores.read_text().splitlines())
