"""The report: what was found in a table, as a dict for JSON and as one self-contained HTML file."""

from nptad.report.html import render, write_report
from nptad.report.rows import LISTED_ROWS
from nptad.report.summary import summarise

__all__ = ["LISTED_ROWS", "render", "summarise", "write_report"]
