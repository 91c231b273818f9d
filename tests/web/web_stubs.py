"""Stands in for the worker where a test is about the server: the name of the table says what happens."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from nptad.processes import Parent

COLUMN = {
    "name": "x",
    "shown": "x",
    "kind": "numeric",
    "understood": "numbers",
    "note": "",
    "missing": "none",
    "samples": ["1", "2"],
    "values": ["0", "1"],
    "word": "number",
    "uses": ["number", "category", "ignore"],
    "use": "number",
}
CHOICES = {"uses": ["number", "number"], "label": None, "share": None, "seed": 0}
DIGEST = {
    "statement": "1 of 100 rows looks anomalous",
    "meaning": "",
    "notes": [],
    "n_flagged": 1,
    "rows_are": "Rows are counted from 1, without the header.",
    "names": [],
    "labelled": False,
    "rows": [],
}


def stub_work(server: Parent) -> None:
    task, tell = server.receive()[0], server.send
    if task["do"] == "judge":
        said = f"{task['row']} {task['verdict']}"
        tell({"failed": "Row 5 is common."} if task["row"] == 5 else {"done": {}})
        (Path(task["directory"]) / "said").write_text(said)
        return
    directory, name = Path(task["directory"]), task["name"]
    if name.startswith("crash-at-once"):
        os.kill(os.getpid(), signal.SIGKILL)
    if task["do"] == "inspect":
        upload = directory / "upload"
        if name.startswith("broken"):
            tell({"failed": f"{name} is broken; mend it."})
            return
        (directory / "table.arrow").write_bytes(upload.read_bytes() if upload.exists() else b"example")
        upload.unlink(missing_ok=True)
        columns = [COLUMN, {**COLUMN, "name": "y", "shown": "y"}]
        tell({"done": {"n_rows": 100, "columns": columns, "choices": CHOICES}})
        return
    (directory / "result.tmp").mkdir()
    if name.startswith("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell({"progress": {"phase": "Fitting", "share": 0.25, "left": 42.0}})
    if name.startswith(("endless", "stubborn")):
        time.sleep(600)
    if name.startswith("failing"):
        tell({"failed": "The loss is no longer finite."})
        return
    for file in ("report.html", "scores.csv", "scores.parquet", "model.zip"):
        (directory / "result.tmp" / file).write_text(f"{file} of {name}")
    (directory / "result.tmp" / "digest.json").write_text(json.dumps(DIGEST))
    (directory / "result.tmp").rename(directory / "result")
    tell({"done": {"headline": "1 row flagged", "notes": []}})
