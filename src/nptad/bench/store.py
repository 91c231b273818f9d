"""The results of runs as lines of JSON, one file per data set: safe to append to, to kill and to merge with git.

A run is known by its key: data set, method, hash of the configuration, seed, and the version of the method, which is
raised when a change of code changes its results. The choice of a scoring rule is no part of the key where a run has the
figures under all rules. Of several records with one key the last counts; a finished run beats
a failed one, whatever the order in which their files are read.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from nptad.errors import InputError
from nptad.io.locks import open_locked

RunRecord = dict[str, Any]
Key = tuple[str, str, str, int, int]


def config_hash(config: dict[str, Any]) -> str:
    """A short name for a configuration; the order of its settings does not matter."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def without_rule(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of what is trained: of a single model, the choice of a scoring rule makes no other run.

    Examples
    --------
    >>> without_rule({"n_steps": 9, "aggregation": "max", "scale_masks": True, "n_members": 1})
    {'n_steps': 9, 'n_members': 1}
    """
    if config.get("n_members") != 1 or config.get("aggregation") == "nearest":
        return config
    return {name: value for name, value in config.items() if name not in ("aggregation", "scale_masks")}


def key_of(record: RunRecord) -> Key:
    """What identifies a run."""
    trained = config_hash(without_rule(record["config"]))
    return (record["dataset"], record["method"], trained, record["seed"], record["version"])


def append_record(directory: Path, record: RunRecord, shard: str = "") -> None:
    """Add a record for good: on return it is on the disk.

    Each shard writes files of its own, so that machines that share a directory need no common lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{record['dataset']}{shard}.jsonl"
    line = json.dumps(record, sort_keys=True) + "\n"
    with open_locked(path, "ab+") as file:
        _drop_torn_line(file)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def _drop_torn_line(file: Any) -> None:
    """Cut off what a killed writer left of its last line."""
    file.seek(0)
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        file.truncate(whole)
    file.seek(0, os.SEEK_END)


def require_records(directory: Path) -> list[RunRecord]:
    """All records of a directory that must have some."""
    records = read_records(directory)
    if not records:
        raise InputError(f"There are no runs in {directory}; make some with nptad bench run, or give other --results.")
    return records


def read_records(directory: Path) -> list[RunRecord]:
    """All records, one of each key, in a fixed order; a torn last line counts as not written."""
    latest: dict[Key, RunRecord] = {}
    for path in sorted(directory.glob("*.jsonl")):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            try:
                record = json.loads(line)
                before = latest.get(key_of(record), record)
                if record["outcome"] == "done" or before["outcome"] != "done":
                    latest[key_of(record)] = record
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}, line {number} is not a record of a run; remove the line.") from error
    return [latest[key] for key in sorted(latest)]
