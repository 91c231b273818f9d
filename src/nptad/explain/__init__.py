"""Which cells and which rows made a score."""

from nptad.explain.result import CellReason, Explanation, NearestRow, RowExplanation, TrainingRow

__all__ = ["CellReason", "Explanation", "NearestRow", "RowExplanation", "TrainingRow"]
