"""Scoring on Ray: a data set of Ray Data, or files with the workers on a cluster; needs the extra ``ray``.

Every worker is an actor that opens the saved model once, so all machines must be able to read its directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from nptad.errors import NPTADError, WorkerError
from nptad.models.folder import fingerprint
from nptad.processes import error_from_dict, error_to_dict
from nptad.scale.arrow import ScoringOptions, open_scorer
from nptad.scale.processes import Report, Worker, score_table

__all__ = ["score_dataset"]

BATCH_ROWS = 2**14  # rows that an actor of Ray Data gets at a time


def connect() -> Any:
    """The module ``ray``, connected: to the cluster of ``RAY_ADDRESS``, to a running one here, or to a new one here."""
    try:
        import ray
    except ImportError as error:
        raise NPTADError("Ray is not installed; install it with pip install 'nptad[ray]'.") from error
    if not ray.is_initialized():
        with chdir("/"):  # Ray lets workers import from the folder where it is started
            ray.init(logging_level=logging.ERROR, log_to_driver=False)
    return ray


def score_dataset(
    dataset: Any,
    model: str | Path,
    *,
    ignore: Sequence[str] = (),
    false_alarm_rate: float | None = None,
    reasons: bool = False,
    actors: int | None = None,
    num_cpus: int = 1,
    num_gpus: float = 0,
) -> Any:
    """Score the rows of a ``ray.data.Dataset``; as all its operations, it is carried out when the result is asked for.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The rows, with the columns of the training table and the ignored ones.
    model, ignore, false_alarm_rate, reasons
        See :class:`nptad.scale.arrow.ScoringOptions`. All machines must be able to read the model.
    actors : int, optional
        Workers at most; by default as many as the cluster has room for.
    num_cpus : int
        Cores of each, which are its threads, too.
    num_gpus : float
        GPUs of each; the default scores on the CPU.

    Returns
    -------
    ray.data.Dataset
        The ignored columns, ``score``, ``p_value``, ``anomaly`` and, if asked for, ``reasons``.
    """
    ray = connect()
    options = ScoringOptions(
        str(Path(model).resolve()),
        tuple(ignore),
        false_alarm_rate,
        reasons,
        "cuda" if num_gpus else "cpu",
        num_cpus,
        fingerprint(model),
    )
    room = ray.cluster_resources()
    most = int(room.get("GPU", 0) // num_gpus if num_gpus else room["CPU"] // num_cpus)
    return dataset.map_batches(
        _TableActor,
        fn_constructor_args=(options,),
        batch_format="pyarrow",
        batch_size=BATCH_ROWS,
        # Growing from one: a pool that took all cores at once would leave none to read with.
        concurrency=(1, max(1, actors or most)),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
    )


def ray_workers(options: ScoringOptions, jobs: int | None) -> list[Callable[[], Worker]]:
    """Actors on a Ray cluster, for :func:`nptad.scale.bigfiles.score_files`: one a core, or one a GPU."""
    room = connect().cluster_resources()
    on_gpu = options.device != "cpu" and room.get("GPU", 0) > 0
    jobs = jobs or int(room["GPU" if on_gpu else "CPU"])
    device = "cuda" if on_gpu else "cpu"
    options = replace(options, model=str(Path(options.model).resolve()), device=device, threads=1)
    return [partial(RayWorker, options)] * max(1, jobs)


class RayWorker:
    """One actor on a Ray cluster."""

    def __init__(self, options: ScoringOptions) -> None:
        self._ray = connect()
        actor = self._ray.remote(num_cpus=1, num_gpus=int(options.device == "cuda"))(_TableActor)
        self._actor = actor.remote(options)

    def score(self, table: pa.Table, report: Report) -> tuple[pa.Table, list[str]]:
        """See :class:`nptad.scale.processes.Worker`."""
        try:
            result, notes, error = self._ray.get(self._actor.score.remote(table))
        except self._ray.exceptions.RayActorError as error:
            cause = str(error).strip().splitlines()[0].rstrip(".")
            raise WorkerError(f"A worker on the Ray cluster has died ({cause}).") from error
        if error is not None:
            raise error_from_dict(error)
        return result, notes

    def close(self) -> None:
        """See :class:`nptad.scale.processes.Worker`."""
        self._ray.kill(self._actor)


class _TableActor:
    """Scores tables, one after the other."""

    def __init__(self, options: ScoringOptions) -> None:
        self._options = options

    def __call__(self, table: pa.Table) -> pa.Table:
        """The result; for Ray Data, which passes errors on."""
        return score_table(open_scorer(self._options), table)[0]

    def score(self, table: pa.Table) -> tuple[pa.Table | None, list[str], dict[str, str] | None]:
        """Result, notes, and what is wrong with the rows, if something is."""
        try:
            return *score_table(open_scorer(self._options), table), None
        except NPTADError as error:
            return None, [], error_to_dict(error)
