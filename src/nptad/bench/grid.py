"""A table of text and figures, written as Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from nptad.io.atomic import replacing

_FITTING_COLUMNS = 8  # columns that fit the width of a LaTeX page


@dataclass(frozen=True)
class Figure:
    """A mean and its spread, or None for a single value."""

    mean: float
    spread: float | None = None
    bold: bool = False
    decimals: int = 1


Cell = str | Figure | None


@dataclass(frozen=True)
class Grid:
    """Rows of cells under column titles."""

    name: str  # file name without suffix
    caption: str
    columns: list[str]
    rows: list[list[Cell]]

    def markdown(self) -> str:
        """A Markdown table."""
        lines = ["| " + " | ".join(self.columns) + " |", "|---" + "|---:" * (len(self.columns) - 1) + "|"]
        lines += ["| " + " | ".join(_text(cell, "**{}**", " ± ") for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A LaTeX table, made smaller if it does not fit the page."""
        before, after = (r"\resizebox{\textwidth}{!}{", "}") if len(self.columns) > _FITTING_COLUMNS else ("", "")
        head = " & ".join(_escape(column) for column in self.columns)
        body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        lines = [
            r"\begin{table}",
            rf"\caption{{{_escape(self.caption)}}}",
            rf"{before}\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            *(r"\toprule", head + r" \\", r"\midrule", *body, r"\bottomrule"),
            rf"\end{{tabular}}{after}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Comma-separated values; a column in which any cell has a spread gets a ``_std`` column."""
        has_spread = [any(_csv(row[j])[1] for row in self.rows) for j in range(len(self.columns))]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        pairs = [[(column, f"{column}_std") for column in self.columns], *(map(_csv, row) for row in self.rows)]
        for row in pairs:
            writer.writerow([value for pair, wide in zip(row, has_spread, strict=True) for value in pair[: 1 + wide]])
        return text.getvalue()

    def write(self, directory: Path) -> list[Path]:
        """Write all three formats into a folder."""
        paths = []
        for suffix, text in (("md", self.markdown()), ("csv", self.csv()), ("tex", self.latex())):
            paths.append(directory / f"{self.name}.{suffix}")
            with replacing(paths[-1]) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return paths


def _text(cell: Cell, bold: str, plus_minus: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    text = f"{cell.mean:.{cell.decimals}f}"
    if cell.spread is not None:
        text += f"{plus_minus}{cell.spread:.{cell.decimals}f}"
    return bold.format(text) if cell.bold else text


def _csv(cell: Cell) -> tuple[str, str]:
    """The value of a cell and its spread."""
    if not isinstance(cell, Figure):
        return cell or "", ""
    return f"{cell.mean:.3f}", "" if cell.spread is None else f"{cell.spread:.3f}"


def _latex(cell: Cell) -> str:
    if not isinstance(cell, Figure):
        return _escape(cell or "")
    return "$" + _text(cell, r"\mathbf{{{}}}", r" \pm ") + "$"


def _escape(text: str) -> str:
    for character in "&%$#_":
        text = text.replace(character, "\\" + character)
    return text
