"""What is counted, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the buckets of the latency histogram."""

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Histogram:
    """How many values lie up to each of some ends.

    >>> seconds = Histogram()
    >>> seconds.add(0.02)
    >>> seconds.counts[:4], seconds.total
    ([0, 0, 1, 0], 0.02)
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(SECONDS, value)] += 1
        self.total += value


@dataclass
class Metrics:
    """What has happened since the start."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By path and status."""
    seconds: dict[str, Histogram] = field(default_factory=lambda: {"/score": Histogram(), "/explain": Histogram()})
    """By path, of requests that got scores."""
    rows: int = 0
    flagged: int = 0
    refused_rows: int = 0
    batches: int = 0
    worker_ends: int = 0
    reloads: Counter[str] = field(default_factory=lambda: Counter(done=0, failed=0))

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request, and how long it took if rows were scored."""
        self.requests[path, status] += 1
        if status == 200 and path in self.seconds:
            self.seconds[path].add(seconds)

    def text(self, facts: Mapping[str, Any], news: Sequence[Mapping[str, Any]], waiting: int) -> str:
        """Everything as text; ``news`` is what the last rows of each worker say."""
        drifted = {name for said in news for name in said["drifted"]}
        used = [str(column["name"]) for column in facts["columns"] if column["kind"] != "ignored"]
        share = max((said["flagged_share"] for said in news), default=0.0)
        info = {"model": facts["model"], "nptad": facts["nptad"]}
        lines = [
            *_family("requests_total", "counter", "Requests by path and status.", self._requests()),
            *self._histogram(),
            *_family("rows_total", "counter", "Rows that got a score.", [({}, self.rows - self.refused_rows)]),
            *_family("flagged_rows_total", "counter", "Rows that were flagged.", [({}, self.flagged)]),
            *_family("refused_rows_total", "counter", "Rows that got an error.", [({}, self.refused_rows)]),
            *_family("flagged_share", "gauge", "Share of flagged rows among the last 2,000.", [({}, share)]),
            *_family(
                "column_drift",
                "gauge",
                "1 if the last 2,000 cells of a column differ from training beyond chance.",
                (({"column": name}, int(name in drifted)) for name in used),
            ),
            *_family("waiting_requests", "gauge", "Requests that wait for a worker.", [({}, waiting)]),
            *_family("workers", "gauge", "Processes that score.", [({}, len(news))]),
            *_family("batches_total", "counter", "Batches that requests were scored in.", [({}, self.batches)]),
            *_family("worker_ends_total", "counter", "Workers that ended unasked.", [({}, self.worker_ends)]),
            *_family(
                "reloads_total",
                "counter",
                "Models that took over, or could not.",
                [({"result": result}, count) for result, count in self.reloads.items()],
            ),
            *_family("model_info", "gauge", "The present model.", [(info, 1)]),
        ]
        return "\n".join(lines) + "\n"

    def _requests(self) -> Iterable[tuple[dict[str, str], int]]:
        return [({"path": path, "status": str(status)}, count) for (path, status), count in self.requests.items()]

    def _histogram(self) -> list[str]:
        lines = _family("request_seconds", "histogram", "From the first byte of a request to its answer.", ())
        for path, found in self.seconds.items():
            below = 0
            for end, count in zip((*map(str, SECONDS), "+Inf"), found.counts, strict=True):
                below += count
                lines.append(_sample("request_seconds_bucket", {"path": path, "le": end}, below))
            lines.append(_sample("request_seconds_sum", {"path": path}, found.total))
            lines.append(_sample("request_seconds_count", {"path": path}, below))
        return lines


def _family(name: str, kind: str, said: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    head = [f"# HELP nptad_{name} {said}", f"# TYPE nptad_{name} {kind}"]
    return head + [_sample(name, labels, value) for labels, value in samples]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"nptad_{name}{{{pairs}}} {value}" if pairs else f"nptad_{name} {value}"


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode(errors="replace").decode()
