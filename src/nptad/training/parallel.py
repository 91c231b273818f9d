"""Pieces of work side by side on several cores, each in a thread with its share of torch's threads.

The threads of torch and of NumPy's matrix products split each operation and wait for one another after it, actively.
Operations here take about a millisecond, and a core that is briefly busy with something else delays all others. Pieces
of work, such as the members of an ensemble, never wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import torch
from threadpoolctl import ThreadpoolController

Map = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Apply a function to all items; the results in their order."""


@contextmanager
def threads_for(n_tasks: int) -> Iterator[Map]:
    """A map over up to ``n_tasks`` items at a time, in this thread alone if there is one task or one core.

    Examples
    --------
    >>> with threads_for(2) as run:
    ...     run(len, ["one", "three"])
    [3, 5]
    """
    n_cores = torch.get_num_threads()
    n_threads = min(n_tasks, n_cores)
    if n_threads < 2:
        yield lambda function, items: [function(item) for item in items]
        return
    share = n_cores // n_threads
    # The number set in a thread applies to that thread and to threads that start later, so it is reset at the end.
    with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(share,)) as threads:
        try:
            yield lambda function, items: list(threads.map(function, items))
        finally:
            torch.set_num_threads(n_cores)


@contextmanager
def single_thread(kind: Literal["blas", "openmp"]) -> Iterator[None]:
    """Libraries use a single thread: "blas" in NumPy's matrix products, "openmp" in scikit-learn and torch.

    Also a decorator. It knows the libraries that were loaded when it was used first.
    """
    with _pools().limit(limits=1, user_api=kind):
        yield


@cache
def _pools() -> ThreadpoolController:
    """Looking for the loaded libraries takes longer than scoring a row."""
    return ThreadpoolController()
