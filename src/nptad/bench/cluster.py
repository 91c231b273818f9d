"""The benchmark on a Ray cluster: each task runs on a machine that has room for it; its records are stored here.

Every machine needs this package with the extra ``bench``, and the data sets: in NPTAD_DATA, in the given folder, or
downloaded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nptad.bench.run import Limits, supervise
from nptad.bench.store import RunRecord
from nptad.bench.worker import Task, reason_of
from nptad.scale.ray import connect


def room_for_tasks(threads: int) -> int:
    """How many tasks with this number of threads the cluster can run at a time."""
    return max(1, int(connect().cluster_resources()["CPU"] // threads))


def supervise_on_ray(task: Task, limits: Limits) -> Iterator[RunRecord]:
    """Run :func:`nptad.bench.run.supervise` on the cluster and yield each record as soon as it is there."""
    ray = connect()
    left = list(task.seeds)
    if task.data is not None:  # Ray's workers have other working directories
        task = replace(task, data=str(Path(task.data).resolve()))
    remote = ray.remote(num_cpus=task.threads, max_retries=0)(supervise)
    try:
        for reference in remote.options(num_returns="streaming").remote(task, limits):
            record = ray.get(reference)
            left.remove(record["seed"])
            yield record
    except ray.exceptions.RayError as error:
        yield from (task.record(seed, "failed", reason=reason_of(error)) for seed in left)
