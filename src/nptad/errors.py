"""The exceptions and warnings of nptad; every message says what is wrong, where, and what to do."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.join(os.path.dirname(__file__), "")


class NPTADError(Exception):
    """Base of all errors that nptad raises on purpose."""


class InputError(NPTADError, ValueError):
    """A table, a parameter or a column that cannot be used as given."""


class CellTypeError(InputError, TypeError):
    """A cell that holds something that is neither a number, a text, a truth value nor a time."""


class EmptyFileError(InputError):
    """A file that has neither rows nor the names of columns."""


class TrainingError(NPTADError, RuntimeError):
    """Training cannot go on, for instance because the loss is no longer finite."""


class PeerError(TrainingError):
    """Another process of a training run on several has ended or does not answer."""


class ModelFileError(NPTADError, ValueError):
    """A saved model or checkpoint that is incomplete, changed, or written by a newer version."""


class MemoryShortage(NPTADError, MemoryError):
    """Work that needs more memory than there is."""


class WorkerError(NPTADError, RuntimeError):
    """A process that worked for this one has ended without a result."""


class DataError(NPTADError, ValueError):
    """A data set of the benchmark that cannot be had, cannot be read, or is not what the registry says."""


class TableWarning(UserWarning):
    """Something about the columns or rows of a table that the user should know; reported once per call."""


class MaskBankWarning(UserWarning):
    """The mask bank is larger than allowed, and a sample of it hides some cells less often than others, or never."""


def warn(message: str, category: type[Warning] = TableWarning) -> None:
    """Warn the user: the warning names the first line outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
