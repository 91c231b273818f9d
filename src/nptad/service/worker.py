"""The processes that score: both sides, and the messages between them.

The first message to a process says which model. It answers ``{"ready": facts}`` or ``{"error": ...}``. Each message
after that has several requests, with their bodies one after the other as payload, and so has its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nptad.errors import NPTADError, WorkerError
from nptad.memory import memory_explained
from nptad.processes import Child, Parent, error_from_dict, error_to_dict
from nptad.service.messages import Answer, Request


@dataclass(frozen=True)
class WorkerOptions:
    """What every worker is told; plain values that fit into JSON."""

    directory: str
    """A saved model."""
    false_alarm_rate: float | None = None
    """Rows with a p-value up to this are flagged; by default that of the detector."""
    most_rows: int = 100_000
    """Rows of a request at most."""


class Worker:
    """A process that scores, as the service sees it."""

    def __init__(self, options: WorkerOptions, threads: int) -> None:
        self._child = Child("nptad.service.worker:work", threads=threads)
        self.facts: dict[str, Any] = {}
        self.news: dict[str, Any] = {"flagged_share": 0.0, "drifted": []}
        """What the last rows say (:class:`nptad.service.drift.LastRows`)."""
        self.retired = False
        """Whether another one has taken its place; it finishes what it has begun."""
        self._options = options

    def open(self) -> None:
        """Wait until the model is loaded."""
        try:
            self._child.send(asdict(self._options))
            message, _ = self._child.receive()
        except EOFError as error:
            raise WorkerError(f"The process that loads the model {self._child.ending()}.") from error
        if "error" in message:
            raise error_from_dict(message["error"])
        self.facts = message["ready"]

    def exchange(self, requests: Sequence[Request]) -> list[Answer]:
        """Have requests of one kind answered; EOFError if the process has ended."""
        entries, payload = _packed([{"kind": r.kind, "format": r.format} for r in requests], [r.body for r in requests])
        self._child.send({"requests": entries}, payload)
        message, bodies = self._child.receive()
        self.news = message["news"] or self.news
        return [Answer(**entry, body=body) for entry, body in _unpacked(message["answers"], bodies)]

    def close(self) -> None:
        """End the process, even in the middle of its work."""
        self._child.kill()


def work(parent: Parent) -> None:
    """Answer requests until the parent ends; what the process does."""
    from nptad.service.scoring import ModelScorer  # imports torch, which the service itself does without

    try:
        with memory_explained():
            scorer = ModelScorer(**parent.receive()[0])
    except NPTADError as error:
        parent.send({"error": error_to_dict(error)})
        return
    parent.send({"ready": scorer.facts()})
    while True:
        message, bodies = parent.receive()
        answers = scorer.answer([Request(**entry, body=body) for entry, body in _unpacked(message["requests"], bodies)])
        entries = [{"status": a.status, "rows": a.rows, "flagged": a.flagged, "refused": a.refused} for a in answers]
        entries, payload = _packed(entries, [answer.body for answer in answers])
        parent.send({"answers": entries, "news": scorer.last_rows.compare()}, payload)


def _packed(entries: list[dict[str, Any]], bodies: list[bytes]) -> tuple[list[dict[str, Any]], bytes]:
    return [{**entry, "size": len(body)} for entry, body in zip(entries, bodies, strict=True)], b"".join(bodies)


def _unpacked(entries: list[dict[str, Any]], payload: bytearray) -> list[tuple[dict[str, Any], bytes]]:
    unpacked, place = [], 0
    for entry in entries:
        size = entry.pop("size")
        unpacked.append((entry, bytes(payload[place : place + size])))
        place += size
    return unpacked
