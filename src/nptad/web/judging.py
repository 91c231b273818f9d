"""A row of a result that the user calls fine, or an anomaly: the kept model learns it, the page remembers it."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from nptad.errors import InputError
from nptad.io.atomic import replacing
from nptad.io.read import read_table
from nptad.web import jobs


def judge(*, directory: str, row: int, verdict: str) -> dict[str, Any]:
    """Tell the model of a finished job about a listed row, or take that back; ``verdict`` is fine, anomaly or undo.

    Rows are counted from 1, as on the page.
    """
    from nptad.detector import load

    result = Path(directory) / jobs.RESULT
    digest = json.loads((result / jobs.DIGEST).read_text(encoding="utf-8"))
    listed = next((entry for entry in digest["rows"] if entry["row"] == row), None)
    if listed is None:
        raise InputError(f"Row {row} is not listed on this page; load it again.")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(result / jobs.MODEL) as archive:
            archive.extractall(folder)
        model = Path(folder) / "model"
        detector = load(model, "cpu")
        if "record" in listed:  # the last judgement of a row holds
            detector.undo(listed.pop("record"))
            del listed["verdict"]
        if verdict != "undo":
            cells = read_table(Path(directory) / jobs.TABLE).slice(row - 1, 1)
            say = detector.accept if verdict == "fine" else detector.reject
            listed |= {"record": say(cells, reason="on the page"), "verdict": verdict}
        detector.save(model)
        with replacing(result / jobs.MODEL) as archive, replacing(result / jobs.DIGEST) as text:
            pack_model(model, archive)
            digest["upkeep"] = detector.upkeep_.text()
            text.write_text(json.dumps(digest, ensure_ascii=False), encoding="utf-8")
    return {}


def pack_model(model: Path, archive: Path) -> None:
    """Pack the directory of a model into one file."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(model.iterdir()):
            packed.write(path, f"model/{path.name}")
