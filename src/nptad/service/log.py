"""The log: one JSON object a line on standard error, without addresses of clients, tokens, and what rows contain."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any


def log(event: str, **facts: Any) -> None:
    """Write one line."""
    line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts})
    with suppress(OSError, ValueError):  # a log that nobody takes must not end the service
        print(line, file=sys.stderr, flush=True)


class LogHandler(logging.Handler):
    """Puts what libraries log into the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one line."""
        log("library", level=record.levelname.lower(), message=self.format(record))
