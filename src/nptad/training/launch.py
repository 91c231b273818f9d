"""Run a command of ours as several processes on this machine, with torch's own launcher."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from uuid import uuid4

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, get_error_handler
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from nptad.errors import NPTADError, PeerError, TrainingError


def run_command(arguments: list[str], n_processes: int) -> None:
    """Run ``nptad`` with these arguments in several processes that train together, and wait for them.

    Raises
    ------
    TrainingError
        If a process failed; the others are stopped. The message is that of the failure that came first.
    """
    with tempfile.TemporaryDirectory(prefix="nptad-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=n_processes,
            run_id=uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        logging.disable(logging.CRITICAL)  # the launcher's own account of a failure; ours is one sentence
        try:
            # -P: files in the current folder that happen to be called like a module are none.
            elastic_launch(config, sys.executable)("-P", "-m", "nptad.cli", *arguments)
        except ChildFailedError as error:
            raise TrainingError(_first_cause(error.failures, n_processes)) from None
        except SignalException as error:
            if error.sigval == signal.SIGINT:
                raise KeyboardInterrupt from None
            raise TrainingError(f"Training was stopped by {error.sigval.name}.") from None
        finally:
            logging.disable(logging.NOTSET)


def tell_launcher(error: NPTADError) -> None:
    """Hand an error of one of the processes to their launcher, which tells it once."""
    get_error_handler().record_exception(error)


def _first_cause(failures: dict[int, ProcessFailure], n_processes: int) -> str:
    """What to tell: an error of ours, else how a process died, else that others noticed it."""
    candidates = []
    first = min(failure.timestamp for failure in failures.values())
    for rank, failure in failures.items():
        recorded = failure.message if isinstance(failure.message, dict) else {"message": ""}
        kind, _, text = recorded["message"].partition(": ")
        # Once one has failed, the launcher ends the others, and kills what does not end within half a minute.
        ended_by_launcher = failure.exitcode == -signal.SIGTERM or failure.timestamp > first + 20
        if not kind:
            text = _death(rank, failure, n_processes)
        candidates.append((ended_by_launcher, kind == PeerError.__name__, not kind, text))
    return min(candidates)[-1]


def _death(rank: int, failure: ProcessFailure, n_processes: int) -> str:
    how = f"ended with code {failure.exitcode}"
    if failure.exitcode < 0:
        how = f"was killed by {failure.signal_name()}, for instance for want of memory"
    return (
        f"Training stopped: process {rank + 1} of {n_processes} {how}; with a checkpoint, the same command goes on "
        "from there."
    )
