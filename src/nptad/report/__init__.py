"""The report: what was found in a table, as a dict for JSON and as one self-contained HTML file."""

from nptad.report.html import render, write_report
from nptad.report.summary import summarise

__all__ = ["render", "summarise", "write_report"]
