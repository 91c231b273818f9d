"""A table of text and figures, written as Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from nptad.io.atomic import replacing

_FITTING_COLUMNS = 8
"""Columns that a page of LaTeX has room for."""


@dataclass(frozen=True)
class Figure:
    """A mean with its spread; None where there is none."""

    mean: float
    spread: float | None = None
    bold: bool = False
    decimals: int = 1


Cell = str | Figure | None


@dataclass(frozen=True)
class Grid:
    """Rows of cells under column titles."""

    name: str
    """File name without suffix."""
    caption: str
    columns: list[str]
    rows: list[list[Cell]]

    def markdown(self) -> str:
        """A Markdown table."""
        lines = ["| " + " | ".join(self.columns) + " |", "|---" + "|---:" * (len(self.columns) - 1) + "|"]
        lines += ["| " + " | ".join(_text(cell, "**{}**", " ± ") for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A LaTeX tabular in a table environment, made smaller if it would not fit the page."""
        before, after = (r"\resizebox{\textwidth}{!}{", "}") if len(self.columns) > _FITTING_COLUMNS else ("", "")
        head = " & ".join(_escape(column) for column in self.columns)
        body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_escape(self.caption)}}}",
                rf"{before}\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\toprule",
                head + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                rf"\end{{tabular}}{after}",
                r"\end{table}",
                "",
            ]
        )

    def csv(self) -> str:
        """Comma-separated values: a mean and a ``_std`` column where any cell has a spread."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        spread = [any(isinstance(cell, Figure) and cell.spread is not None for cell in column) for column in cells]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            [
                name
                for j, column in enumerate(self.columns)
                for name in ([column, f"{column}_std"] if spread[j] else [column])
            ]
        )
        for row in self.rows:
            line: list[str] = []
            for j, cell in enumerate(row):
                mean, std = (cell.mean, cell.spread) if isinstance(cell, Figure) else (cell, None)
                line.append("" if mean is None else f"{mean:.3f}" if isinstance(mean, float) else str(mean))
                if spread[j]:
                    line.append("" if std is None else f"{std:.3f}")
            writer.writerow(line)
        return text.getvalue()

    def write(self, directory: Path) -> list[Path]:
        """Write all three into a directory."""
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


def _latex(cell: Cell) -> str:
    if not isinstance(cell, Figure):
        return _escape(cell or "")
    text = _text(cell, r"\mathbf{{{}}}", r" \pm ")
    return f"${text}$"


def _escape(text: str) -> str:
    for character in "&%$#_":
        text = text.replace(character, "\\" + character)
    return text
